"""raster.blob_to_mount: a file from storage into a folder that several workers share, for programs that want a path."""

from __future__ import annotations

import os
from hashlib import file_digest
from pathlib import Path
from typing import Any

from rmhdag.handlers.contract import HandlerContext, NonRetryableError
from rmhdag.handlers.registry import handler
from rmhdag.handlers.sources import SourceParams
from rmhdag.models.blobs import BlobAddress, BlobRef
from rmhdag.models.namespaces import home_of

VARIABLE = "RMHDAG_MOUNT"


class BlobToMountParams(SourceParams):
    """The file to be copied."""


@handler("raster.blob_to_mount", aliases=["raster_blob_to_mount"])
def blob_to_mount(ctx: HandlerContext[BlobToMountParams]) -> dict[str, Any]:
    """Copies a file into the mounted folder, whole or not at all, and says its path, size and hash."""
    source = ctx.params.source
    expected = source.sha256 if isinstance(source, BlobRef) else ctx.storage.sha256(ctx.params.place)
    target = place_in(mount() / home_of(ctx.namespace), ctx.params.place)
    if hash_of(target) == expected:
        ctx.logger.info("%s already exists", target)
        sha256, size_bytes = expected, target.stat().st_size
    else:
        ctx.progress(0, 1, "copying")
        copied = ctx.storage.download(ctx.params.place, target)
        sha256, size_bytes = copied.sha256, copied.size_bytes
    if sha256 != expected:
        target.unlink()
        raise NonRetryableError(
            f"{ctx.params.place} was replaced since it was checked: submit it again", code="VALIDATION_ERROR"
        )
    return {"path": str(target), "size_bytes": size_bytes, "sha256": sha256}


def mount() -> Path:
    """The folder, which must exist: without the mount, files would fill the wrong disk."""
    path = os.environ.get(VARIABLE)
    folder = Path(path) if path else None
    if folder is None or not folder.is_dir():
        what = f"the folder {folder} does not exist" if folder else "no folder is configured"
        raise NonRetryableError(
            f"{what}: set {VARIABLE} to a mounted folder where the worker is started", code="MOUNT_UNUSABLE"
        )
    return folder.resolve()


def place_in(folder: Path, address: BlobAddress) -> Path:
    """By zone, container and path below the namespace's folder, so that equal names do not collide. A link out of the
    folder is not followed."""
    target = folder.joinpath(address.zone, address.container, *address.path.split("/"))
    # A missing path resolves to itself, so nothing is created before this check.
    if target.parent.resolve() != target.parent or target.is_symlink():
        raise NonRetryableError(
            f"{target} leads out of the mounted folder by a link: remove that link", code="MOUNT_UNUSABLE"
        )
    if target.is_dir():
        raise NonRetryableError(
            f"{target} is a folder, in the way of a file of that name: remove it", code="MOUNT_UNUSABLE"
        )
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise NonRetryableError(
            f"{error.filename} is a file, in the way of a folder of that name: remove it", code="MOUNT_UNUSABLE"
        ) from None
    return target


def hash_of(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            return file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return None
