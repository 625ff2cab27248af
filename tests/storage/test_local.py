"""Files below a folder: nothing half-written is seen, nothing outside is reached."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

import pytest

from rmhdag.models.blobs import BlobAddress
from rmhdag.models.records import Zone
from rmhdag.storage import BlobConflict, OutsideStorage, Storage, StorageError, StorageSettings, open_storage
from tests.conftest import require


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


def moved(storage: Storage, local: Path, address: BlobAddress) -> None:
    storage.move(local, address, sha256=hashlib.sha256(local.read_bytes()).hexdigest())


def test_a_file_of_the_same_disk_is_moved_without_copying_it(storage: Storage, tmp_path: Path) -> None:
    local = tmp_path / "made"
    local.write_bytes(b"content")
    number = local.stat().st_ino
    moved(storage, local, at("folder/moved"))
    assert (tmp_path / "root/bronze/c/folder/moved").stat().st_ino == number


def test_a_file_that_somebody_else_may_change_is_copied(storage: Storage, tmp_path: Path) -> None:
    """A second name of the file would show each change of it in storage too."""
    local, other = tmp_path / "made", tmp_path / "other"
    local.write_bytes(b"content")
    other.hardlink_to(local)
    moved(storage, local, at("moved"))
    other.write_bytes(b"changed")
    assert storage.read(at("moved")) == b"content"
    other.unlink()
    local.symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").write_bytes(b"secret")
    with pytest.raises(OSError, match="symbolic links"):
        moved(storage, local, at("link"))
    assert not storage.exists(at("link"))


@pytest.mark.parametrize("disk", ["/dev/shm", "/var/tmp"])
def test_a_file_of_any_disk_is_moved(storage: Storage, disk: str) -> None:
    """On most machines at least one of these is another file system than that of the storage."""
    with tempfile.TemporaryDirectory(dir=disk) as folder:
        local = Path(folder, "made")
        local.write_bytes(b"content")
        moved(storage, local, at("moved"))
        assert not local.exists()
    assert storage.read(at("moved")) == b"content"


def test_a_folder_that_gives_its_group_gets_a_copy(storage: Storage, tmp_path: Path) -> None:
    """Others of the group read the files of such a folder."""
    require(os.geteuid() == 0, "root, who may give files to any group")
    storage.write(at("first"), b"")
    container = tmp_path / "root/bronze/c"
    os.chown(container, -1, 12_345)
    container.chmod(0o2770)
    local = tmp_path / "made"
    local.write_bytes(b"content")
    moved(storage, local, at("moved"))
    assert (container / "moved").stat().st_gid == 12_345


def test_nothing_is_moved_after_a_lost_lease(tmp_path: Path) -> None:
    calls: list[bool] = []

    def fence() -> None:
        calls.append(True)
        if len(calls) == 2:
            raise StorageError("the lease was lost")

    storage = open_storage(StorageSettings(str(tmp_path / "root")), "default", fence)
    local = tmp_path / "made"
    local.write_bytes(b"content")
    with pytest.raises(StorageError, match="lease was lost"):
        moved(storage, local, at("moved"))
    assert not storage.exists(at("moved"))
    assert not any((tmp_path / "root/bronze/c").iterdir()), "not even a hidden part"


def test_a_folder_is_not_replaced_by_what_is_moved(storage: Storage, tmp_path: Path) -> None:
    storage.write(at("a/b"), b"1")
    local = tmp_path / "made"
    local.write_bytes(b"content")
    with pytest.raises(BlobConflict, match="folder"):
        moved(storage, local, at("a"))
    assert storage.read(at("a/b")) == b"1"
