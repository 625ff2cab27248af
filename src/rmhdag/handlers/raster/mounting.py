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
    given = ctx.params.source
    wanted = given.sha256 if isinstance(given, BlobRef) else ctx.storage.sha256(ctx.params.place)
    target = place_in(mount() / home_of(ctx.namespace), ctx.params.place)
    if hash_of(target) == wanted:
        ctx.logger.info("%s is there already", target)
        found, size_bytes = wanted, target.stat().st_size
    else:
        ctx.progress(0, 1, "copying")
        copied = ctx.storage.download(ctx.params.place, target)
        found, size_bytes = copied.sha256, copied.size_bytes
    if found != wanted:
        target.unlink()
        raise NonRetryableError(f"{ctx.params.place} was replaced since it was checked: submit it again")
    return {"path": str(target), "size_bytes": size_bytes, "sha256": found}


def mount() -> Path:
    """The folder, which must be there: what is written beside a mount that is missing fills the wrong disk."""
    given = os.environ.get(VARIABLE)
    folder = Path(given) if given else None
    if folder is None or not folder.is_dir():
        what = f"the folder {folder} does not exist" if folder else "no folder is configured"
        raise NonRetryableError(f"{what}: set {VARIABLE} to a mounted folder where the worker is started")
    return folder.resolve()


def place_in(folder: Path, address: BlobAddress) -> Path:
    """By zone, container and path below the namespace's folder, so that equal names do not meet. A link that leads out
    is not followed."""
    target = folder.joinpath(address.zone, address.container, *address.path.split("/"))
    # What is not there yet resolves to itself, so nothing is made before this is known.
    if target.parent.resolve() != target.parent or target.is_symlink():
        raise NonRetryableError(f"{target} leads out of the mounted folder by a link: remove that link")
    if target.is_dir():
        raise NonRetryableError(f"{target} is a folder, in the way of a file of that name: remove it")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise NonRetryableError(f"{error.filename} is a file, in the way of a folder of that name: remove it") from None
    return target


def hash_of(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            return file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return None
