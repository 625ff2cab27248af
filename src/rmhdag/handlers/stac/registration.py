"""Handlers that publish items and collections. They write nothing themselves: they return records."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from rmhdag.handlers.contract import HandlerContext, NonRetryableError
from rmhdag.handlers.registry import handler
from rmhdag.handlers.stac.collections import CollectionWords, build_collection
from rmhdag.handlers.stac.items import SHA256_MULTIHASH, check_item
from rmhdag.models.blobs import BlobRef
from rmhdag.models.columns import LargeJsonObject
from rmhdag.models.handler_result import HandlerResult
from rmhdag.models.hrefs import CODE as HREF_REFUSED
from rmhdag.models.hrefs import find_href_fault
from rmhdag.models.id_types import StacId
from rmhdag.models.records import AnyRecord, StacCollectionRecord, StacItemRecord
from rmhdag.storage import BlobNotFound, OutsideStorage, Storage

MOST_ITEMS = 20_000
MOST_NAMED = 100
# The data file is recorded by the handler that creates it; here only the files next to it.
DATA = "data"


class EnsureCollectionParams(CollectionWords):
    items: list[LargeJsonObject] = Field(
        default_factory=list, max_length=MOST_ITEMS, description="Items whose extents the collection has from the start"
    )


@handler("raster.stac_ensure_collection", aliases=["raster_stac_ensure_collection"])
def stac_ensure_collection(ctx: HandlerContext[EnsureCollectionParams]) -> HandlerResult:
    """Makes sure that a STAC collection is there, and says what it is about."""
    words = CollectionWords.model_validate({name: getattr(ctx.params, name) for name in CollectionWords.model_fields})
    collection = build_collection(words, ctx.params.items)
    check_hrefs(lambda url: ctx.storage.owns(url), collection)
    return HandlerResult(
        output={"collection": collection, "collection_id": words.collection_id},
        records=(StacCollectionRecord(collection=collection),),
    )


class RegisterItemParams(BaseModel):
    model_config = ConfigDict(extra="forbid")

    item: LargeJsonObject
    collection_id: StacId | None = Field(None, description="Instead of the one that the item names")
    thumbnail: BlobRef | None = None


@handler("raster.stac_register_item", aliases=["raster_stac_register_item"])
def stac_register_item(ctx: HandlerContext[RegisterItemParams]) -> HandlerResult:
    """Publishes a STAC item, once it is valid and its files are there."""
    item = in_collection(ctx.params.item, ctx.params.collection_id)
    records = records_of(ctx.storage, item)
    if ctx.params.thumbnail is not None:
        record = ctx.params.thumbnail.record("thumbnail")
        records += [record] if record not in records else []
    return HandlerResult(
        output={"item_id": item["id"], "collection_id": item["collection"]},
        records=tuple(records),
    )


class Gathered(BaseModel):
    """The output of a fan-in that collects. Handed over whole: of some hundred files it is too large to look into."""

    model_config = ConfigDict(extra="ignore")

    results: list[dict[str, Any]] = Field(max_length=MOST_ITEMS)
    failures: list[dict[str, Any]] = Field(default_factory=list)


class RegisterItemsParams(BaseModel):
    model_config = ConfigDict(extra="forbid")

    items: list[LargeJsonObject] | None = Field(None, max_length=MOST_ITEMS)
    results: list[dict[str, Any]] | None = Field(
        None, max_length=MOST_ITEMS, description="Outputs of earlier nodes, each with an `item`"
    )
    gathered: Gathered | None = Field(None, description="A fan-in's whole output, instead of `results` and `failures`")
    collection_id: StacId | None = None
    collection: CollectionWords | None = Field(None, description="Published with the items, instead of `collection_id`")
    expected: int | None = Field(None, ge=0, description="How many there would be if nothing had failed")
    failures: list[dict[str, Any]] = Field(default_factory=list, description="As a fan-in lists them")
    most_failed_percent: float = Field(0.0, ge=0, le=100, description="If more are missing, nothing is published")

    @model_validator(mode="after")
    def _check_one_list(self) -> RegisterItemsParams:
        if [self.items, self.results, self.gathered].count(None) != 2:
            raise ValueError("give `items`, or `results` of earlier nodes, or `gathered` of a fan-in")
        if self.gathered is not None:
            self.results, self.failures = self.gathered.results, self.gathered.failures
        if self.collection is not None and self.collection_id is not None:
            raise ValueError("give `collection` or `collection_id`, not both")
        return self


@handler("raster.stac_register_items", aliases=["raster_stac_register_items"])
def stac_register_items(ctx: HandlerContext[RegisterItemsParams]) -> HandlerResult:
    """Publishes many STAC items at once: all of them or none."""
    params = ctx.params
    items = params.items if params.items is not None else [_item_in(result) for result in params.results or []]
    failed = max(len(params.failures), (params.expected or 0) - len(items))
    _check_failures(params, failed, failed + len(items))
    keys: set[tuple[str, str]] = set()
    records: list[AnyRecord] = []
    collection_id = params.collection.collection_id if params.collection is not None else params.collection_id
    if params.collection is not None:
        collection = build_collection(params.collection, items)
        check_hrefs(ctx.storage.owns, collection)
        records.append(StacCollectionRecord(collection=collection))
    for number, document in enumerate(items):
        item = in_collection(document, collection_id)
        key = item["collection"], item["id"]
        if key in keys:
            raise NonRetryableError(
                f"the item {key[1]!r} occurs twice: item ids are unique in a collection", code="INVALID_PARAMETER"
            )
        keys.add(key)
        records += records_of(ctx.storage, item)
        ctx.progress(number + 1, len(items))
    return HandlerResult(
        output={
            "registered": len(items),
            "item_ids": [item_id for _, item_id in sorted(keys)][:MOST_NAMED],
            "failed": failed,
            "failures": params.failures[:MOST_NAMED],
            "warned": _warned_items(params.results or []),
        },
        records=tuple(records),
    )


def in_collection(item: dict[str, Any], collection_id: str | None) -> dict[str, Any]:
    """The item with its collection, checked."""
    chosen = collection_id or item.get("collection")
    if not isinstance(chosen, str) or not chosen:
        raise NonRetryableError(
            f"the item {item.get('id')!r} names no collection: give `collection_id`", code="MISSING_PARAMETER"
        )
    links = item.get("links", [])
    if not any(isinstance(link, dict) and link.get("rel") == "collection" for link in links):
        links = [*links, {"rel": "collection", "href": "../collection.json", "type": "application/json"}]
    placed = {**item, "collection": chosen, "links": links}
    check_item(placed)
    return placed


def records_of(storage: Storage, item: dict[str, Any], *, with_data: bool = False) -> list[AnyRecord]:
    """The item's record, and those of its files in our storage. A missing file is not published."""
    check_hrefs(storage.owns, item)
    records: list[AnyRecord] = [StacItemRecord(collection_id=item["collection"], item=item)]
    for role, asset in item["assets"].items():
        blob = blob_of(storage, item["id"], role, asset)
        if blob is not None and (with_data or role != DATA):
            records.append(blob.record(role))
    return records


def check_hrefs(is_ours: Callable[[str], bool], document: dict[str, Any]) -> None:
    """Raises NonRetryableError for a link that must not be published."""
    fault = find_href_fault(document, is_ours)
    if fault is not None:
        raise NonRetryableError(f"{document['id']!r}: {fault}", code=HREF_REFUSED)


def blob_of(storage: Storage, item_id: str, role: str, asset: dict[str, Any]) -> BlobRef | None:
    """The file of an asset; None if it is outside our storage. Raises NonRetryableError if it differs from the item."""
    try:
        address = storage.address_of(asset["href"])
    except OutsideStorage:
        return None
    checksum, size = asset.get("file:checksum", ""), asset.get("file:size")
    if not checksum.startswith(SHA256_MULTIHASH) or len(checksum) != 68 or size is None:
        raise NonRetryableError(
            f"the asset {role!r} of item {item_id!r} has no file:size and file:checksum (SHA-256): "
            "make the item by raster.extract_stac_metadata",
            code="VALIDATION_ERROR",
        )
    try:
        info = storage.info(address)
    except BlobNotFound:
        raise NonRetryableError(
            f"the file of asset {role!r} of item {item_id!r} does not exist ({address}): make it again, then publish",
            code="FILE_NOT_FOUND",
        ) from None
    if info.size_bytes != size:
        raise NonRetryableError(
            f"the file of asset {role!r} of item {item_id!r} has {info.size_bytes:,} bytes, not {size:,} as the item "
            f"says ({address}): it was replaced; describe it again",
            code="VALIDATION_ERROR",
        )
    return BlobRef(
        zone=address.zone,
        container=address.container,
        path=address.path,
        size_bytes=size,
        sha256=checksum[len(SHA256_MULTIHASH) :],
        media_type=asset.get("type"),
    )


def _item_in(result: dict[str, Any]) -> dict[str, Any]:
    item = result.get("item")
    if not isinstance(item, dict):
        raise NonRetryableError(
            "one of the results has no `item`: only outputs with a STAC item can be registered",
            code="INVALID_PARAMETER",
        )
    return item


def _warned_items(results: list[dict[str, Any]]) -> dict[str, list[str]]:
    """The first items of each warning. The job has only the sum by code, without the files."""
    warned: dict[str, list[str]] = {}
    for result in results:
        for code in dict.fromkeys(result.get("warning_codes", ())):
            items = warned.setdefault(code, [])
            if len(items) < MOST_NAMED:
                items.append(_item_in(result)["id"])
    return warned


def _check_failures(params: RegisterItemsParams, failed: int, total: int) -> None:
    if total and 100 * failed > params.most_failed_percent * total:
        named = "; ".join(f"{failure.get('node_id')}: {failure.get('error')}" for failure in params.failures[:3])
        raise NonRetryableError(
            f"{failed} of {total} files failed, more than the {params.most_failed_percent:g} % that are accepted, so "
            f"nothing was published. Fix them or accept more.{' ' + named if named else ''}",
            code="VALIDATION_ERROR",
        )
