"""Whole containers of rasters: what is in them, as a list to fan out over, or registered as it lies there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from hashlib import sha256
from itertools import islice
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from rmhdag.handlers.contract import HandlerContext, NonRetryableError
from rmhdag.handlers.raster.opening import open_with_header, reading
from rmhdag.handlers.raster.validate import cog_reasons
from rmhdag.handlers.registry import handler
from rmhdag.handlers.stac.collections import CollectionWords, build_collection
from rmhdag.handlers.stac.items import ItemWords, written_time
from rmhdag.handlers.stac.metadata import Described, date_warnings, describe_dataset
from rmhdag.handlers.stac.registration import MOST_NAMED, records_of
from rmhdag.models.blobs import BlobRef, Container
from rmhdag.models.columns import LargeJsonObject
from rmhdag.models.handler_result import HandlerResult
from rmhdag.models.id_types import StacId
from rmhdag.models.records import AnyRecord, StacCollectionRecord, Zone
from rmhdag.observability.secrets import mask_and_cut
from rmhdag.storage import BlobInfo, Storage
from rmhdag.storage.media_types import media_type_of

MOST_FILES = 20_000
MOST_CATALOGUED = 2_000
_LONGEST_ID = 100

Suffix = Annotated[str, StringConstraints(pattern=r"^\.[A-Za-z0-9]{1,10}$")]


class ContainerParams(BaseModel):
    """Which files of a container to use."""

    model_config = ConfigDict(extra="forbid")

    container_name: Container
    zone: Zone = Zone.BRONZE
    prefix: str = Field("", max_length=1024, description="Only files whose path begins so")
    pattern: str = Field("*", max_length=200, description="Only files whose path fits, as `2024/*dem*`")
    suffixes: list[Suffix] = Field(default_factory=lambda: [".tif", ".tiff"], min_length=1, max_length=10)
    least_bytes: int = Field(0, ge=0)
    most_bytes: int | None = Field(None, ge=0)
    after: str = Field("", max_length=1024, description="Continue after this path: `next_after` of the previous page")


class ListParams(ContainerParams):
    limit: int = Field(5_000, ge=1, le=MOST_FILES, description="The most files of one page")
    allow_empty: bool = Field(True, description="Whether it is well if there is nothing")


@handler("stac.list_raster_files", aliases=["stac_list_raster_files"])
def list_raster_files(ctx: HandlerContext[ListParams]) -> dict[str, Any]:
    """Lists the rasters in a container, by path, a page at a time: something to fan out over."""
    listing = list(islice(rasters_in(ctx.storage, ctx.params), ctx.params.limit + 1))
    files, more = listing[: ctx.params.limit], len(listing) > ctx.params.limit
    if not files and not ctx.params.allow_empty:
        raise NonRetryableError(_nothing_in(ctx.storage, ctx.params), code="FILE_NOT_FOUND")
    ctx.logger.info("%d files%s", len(files), ", and more behind them" if more else "")
    return {
        "files": [
            {
                "container_name": ctx.params.container_name,
                "blob_name": info.address.path,
                "zone": str(ctx.params.zone),
                "item_id": item_id_for(info.address.path),
                "size_bytes": info.size_bytes,
                "modified_at": written_time(info.modified_at),
            }
            for info in files
        ],
        "count": len(files),
        "size_bytes": sum(info.size_bytes for info in files),
        "truncated": more,
        "next_after": files[-1].address.path if more else None,
    }


class CatalogParams(ContainerParams):
    collection: CollectionWords
    properties: LargeJsonObject = Field(default_factory=dict, description="Of every item")
    limit: int = Field(500, ge=1, le=MOST_CATALOGUED)
    most_failed_percent: float = Field(
        0.0, ge=0, le=100, description="If more cannot be described, nothing is published"
    )


@handler("stac.catalog_container", aliases=["stac_catalog_container"], timeout_seconds=7200)
def catalog_container(ctx: HandlerContext[CatalogParams]) -> HandlerResult:
    """Registers the rasters of a container as they lie there, without converting them."""
    params = ctx.params
    listing = list(islice(rasters_in(ctx.storage, params), params.limit + 1))
    files, more = listing[: params.limit], len(listing) > params.limit
    items, failures = [], []
    records: list[AnyRecord] = []
    for number, info in enumerate(files):
        if ctx.cancelled:
            raise RuntimeError("asked to stop before all files were described; nothing was published")
        ctx.progress(number, len(files), info.address.path)
        try:
            item = _describe(ctx.storage, info, params).item
            records += records_of(ctx.storage, item, with_data=True)
            items.append(item)
        except NonRetryableError as error:
            ctx.logger.warning("%s: %s", info.address.path, error)
            failures.append({"blob_name": info.address.path, "error": mask_and_cut(str(error), 500)})
    if files and 100 * len(failures) > params.most_failed_percent * len(files):
        raise NonRetryableError(
            f"{len(failures)} of {len(files)} files cannot be described, more than the "
            f"{params.most_failed_percent:g} % that are accepted, so nothing was published. "
            f"The first: {failures[0]['error']}",
            code="VALIDATION_ERROR",
        )
    collection = build_collection(params.collection, items)
    return HandlerResult(
        output={
            "collection_id": params.collection.collection_id,
            "registered": len(items),
            "item_ids": [item["id"] for item in items[:MOST_NAMED]],
            "failed": len(failures),
            "failures": failures[:MOST_NAMED],
            "truncated": more,
            "next_after": files[-1].address.path if more else None,
        },
        records=(StacCollectionRecord(collection=collection), *records),
        warnings=date_warnings(items),
    )


def rasters_in(storage: Storage, params: ContainerParams) -> Iterator[BlobInfo]:
    """In the order of paths, so that a page can continue where another ended."""
    suffixes = tuple(suffix.lower() for suffix in params.suffixes)
    for info in storage.list(params.zone, params.container_name, params.prefix):
        path = info.address.path
        if (
            path > params.after
            and path.lower().endswith(suffixes)
            and fnmatchcase(path, params.pattern)
            and info.size_bytes >= params.least_bytes
            and (params.most_bytes is None or info.size_bytes <= params.most_bytes)
        ):
            yield info


def _nothing_in(storage: Storage, params: ContainerParams) -> str:
    """The message lists the existing containers, because names are easily confused."""
    there = storage.containers(params.zone)
    if params.container_name not in there:
        others = f"there are {', '.join(there[:10])}" if there else "it has none at all"
        return f"the zone {params.zone} has no container {params.container_name!r}: {others}"
    return (
        f"no raster in {params.zone}/{params.container_name} fits: its path begins with {params.prefix!r}, fits "
        f"{params.pattern!r}, ends with {' or '.join(params.suffixes)}; look at these, and at `after` and the sizes"
    )


def item_id_for(path: str) -> StacId:
    """An id that depends only on the path, and differs for every path."""
    stem = path[: -len(".tif")] if path.endswith(".tif") else path
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", stem).strip("-.")
    if plain == stem and len(plain) <= _LONGEST_ID and not re.search(r"-[0-9a-f]{12}$", plain):
        return plain
    # Different paths may become equal without their unsafe characters.
    return f"{plain[:_LONGEST_ID] or 'item'}-{sha256(path.encode()).hexdigest()[:12]}"


def _describe(storage: Storage, info: BlobInfo, params: CatalogParams) -> Described:
    with open_with_header(storage, info.address) as opened, reading(opened.dataset.name, info.address):
        is_cog, _ = cog_reasons(opened)
        data = BlobRef(
            zone=info.address.zone,
            container=info.address.container,
            path=info.address.path,
            size_bytes=info.size_bytes,
            sha256=storage.sha256(info.address),
            media_type=media_type_of(info.address.path),
        )
        return describe_dataset(
            storage,
            opened.dataset,
            data,
            collection_id=params.collection.collection_id,
            item_id=item_id_for(info.address.path),
            words=ItemWords(properties=params.properties),
            file_time=info.modified_at,
            is_cog=is_cog,
        )
