"""Files below a folder: nothing half-written is seen, nothing outside is reached."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rmhdag.models.blobs import BlobAddress
from rmhdag.models.records import Zone
from rmhdag.storage import BlobConflict, OutsideStorage, Storage, StorageSettings, open_storage


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return open_storage(StorageSettings(str(tmp_path / "root")), "default")


def at(path: str, container: str = "c") -> BlobAddress:
    return BlobAddress(Zone.BRONZE, container, path)


def test_links_lead_nowhere(storage: Storage, tmp_path: Path) -> None:
    storage.write(at("a/file"), b"inside")
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "file").write_bytes(b"secret")
    container = tmp_path / "root" / "bronze" / "c"
    (container / "folder").symlink_to(tmp_path / "secret")
    (container / "file").symlink_to(tmp_path / "secret" / "file")
    (container.parent / "other").symlink_to(tmp_path / "secret")
    for address in (at("folder/file"), at("file"), at("file", "other")):
        for attempt in (storage.read, storage.info, storage.gdal_path, storage.sha256):
            with pytest.raises(OutsideStorage, match="symbolic link"):
                attempt(address)
    with pytest.raises(OutsideStorage):
        storage.write(at("folder/new"), b"x")
    assert not (tmp_path / "secret" / "new").exists()
    assert [info.address.path for info in storage.list(Zone.BRONZE, "c")] == ["a/file"]
    assert storage.containers(Zone.BRONZE) == ("c",)
    storage.write(at("file"), b"replaces the link, not what it names")
    assert (tmp_path / "secret" / "file").read_bytes() == b"secret"


def test_a_pipe_is_no_file(storage: Storage, tmp_path: Path) -> None:
    storage.write(at("a"), b"")
    os.mkfifo(tmp_path / "root/bronze/c/pipe")
    assert not storage.exists(at("pipe"))
    assert [info.address.path for info in storage.list(Zone.BRONZE, "c")] == ["a"]


def test_a_folder_and_a_file_cannot_share_a_name(storage: Storage) -> None:
    storage.write(at("a/b"), b"1")
    with pytest.raises(BlobConflict, match="folder"):
        storage.write(at("a"), b"2")
    with pytest.raises(BlobConflict, match="file, not a folder"):
        storage.write(at("a/b/c"), b"2")
