"""raster.blob_to_mount: a file in a folder, whole, and the same as in storage."""

from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from rmhdag.handlers import NonRetryableError
from tests.handlers.raster.rasters import Bench


@pytest.fixture
def mount(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = bench.folder / "mount"
    folder.mkdir()
    monkeypatch.setenv("RMHDAG_MOUNT", str(folder))
    return folder


def put(bench: Bench, content: bytes) -> dict[str, Any]:
    (bench.folder / "file.bin").write_bytes(content)
    return bench.put(bench.folder / "file.bin", "a/file.bin").model_dump(mode="json")


def test_a_file_is_copied_once(bench: Bench, mount: Path) -> None:
    source = put(bench, b"pixels")
    output: Any = bench.output("raster.blob_to_mount", source=source)
    path = mount / "bronze" / "in" / "a" / "file.bin"
    assert output == {"path": str(path), "size_bytes": 6, "sha256": sha256(b"pixels").hexdigest()}
    assert path.read_bytes() == b"pixels"
    written_at = path.stat().st_mtime_ns
    assert bench.output("raster.blob_to_mount", container_name="in", blob_name="a/file.bin") == output
    assert path.stat().st_mtime_ns == written_at


def test_a_file_that_was_damaged_there_is_copied_again(bench: Bench, mount: Path) -> None:
    output: Any = bench.output("raster.blob_to_mount", source=put(bench, b"pixels"))
    Path(output["path"]).write_bytes(b"pi")
    bench.output("raster.blob_to_mount", container_name="in", blob_name="a/file.bin")
    assert Path(output["path"]).read_bytes() == b"pixels"


def test_a_file_that_was_replaced_in_storage_is_refused(bench: Bench, mount: Path) -> None:
    source = put(bench, b"pixels")
    put(bench, b"others")
    with pytest.raises(NonRetryableError, match="was replaced"):
        bench.run("raster.blob_to_mount", source=source)
    assert [path for path in mount.rglob("*") if path.is_file()] == []


def test_no_link_leads_out(bench: Bench, mount: Path) -> None:
    outside = bench.folder / "outside"
    outside.mkdir()
    (mount / "bronze").symlink_to(outside)
    with pytest.raises(NonRetryableError, match="leads out"):
        bench.run("raster.blob_to_mount", source=put(bench, b"pixels"))
    assert list(outside.iterdir()) == []


def test_no_link_in_place_of_the_file_is_followed(bench: Bench, mount: Path) -> None:
    outside = bench.folder / "outside.bin"
    (mount / "bronze" / "in" / "a").mkdir(parents=True)
    (mount / "bronze" / "in" / "a" / "file.bin").symlink_to(outside)
    with pytest.raises(NonRetryableError, match="leads out"):
        bench.run("raster.blob_to_mount", source=put(bench, b"pixels"))
    assert not outside.exists()


@pytest.mark.parametrize(
    ("path", "is_folder"), [("a/file.bin", True), ("a", False)], ids=["folder for file", "file for folder"]
)
def test_what_is_in_the_way_is_named(bench: Bench, mount: Path, path: str, is_folder: bool) -> None:
    place = mount / "bronze" / "in" / path
    place.parent.mkdir(parents=True)
    if is_folder:
        place.mkdir()
    else:
        place.write_bytes(b"")
    with pytest.raises(NonRetryableError, match=f"{path} is .*in the way"):
        bench.run("raster.blob_to_mount", source=put(bench, b"pixels"))


def test_a_missing_folder_is_named(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RMHDAG_MOUNT", raising=False)
    with pytest.raises(NonRetryableError, match="set RMHDAG_MOUNT"):
        bench.run("raster.blob_to_mount", source=put(bench, b"pixels"))
    monkeypatch.setenv("RMHDAG_MOUNT", str(bench.folder / "gone"))
    with pytest.raises(NonRetryableError, match="does not exist"):
        bench.run("raster.blob_to_mount", source=put(bench, b"pixels"))
