"""Files in storage to choose from: zones, containers and folders of the caller's namespace."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query

from rmhdag.api.context import ApiContext
from rmhdag.api.identity import Reader
from rmhdag.models.api.maps import ContainerList, FolderView, StoredFile
from rmhdag.models.records import Zone
from rmhdag.storage.media_types import media_type_of
from rmhdag.storage.zones import Storage

router = APIRouter(prefix="/api/v1/storage", tags=["storage"])

MOST_FILES = 1_000
ZonePath = Annotated[Zone, Path(description="A zone: what came in, what was made of it, what is for others")]


@router.get("/{zone}")
async def list_containers(zone: ZonePath, caller: Reader, api: ApiContext) -> ContainerList:
    """The containers of a zone that the namespace has, or that are shared with it."""

    def containers(storage: Storage) -> list[str]:
        return list(storage.containers(zone))

    return ContainerList(zone=zone, containers=await api.files.run(caller.namespace, containers))


@router.get("/{zone}/{container}")
async def list_folder(
    zone: ZonePath,
    container: Annotated[str, Path(max_length=64)],
    caller: Reader,
    api: ApiContext,
    folder: Annotated[str, Query(max_length=1024, description="A folder of it, as `2024/may`")] = "",
) -> FolderView:
    """The files and folders in one folder of a container. One that does not exist is empty, as in object stores."""
    listing = await api.files.run(
        caller.namespace, lambda storage: storage.folder(zone, container, folder.strip("/"), most=MOST_FILES)
    )
    files = [
        StoredFile(
            path=info.address.path,
            size_bytes=info.size_bytes,
            modified_at=info.modified_at,
            media_type=media_type_of(info.address.path),
        )
        for info in listing.files
    ]
    return FolderView(
        zone=zone,
        container=container,
        folder=folder.strip("/"),
        folders=listing.folders,
        files=files,
        is_complete=listing.is_complete,
    )
