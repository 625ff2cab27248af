"""Blob storage is bound to the namespace of the task: what another namespace has cannot be named, let alone read."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmhdag.handlers import NonRetryableError
from rmhdag.models.blobs import BlobAddress, BlobRef
from rmhdag.models.namespaces import RESERVED, home_of
from rmhdag.models.records import Zone
from rmhdag.storage import BlobNotFound, OutsideStorage, Storage, StorageError, StorageSettings, open_storage
from rmhdag.storage.namespaces import check_shares
from rmhdag.testing import HandlerBench
from tests.handlers.raster.rasters import hills, write_raster

ALPHA, BETA = "alpha", "beta"
SECRET = BlobAddress(Zone.BRONZE, "confidential", "dem.tif")


@pytest.fixture
def bench(tmp_path: Path) -> HandlerBench:
    return HandlerBench(tmp_path)


@pytest.fixture
def victim(bench: HandlerBench) -> BlobRef:
    """A raster of beta's."""
    return bench.storage_of(BETA).upload(write_raster(bench.folder / "dem.tif", hills(300, 300)), SECRET)


def run(bench: HandlerBench, handler: str, namespace: str, **params: Any) -> Any:
    return bench.run(handler, params, namespace=namespace).output


@pytest.mark.usefixtures("victim")
@pytest.mark.parametrize("namespace", [ALPHA, "default"])
def test_containers_of_others_are_neither_listed_nor_named(bench: HandlerBench, namespace: str) -> None:
    bench.storage_of(namespace).write(BlobAddress(Zone.BRONZE, "mine", "a.tif"), b"a")
    for zone in Zone:
        assert bench.storage_of(namespace).containers(zone) == (("mine",) if zone is Zone.BRONZE else ())
    with pytest.raises(NonRetryableError) as refused:
        run(bench, "stac.list_raster_files", namespace, container_name="nope", allow_empty=False)
    assert "confidential" not in str(refused.value)
    assert "mine" in str(refused.value)
    assert run(bench, "stac.list_raster_files", namespace, container_name="confidential")["count"] == 0


@pytest.mark.parametrize("namespace", [ALPHA, "default"])
@pytest.mark.parametrize("container", ["confidential", f"{home_of(BETA)}", "..", "%2e%2e"])
def test_files_of_others_are_not_read(bench: HandlerBench, victim: BlobRef, namespace: str, container: str) -> None:
    for handler in ("raster.validate", "raster.create_cog"):
        for path in ("dem.tif", "confidential/dem.tif", f"../{home_of(BETA)}/confidential/dem.tif"):
            with pytest.raises((NonRetryableError, StorageError)):
                run(bench, handler, namespace, container_name=container, blob_name=path)
    with pytest.raises((NonRetryableError, StorageError)):
        run(bench, "raster.validate", namespace, source=victim.model_dump(mode="json"))
    assert (
        run(bench, "raster.validate", BETA, source=victim.model_dump(mode="json"))["source"]["sha256"] == victim.sha256
    )


def test_a_url_of_another_namespace_is_no_address(bench: HandlerBench, victim: BlobRef) -> None:
    url = bench.storage_of(BETA).url(victim.address)
    assert bench.storage_of(BETA).address_of(url) == victim.address
    for namespace in (ALPHA, "default"):
        own = bench.storage_of(namespace)
        for spelling in (
            url,
            url.replace(RESERVED, "%6eamespace-"),
            url.replace("/confidential", "/x/../confidential"),
        ):
            with pytest.raises(OutsideStorage):
                own.address_of(spelling)
            assert own.href_beside(spelling, BlobAddress(Zone.GOLD, "catalogue", "a/b.json")) == spelling


def test_equal_names_are_different_files(bench: HandlerBench) -> None:
    address = BlobAddress(Zone.SILVER, "work", "a.txt")
    for namespace in (ALPHA, BETA, "default"):
        bench.storage_of(namespace).write(address, namespace.encode(), if_absent=True)
    bench.storage_of(ALPHA).delete(address)
    assert bench.storage_of(BETA).read(address) == b"beta"
    assert bench.storage_of("default").read(address) == b"default"
    with pytest.raises(BlobNotFound):
        bench.storage_of(ALPHA).read(address)
    assert [info.address for info in bench.storage_of(BETA).list(Zone.SILVER, "work", "a")] == [address]


@pytest.mark.parametrize("namespace", [BETA, "default"])
def test_a_mosaic_deletes_no_address_that_it_was_given(bench: HandlerBench, namespace: str) -> None:
    """Not even of its own namespace: an address in a parameter says nothing about who made the file."""
    storage = bench.storage_of(namespace)
    kept = storage.upload(write_raster(bench.folder / "in.tif", hills(300, 300)), SECRET)
    output = run(bench, "raster.generate_tiling_scheme", namespace, source=kept.model_dump(mode="json"))
    bystander = storage.copy(SECRET, BlobAddress(Zone.SILVER, "cogs", "kept.tif"))
    claimed = {**output["source"], "sha256": "0" * 64}
    with pytest.raises(NonRetryableError, match="was replaced while its tiles were cut"):
        run(
            bench,
            "raster.mosaic",
            namespace,
            tiles=[{"col": 0, "row": 0, "blob": bystander.model_dump(mode="json")}],
            scheme=output["scheme"],
            source=claimed,
        )
    assert storage.exists(bystander.address)
    assert storage.exists(SECRET)


def test_a_tile_batch_deletes_nothing(bench: HandlerBench, victim: BlobRef) -> None:
    """What is not the tile that was expected is written anew, in one's own namespace."""
    mine = bench.storage_of(ALPHA).upload(bench.folder / "dem.tif", SECRET)
    output = run(bench, "raster.generate_tiling_scheme", ALPHA, source=mine.model_dump(mode="json"))
    batch = {"source": output["source"], "scheme": output["scheme"], "batch": output["batches"][0]}
    made = run(bench, "raster.process_tile_batch", ALPHA, **batch)
    tile = BlobRef.model_validate(made["tiles"][0]["blob"])
    theirs = bench.storage_of(BETA).write(tile.address, b"no tile")
    run(bench, "raster.process_tile_batch", ALPHA, **batch)
    assert bench.storage_of(BETA).read(theirs.address) == b"no tile"
    assert bench.storage_of(BETA).exists(victim.address)


def test_mounted_files_lie_apart(
    bench: HandlerBench, victim: BlobRef, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mount").mkdir()
    monkeypatch.setenv("RMHDAG_MOUNT", str(tmp_path / "mount"))
    bench.storage_of(ALPHA).write(SECRET, b"mine")
    bench.storage.write(SECRET, b"default")
    place = {"container_name": SECRET.container, "blob_name": SECRET.path}
    paths = {
        namespace: Path(run(bench, "raster.blob_to_mount", namespace, **place)["path"])
        for namespace in (ALPHA, BETA, "default")
    }
    assert paths[ALPHA].read_bytes() == b"mine"
    assert paths["default"].read_bytes() == b"default"
    assert paths[BETA].stat().st_size == victim.size_bytes
    assert paths["default"] == tmp_path / "mount" / "bronze" / "confidential" / "dem.tif"


def shared(folder: Path, namespace: str) -> Storage:
    shares = check_shares({ALPHA: {"bronze/reference": "read", "silver/exchange": "write"}, "*": {"gold/maps": "read"}})
    return open_storage(StorageSettings(str(folder), shares=shares), namespace)


def test_containers_are_shared_by_configuration(tmp_path: Path) -> None:
    reference, exchange = BlobAddress(Zone.BRONZE, "reference", "a"), BlobAddress(Zone.SILVER, "exchange", "b")
    maps = BlobAddress(Zone.GOLD, "maps", "c")
    default, alpha, beta = (shared(tmp_path, name) for name in ("default", ALPHA, BETA))
    for address in (reference, exchange, maps):
        default.write(address, b"shared")
        assert alpha.read(address) == b"shared"
        assert alpha.address_of(default.url(address)) == address
    for refused in (lambda: alpha.write(reference, b"x"), lambda: alpha.delete(maps), lambda: beta.delete(maps)):
        with pytest.raises(StorageError, match="for reading only: write to another container"):
            refused()
    alpha.write(exchange, b"from alpha")
    assert default.read(exchange) == b"from alpha"
    assert beta.read(maps) == b"shared"
    assert not beta.exists(exchange)
    assert alpha.containers(Zone.BRONZE) == ("reference",)


@pytest.mark.parametrize(
    ("shares", "sentence"),
    [
        ({"default": {"bronze/a": "read"}}, "which needs no share itself"),
        ({"alpha": {"bronze/a": "delete"}}, "write read or write"),
        ({"alpha": {"tin/a": "read"}}, "write ZONE/CONTAINER"),
        ({"alpha": {"bronze": "read"}}, "write ZONE/CONTAINER"),
        ({"alpha": {f"bronze/{home_of('beta')}": "read"}}, "write ZONE/CONTAINER"),
        ({"alpha": {"bronze/../silver": "read"}}, "write ZONE/CONTAINER"),
    ],
)
def test_wrong_shares_are_refused(shares: dict[str, dict[str, str]], sentence: str) -> None:
    with pytest.raises(StorageError, match=sentence):
        check_shares(shares)


@given(st.lists(st.text(min_size=1, max_size=64), min_size=2, max_size=6, unique=True))
def test_no_two_namespaces_have_one_home(namespaces: list[str]) -> None:
    named = [name for name in namespaces if name != "default"]
    more = [home_of(name).removeprefix(RESERVED) for name in named]
    homes = {name: home_of(name) for name in {*named, *more} - {"default"}}
    assert len(set(homes.values())) == len(homes)
    assert all(home.isascii() and "/" not in home and len(home) <= 63 for home in homes.values())


def test_without_a_namespace_there_is_no_storage(tmp_path: Path) -> None:
    """Whoever opens storage says for whom: there is nothing to forget."""
    with pytest.raises(TypeError):
        open_storage(StorageSettings(str(tmp_path)))  # type: ignore[call-arg]


def test_shares_reach_the_children_of_a_worker() -> None:
    shares = check_shares({ALPHA: {"bronze/reference": "read"}})
    settings = StorageSettings("/files", shares=shares)
    assert StorageSettings.from_variables(settings.as_variables()) == settings
