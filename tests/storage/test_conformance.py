"""What every kind of store does alike: folders, a real Azurite and an S3 server."""

import hashlib
import threading
import uuid
from pathlib import Path, PosixPath
from typing import Any

import pytest

from rmhdag.models.blobs import BlobAddress
from rmhdag.models.records import Zone
from rmhdag.storage import (
    BlobConflict,
    BlobNotFound,
    OutsideStorage,
    Storage,
    StorageError,
    StorageSettings,
    open_storage,
)
from tests.storage.azurite import ACCOUNT, KEY, create_container
from tests.storage.conftest import at

CONTENT = bytes(range(256)) * 4096
NAMES = [
    "plain.tif",
    "with space.tif",
    "-dash",
    "ünï/日本.tif",
    "a%20b",
    "a+b&c=d",
    "#x?y",
    "a'b\"c",
    "~[x]*",
    "x" * 255,
]


def paths(storage: Storage, prefix: str = "") -> list[str]:
    return [info.address.path for info in storage.list(Zone.BRONZE, "rasters", prefix)]


def test_what_is_written_is_read(storage: Storage) -> None:
    ref = storage.write(at("a/b.tif"), CONTENT)
    assert ref.sha256 == hashlib.sha256(CONTENT).hexdigest() == storage.sha256(at("a/b.tif"))
    assert (ref.size_bytes, ref.media_type) == (len(CONTENT), "image/tiff; application=geotiff")
    assert storage.read(ref.address) == CONTENT
    info = storage.info(ref.address)
    assert (info.address, info.size_bytes) == (at("a/b.tif"), len(CONTENT))
    assert info.etag
    assert info.modified_at.tzinfo is not None
    assert storage.read_range(ref.address, 1000, 10) == CONTENT[1000:1010]
    assert storage.read_range(ref.address, len(CONTENT) - 3, 10) == CONTENT[-3:]
    assert storage.read_range(ref.address, len(CONTENT), 10) == b""
    with pytest.raises(StorageError, match="more than 1000 bytes"):
        storage.read(ref.address, max_bytes=1000)
    storage.write(at("a/b.tif"), b"")
    assert storage.read(ref.address) == b""


def test_what_is_not_there(storage: Storage) -> None:
    for attempt in (storage.info, storage.read, storage.sha256):
        with pytest.raises(BlobNotFound, match=r"rasters/none\.tif"):
            attempt(at("none.tif"))
    assert not storage.exists(at("none.tif"))
    assert paths(storage) == []
    assert storage.containers(Zone.GOLD) == ()
    storage.delete(at("none.tif"))


def test_names_come_back_as_they_were(storage: Storage) -> None:
    for name in NAMES:
        storage.write(at(name), name.encode())
    assert paths(storage) == sorted(NAMES)
    for name in NAMES:
        url = storage.url(at(name))
        assert url.isascii()
        assert " " not in url
        assert storage.address_of(url) == at(name)
        assert storage.read(at(name)).decode() == name
        storage.delete(at(name))
    assert storage.containers(Zone.BRONZE) == ()


def test_listing(storage: Storage) -> None:
    written = ["a", "a-b/c", "a.b", "b/c/d", "b/cc", "b1"]
    for path in reversed(written):
        storage.write(at(path), path.encode())
    storage.write(at("other", "zzz"), b"")
    assert paths(storage) == written
    assert paths(storage, "b/c") == ["b/c/d", "b/cc"]
    assert paths(storage, "b/") == ["b/c/d", "b/cc"]
    assert paths(storage, "a") == ["a", "a-b/c", "a.b"]
    assert storage.containers(Zone.BRONZE) == ("rasters", "zzz")
    assert storage.containers(Zone.SILVER) == ()
    with pytest.raises(OutsideStorage):
        next(storage.list(Zone.BRONZE, "rasters", "../x"))


def test_conditions(storage: Storage) -> None:
    storage.write(at("x"), b"1", if_absent=True)
    with pytest.raises(BlobConflict):
        storage.write(at("x"), b"2", if_absent=True)
    etag = storage.info(at("x")).etag
    storage.write(at("x"), b"3", if_match=etag)
    with pytest.raises(BlobConflict):
        storage.write(at("x"), b"4", if_match=etag)
    with pytest.raises((BlobConflict, BlobNotFound)):
        storage.write(at("gone"), b"5", if_match=etag)
    assert storage.read(at("x")) == b"3"
    assert not storage.exists(at("gone"))


def test_one_of_two_writers_is_first(storage: Storage) -> None:
    barrier, won, lost = threading.Barrier(6, timeout=60), [], []

    def write(number: int) -> None:
        barrier.wait()
        try:
            storage.write(at("contended"), bytes([number]) * 100_000, if_absent=True)
            won.append(number)
        except BlobConflict:
            lost.append(number)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(won), len(lost)) == (1, 5)
    assert storage.read(at("contended")) == bytes(won) * 100_000


def test_files_go_up_and_down(storage: Storage, tmp_path: Path) -> None:
    local = tmp_path / "made.tif"
    local.write_bytes(CONTENT * 20)
    ref = storage.upload(local, at("up.tif", zone=Zone.SILVER))
    etag = storage.info(ref.address).etag
    assert storage.upload(local, ref.address) == ref
    assert storage.info(ref.address).etag == etag, "the same bytes are not written twice"
    copied = storage.copy(ref.address, at("deep/copy.tif", zone=Zone.GOLD))
    assert (copied.sha256, copied.size_bytes) == (ref.sha256, ref.size_bytes)
    assert storage.download(copied.address, tmp_path / "down.tif").sha256 == ref.sha256
    assert (tmp_path / "down.tif").read_bytes() == local.read_bytes()
    local.write_bytes(b"other")
    assert storage.upload(local, ref.address).sha256 != ref.sha256
    assert storage.read(ref.address) == b"other"
    with pytest.raises(BlobNotFound):
        storage.download(at("none"), tmp_path / "none")
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == ["down.tif", "made.tif"]


def test_a_file_of_the_caller_alone_is_moved(storage: Storage, tmp_path: Path) -> None:
    local = tmp_path / "made.parquet"
    refs = []
    for content in (CONTENT * 20, CONTENT * 20, b"other"):
        local.write_bytes(content)
        sha256 = hashlib.sha256(content).hexdigest()
        refs.append(storage.move(local, at("moved.parquet"), sha256=sha256))
        assert not local.exists()
        assert storage.read(refs[-1].address) == content
        assert (refs[-1].size_bytes, refs[-1].sha256) == (len(content), sha256)
    assert refs[0] == refs[1]
    assert paths(storage) == ["moved.parquet"]


class Growing(PosixPath):
    """More is appended each time that it is opened."""

    def open(self, *args: Any, **kwargs: Any) -> Any:
        with super().open("ab") as file:
            file.write(b"more")
        return super().open(*args, **kwargs)


def test_a_file_that_changes_while_it_is_uploaded_is_not_seen(storage: Storage, tmp_path: Path) -> None:
    local = Growing(tmp_path / "growing")
    local.write_bytes(CONTENT * 12)
    storage.write(at("growing"), b"before")
    with pytest.raises(StorageError, match="was changed while"):
        storage.upload(local, at("growing"))
    assert storage.read(at("growing")) == b"before"
    assert paths(storage) == ["growing"]


HOSTILE = [
    "../x", "a/../../x", "/etc/passwd", "a//b", "a/", "./a", "%2e%2e/x", "a/%2E%2e/x", "%252e%252e/x", "a%2fb",
    "a%5c..", "a\\b", "a\0b", "a%00b", "a\nb", "a\x1bb", "\ud800", "e\u0301", "x" * 256, "a/" * 600 + "a", "", ".",
    "..",
]  # fmt: skip


@pytest.mark.parametrize("path", HOSTILE, ids=ascii)
def test_nothing_outside_is_named(tmp_path: Path, path: str) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "x").write_bytes(b"secret")
    storage = open_storage(StorageSettings(str(tmp_path / "root")), "default")
    for address in (at(path), at("x", container=path)):
        for attempt in (storage.read, storage.info, storage.delete, storage.url, storage.gdal_path, storage.sha256):
            with pytest.raises(OutsideStorage) as caught:
                attempt(address)
            assert str(caught.value).isprintable()
        with pytest.raises(OutsideStorage):
            storage.write(address, b"y")
    assert (tmp_path / "x").read_bytes() == b"secret"
    assert [found.name for found in tmp_path.rglob("*") if found.is_file()] == ["x"]


def test_urls_of_others_are_refused(storage: Storage) -> None:
    inside = storage.url(at("a"))
    for url in (
        "https://example.org/a",
        inside.replace("rasters/a", "rasters/%2e%2e/%2e%2e/%2e%2e/a"),
        inside.replace("rasters/a", "../../x"),
        inside.replace("bronze", "bronzed"),
        inside.replace("bronze", "bronze/../silver"),
        "",
    ):
        with pytest.raises(OutsideStorage):
            storage.address_of(url)


def test_what_is_not_configured_is_named(tmp_path: Path) -> None:
    storage = open_storage(StorageSettings(zones={Zone.BRONZE: str(tmp_path / "in")}), "default")
    with pytest.raises(StorageError, match="RMHDAG_STORAGE_SILVER"):
        storage.read(BlobAddress(Zone.SILVER, "a", "b"))
    with pytest.raises(StorageError, match="are nested"):
        open_storage(StorageSettings(str(tmp_path), {Zone.BRONZE: str(tmp_path / "silver" / "x")}), "default")
    for url in ("ftp://x/y", "relative", "az://", "s3://", "s3://key@bucket/x", "az://a/b?sig=x"):
        with pytest.raises(StorageError):
            open_storage(StorageSettings(url), "default")


def test_a_namespace_has_a_place_of_its_own(storage: Storage, storage_settings: StorageSettings) -> None:
    """In every kind of store: equal addresses are different files, and nobody lists those of others."""
    address = BlobAddress(Zone.BRONZE, "uploads", "a b/c.tif")
    alpha, beta = (open_storage(storage_settings, name) for name in ("alpha", "beta"))
    for view, content in ((storage, b"default"), (alpha, b"alpha"), (beta, b"beta")):
        view.write(address, content, if_absent=True)
    alpha.write(BlobAddress(Zone.BRONZE, "more", "d"), b"d")
    for view, content in ((storage, b"default"), (alpha, b"alpha"), (beta, b"beta")):
        assert view.read(address) == content
        assert [info.address for info in view.list(Zone.BRONZE, "uploads", "a b/")] == [address]
        assert view.address_of(view.url(address)) == address
        assert not any(other.owns(view.url(address)) for other in (storage, alpha, beta) if other is not view)
    assert alpha.containers(Zone.BRONZE) == ("more", "uploads")
    assert beta.containers(Zone.BRONZE) == storage.containers(Zone.BRONZE) == ("uploads",)
    with pytest.raises(OutsideStorage, match="hold the files of other namespaces"):
        storage.read(BlobAddress(Zone.BRONZE, "namespace-alpha", "uploads/a b/c.tif"))
    alpha.delete(address)
    assert beta.exists(address)
    assert storage.exists(address)


def test_namespaces_in_an_account_are_containers(azurite: str) -> None:
    name = f"alpha-{uuid.uuid4().hex[:8]}"
    create_container(azurite, f"namespace-{name}")
    options = {"azure_account_key": KEY, "azure_endpoint": azurite}
    alpha = open_storage(StorageSettings(zones={Zone.BRONZE: f"az://{ACCOUNT}"}, options=options), name)
    address = BlobAddress(Zone.BRONZE, "uploads", "a.tif")
    alpha.write(address, b"a")
    assert [info.address for info in alpha.list(Zone.BRONZE, "uploads")] == [address]
    assert alpha.containers(Zone.BRONZE) == ("uploads",)
