"""Blobs as files below one folder.

Every component is opened by the descriptor of the one above it and no symbolic link is followed, so replacing a folder
by a link between a check and its use has no effect. A write goes to a hidden name, is synced and then renamed;
conditional writes hold the folder's lock.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

from rmhdag.storage.errors import BlobConflict, BlobNotFound, OutsideStorage, StorageError
from rmhdag.storage.gdal import CLOSED
from rmhdag.storage.root import ALWAYS, PIECE_BYTES, Condition, Entry, GdalSource, Head, Level, is_usable

PART_PREFIX = ".rmhdag-part-"
# A new part is not protected until it is locked.
PART_GRACE_SECONDS = 3600.0
MOST_TRIES = 1000
AGAIN = "its folder is removed repeatedly"
FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Opening a pipe instead of a file must not block.
READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
PART_FLAGS = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class LocalRoot:
    def __init__(self, folder: Path) -> None:
        # The path of the folder itself may contain a link; paths below it may not.
        self.folder = folder.resolve()
        self.url = "file://" + quote(str(self.folder))

    def head(self, key: str) -> Head:
        with self._opened(key) as descriptor:
            return head_of(os.fstat(descriptor))

    def pieces(self, key: str) -> Iterator[bytes]:
        with self._opened(key) as descriptor, told(key):
            while piece := os.read(descriptor, PIECE_BYTES):
                yield piece

    def read_range(self, key: str, offset: int, length: int) -> bytes:
        with self._opened(key) as descriptor, told(key):
            return os.pread(descriptor, length, offset)

    def write(
        self,
        key: str,
        pieces: Iterable[bytes],
        *,
        size_bytes: int | None,
        sha256: str | None,
        media_type: str | None,
        condition: Condition,
    ) -> None:
        above, _, name = key.rpartition("/")
        refuse_part(name, key)
        with self._part(above, key) as (folder, part, descriptor):
            for piece in pieces:
                with told(key):
                    write_all(descriptor, piece)
            with told(key):
                os.fsync(descriptor)
                with locked(folder):
                    check(folder, name, condition, key)
                    os.rename(part, name, src_dir_fd=folder, dst_dir_fd=folder)
                os.fsync(folder)

    def take(self, key: str, local: Path, before_visible: Callable[[], None]) -> bool:
        """Only a file of this disk that nobody else has a name for, and that would get the same group."""
        above, _, name = key.rpartition("/")
        refuse_part(name, key)
        descriptor = os.open(local, READ_FLAGS)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            with told(key), self._folder(above, key, create=True) as folder:
                if not is_like_new(os.fstat(descriptor), os.fstat(folder)):
                    return False
                os.fsync(descriptor)
                # Locked, so that no clean-up deletes it.
                part = PART_PREFIX + secrets.token_hex(8)
                try:
                    os.rename(local, part, dst_dir_fd=folder)
                except OSError:
                    return False
                try:
                    before_visible()
                    with locked(folder):
                        check(folder, name, ALWAYS, key)
                        os.rename(part, name, src_dir_fd=folder, dst_dir_fd=folder)
                    os.fsync(folder)
                finally:
                    with suppress(FileNotFoundError):
                        os.unlink(part, dir_fd=folder)
            return True
        finally:
            os.close(descriptor)

    def delete(self, key: str) -> None:
        """Delete empty folders too: an object store has none either."""
        above, _, name = key.rpartition("/")
        with told(key), self._folder(above, key) as folder:
            with locked(folder):
                if not stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                    raise BlobNotFound(f"{key} is not a file")
                os.unlink(name, dir_fd=folder)
            os.fsync(folder)
        while above:
            above, _, name = above.rpartition("/")
            with suppress(OSError), self._folder(above, key) as folder:
                os.rmdir(name, dir_fd=folder)
                continue
            break

    def entries(self, folder: str) -> Iterator[Entry]:
        try:
            with told(folder), self._folder(folder, folder) as descriptor:
                yield from self._walk(descriptor, folder)
        except BlobNotFound:
            return

    def _walk(self, folder: int, above: str) -> Iterator[Entry]:
        """In the order of keys: a folder's name counts with the slash behind it."""
        with os.scandir(folder) as entries:
            listed = sorted((entry.name + "/" * entry.is_dir(follow_symlinks=False)) for entry in entries)
        for name in listed:
            with suppress(FileNotFoundError):
                if name.startswith(PART_PREFIX):
                    sweep_part(folder, name)
                elif not is_usable(name.rstrip("/"), above):
                    continue
                elif name.endswith("/"):
                    inner = os.open(name.rstrip("/"), FOLDER_FLAGS, dir_fd=folder)
                    try:
                        yield from self._walk(inner, above + "/" + name.rstrip("/"))
                    finally:
                        os.close(inner)
                else:
                    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
                    if stat.S_ISREG(status.st_mode):
                        yield Entry(f"{above}/{name}", head_of(status))

    def folders(self, above: str = "") -> Iterator[str]:
        try:
            with told(above), self._folder(above, above) as folder, os.scandir(folder) as entries:
                names = [
                    entry.name
                    for entry in entries
                    if entry.is_dir(follow_symlinks=False) and is_usable(entry.name, above)
                ]
        except BlobNotFound:
            return
        yield from sorted(names)

    def level(self, folder: str, most: int) -> Level:
        files: list[Entry] = []
        folders: list[str] = []
        try:
            with told(folder), self._folder(folder, folder) as descriptor, os.scandir(descriptor) as entries:
                listed = sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries)
                for name, is_folder in listed:
                    if name.startswith(PART_PREFIX) or not is_usable(name, folder):
                        continue
                    if is_folder:
                        folders.append(name)
                    elif len(files) <= most:
                        with suppress(FileNotFoundError):
                            status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
                            if stat.S_ISREG(status.st_mode):
                                files.append(Entry(f"{folder}/{name}", head_of(status)))
        except BlobNotFound:
            return Level([], [], True)
        return Level(files[:most], folders[:most], len(files) <= most and len(folders) <= most)

    def gdal_path(self, key: str) -> str:
        self.head(key)
        return str(self.folder / key)

    @contextmanager
    def gdal_source(self, key: str) -> Iterator[GdalSource]:
        """A path by descriptor: GDAL opens exactly the file that was checked, and sees no file beside it."""
        with self._opened(key) as descriptor:
            yield GdalSource(f"/proc/self/fd/{descriptor}", self.gdal_options(key))

    def gdal_options(self, key: str) -> dict[str, str]:
        return dict(CLOSED)

    @contextmanager
    def _opened(self, key: str) -> Iterator[int]:
        above, _, name = key.rpartition("/")
        refuse_part(name, key)
        with told(key), self._folder(above, key) as folder:
            try:
                descriptor = os.open(name, READ_FLAGS, dir_fd=folder)
            except OSError as error:
                refuse_link(error, folder, name, key)
                raise
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise BlobNotFound(f"{key} is not a file")
            yield descriptor
        finally:
            os.close(descriptor)

    @contextmanager
    def _folder(self, folder: str, key: str, *, create: bool = False) -> Iterator[int]:
        """A descriptor of the folder; each component is opened relative to the one above it."""
        if create:
            self.folder.mkdir(parents=True, exist_ok=True)
        here = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for name in folder.split("/") if folder else []:
                refuse_part(name, key)
                below = enter(here, name, key, create=create)
                os.close(here)
                here = below
            yield here
        finally:
            os.close(here)

    @contextmanager
    def _part(self, above: str, key: str) -> Iterator[tuple[int, str, int]]:
        """A new hidden file, locked so that no clean-up deletes it: its folder, its name and the file itself."""
        part = PART_PREFIX + secrets.token_hex(8)
        with ExitStack() as stack:
            with told(key):
                folder, descriptor = self._make_part(stack, above, part, key)
            try:
                yield folder, part, descriptor
            finally:
                os.close(descriptor)
                with suppress(FileNotFoundError):
                    os.unlink(part, dir_fd=folder)

    def _make_part(self, stack: ExitStack, above: str, part: str, key: str) -> tuple[int, int]:
        for _ in range(MOST_TRIES):
            folder = stack.enter_context(self._folder(above, key, create=True))
            # Another process may be deleting the last file of the folder, and the folder with it.
            with suppress(FileNotFoundError):
                descriptor = os.open(part, PART_FLAGS, 0o666, dir_fd=folder)
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                return folder, descriptor
        raise StorageError(f"{key} cannot be written: {AGAIN}")


def is_like_new(file: os.stat_result, folder: os.stat_result) -> bool:
    """Whether a file could have been made in the folder as it is."""
    is_plain = stat.S_ISREG(file.st_mode) and file.st_nlink == 1 and file.st_dev == folder.st_dev
    return is_plain and (not folder.st_mode & stat.S_ISGID or file.st_gid == folder.st_gid)


def enter(folder: int, name: str, key: str, *, create: bool) -> int:
    """The folder below; created if allowed and missing."""
    for _ in range(MOST_TRIES):
        try:
            return os.open(name, FOLDER_FLAGS, dir_fd=folder)
        except FileNotFoundError:
            if not create:
                raise
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=folder)
                os.fsync(folder)
        except OSError as error:
            refuse_link(error, folder, name, key)
            raise
    raise StorageError(f"{key} cannot be written: {AGAIN}")


def refuse_link(error: OSError, folder: int, name: str, key: str) -> None:
    if error.errno in (errno.ELOOP, errno.ENOTDIR):
        with suppress(FileNotFoundError):
            if stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                raise OutsideStorage(
                    f"{key}: {name} is a symbolic link, and links are not followed: put the file itself there"
                ) from None


def refuse_part(name: str, key: str) -> None:
    if name.startswith(PART_PREFIX):
        raise OutsideStorage(f"{key}: names that begin with {PART_PREFIX} are for files that are being written")


def check(folder: int, name: str, condition: Condition, key: str) -> None:
    """Called with the folder's lock, so that the result stays valid."""
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        if condition.if_match is not None:
            raise BlobConflict(f"{key} does not exist any more, so it cannot be replaced") from None
        return
    if stat.S_ISDIR(status.st_mode):
        raise BlobConflict(f"{key} is a folder: a file cannot have the same name")
    if condition.if_absent:
        raise BlobConflict(f"{key} already exists")
    if condition.if_match is not None and condition.if_match != head_of(status).etag:
        raise BlobConflict(f"{key} was replaced by another writer")


@contextmanager
def locked(folder: int) -> Iterator[None]:
    fcntl.flock(folder, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.flock(folder, fcntl.LOCK_UN)


@contextmanager
def told(key: str) -> Iterator[None]:
    """Translates errors of the system into errors of storage."""
    try:
        yield
    except FileNotFoundError:
        raise BlobNotFound(f"there is no {key or 'such folder'}") from None
    except NotADirectoryError:
        raise BlobConflict(f"{key}: part of it is a file, not a folder") from None
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG):
            raise  # the worker has its own message for a full disk
        raise StorageError(f"{key}: {error.strerror}") from error


def write_all(descriptor: int, piece: bytes) -> None:
    rest = memoryview(piece)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def sweep_part(folder: int, name: str) -> None:
    """Delete parts of writers that were killed: their locks are free."""
    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if time.time() - status.st_mtime < PART_GRACE_SECONDS:
        return
    descriptor = os.open(name, READ_FLAGS, dir_fd=folder)
    try:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(name, dir_fd=folder)
    finally:
        os.close(descriptor)


def head_of(status: os.stat_result) -> Head:
    """Every write creates a new file, so its inode number and time identify the version."""
    etag = f"{status.st_ino:x}-{status.st_mtime_ns:x}-{status.st_size:x}"
    return Head(status.st_size, etag, datetime.fromtimestamp(status.st_mtime, UTC))
