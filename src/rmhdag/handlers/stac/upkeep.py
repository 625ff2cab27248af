"""Handlers that look after a catalogue: rebuild it from its files, find and repair faulty items.

Links are repaired at once. Items that change are handed over as records, like new ones.
"""

from __future__ import annotations

from itertools import islice
from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from shapely import GEOSException
from shapely.geometry import shape

from rmhdag.catalogue.layout import item_links
from rmhdag.catalogue.static import StaticCatalogue
from rmhdag.handlers.contract import HandlerContext, NonRetryableError
from rmhdag.handlers.registry import handler
from rmhdag.handlers.stac.registration import MOST_NAMED, blob_of, records_of
from rmhdag.handlers.stac.remaking import folder_of, folders_in, remains_of, remake
from rmhdag.handlers.stac.validation import find_faults
from rmhdag.models.blobs import Container
from rmhdag.models.handler_result import HandlerResult
from rmhdag.models.hrefs import find_href_fault
from rmhdag.models.id_types import StacId
from rmhdag.models.records import AnyRecord, StacItemRecord
from rmhdag.observability.secrets import mask_and_cut
from rmhdag.storage import Storage

COGS = "cogs"
MOST_CHECKED = 20_000
BBOX_TOLERANCE = 1e-4

Item = dict[str, Any]
Box = tuple[float, float, float, float]


class RebuildParams(BaseModel):
    model_config = ConfigDict(extra="forbid")

    collection_id: StacId | None = Field(None, description="Only this one; else all")
    cog_container: Container = Field(COGS, description="Where COGs lie in silver, in a folder per item")
    from_cogs: bool = Field(True, description="Also make items again that are lost or damaged, from their COGs")
    republish: bool = Field(False, description="Hand over all items, also sound ones: fills an empty database")


@handler("stac.rebuild", aliases=["stac_rebuild"], timeout_seconds=7200)
def rebuild(ctx: HandlerContext[RebuildParams]) -> HandlerResult:
    """Builds the catalogue again, from its items and from COGs, whatever state its links are in."""
    params, catalogue = ctx.params, StaticCatalogue(ctx.storage)
    # First, so that a collection whose file is damaged can be told by its items.
    rebuilt = catalogue.rebuild(params.collection_id)
    keys: set[tuple[str, str]] = set()
    faulty: dict[tuple[str, str], Item] = {}
    records: list[AnyRecord] = []
    problems = list(rebuilt.problems)
    chosen = [params.collection_id] if params.collection_id else catalogue.collection_ids()
    for collection_id in chosen:
        for path, item in catalogue.items(collection_id):
            if item is None:
                continue
            if find_faults(item):
                faulty[collection_id, _id_of(path, item)] = item
                continue
            keys.add((collection_id, item["id"]))
            fault = find_href_fault(item, ctx.storage.owns) if params.republish else None
            if fault is not None:
                problems.append(f"{item['id']!r} was not handed over: {fault}")
            elif params.republish:
                records.append(StacItemRecord(collection_id=collection_id, item=item))
    remade: list[str] = []
    unclaimed: list[str] = []
    known_ids = {item_id for _, item_id in keys}
    for folder in folders_in(ctx.storage, params.cog_container) if params.from_cogs else ():
        ctx.progress(len(keys) + len(remade), None, folder.item_id)
        if folder.cogs and not folder.footprints and folder.item_id not in known_ids:
            # Of create_cog alone, or of a job that is not done: whose they are is not ours to guess.
            unclaimed.append(folder.item_id)
        for home in folder.collections:
            key = home, folder.item_id
            if params.collection_id not in (None, home) or key in keys or catalogue.is_removed(*key):
                continue
            try:
                item = remake(ctx.storage, remains_of(ctx.storage, folder, home, faulty.get(key))).item
                records += records_of(ctx.storage, item)
                remade.append(folder.item_id)
            except NonRetryableError as error:
                problems.append(str(error))
    return HandlerResult(
        output={
            "collections": rebuilt.collections,
            "items": rebuilt.items,
            "remade": remade[:MOST_NAMED],
            "remade_count": len(remade),
            "unclaimed": unclaimed[:MOST_NAMED],
            "unclaimed_count": len(unclaimed),
            "problems": problems[:MOST_NAMED],
            "problem_count": len(problems),
        },
        records=tuple(records),
    )


class RepairParams(BaseModel):
    model_config = ConfigDict(extra="forbid")

    collection_id: StacId
    cog_container: Container = COGS
    limit: int = Field(5_000, ge=1, le=MOST_CHECKED)
    after: str = Field("", max_length=1024, description="Continue after this file: `next_after` of the previous page")


@handler("stac.repair_items", aliases=["stac_repair_items"], timeout_seconds=7200)
def repair_items(ctx: HandlerContext[RepairParams]) -> HandlerResult:
    """Finds items with wrong links, boxes, files or fields, repairs what it can, and reports the rest."""
    params, catalogue = ctx.params, StaticCatalogue(ctx.storage)
    entries = ((path, item) for path, item in catalogue.items(params.collection_id) if path > params.after)
    checked = list(islice(entries, params.limit + 1))
    more, checked = len(checked) > params.limit, checked[: params.limit]
    repaired: list[dict[str, Any]] = []
    unresolved: list[dict[str, Any]] = []
    records: list[AnyRecord] = []
    for number, (path, item) in enumerate(checked):
        ctx.progress(number, len(checked), path)
        name = _id_of(path, item)
        try:
            repairs, new = _repair(ctx.storage, catalogue, params, path, item)
            records += [] if new is None else records_of(ctx.storage, new)
        except NonRetryableError as error:
            unresolved.append({"item_id": name, "problem": mask_and_cut(str(error), 1000)})
            continue
        if repairs:
            repaired.append({"item_id": name, "repairs": repairs})
    return HandlerResult(
        output={
            "checked": len(checked),
            "sound": len(checked) - len(repaired) - len(unresolved),
            "repaired": repaired[:MOST_NAMED],
            "repaired_count": len(repaired),
            "unresolved": unresolved[:MOST_NAMED],
            "unresolved_count": len(unresolved),
            "truncated": more,
            "next_after": checked[-1][0] if more else None,
        },
        records=tuple(records),
    )


def _repair(
    storage: Storage, catalogue: StaticCatalogue, params: RepairParams, path: str, item: Item | None
) -> tuple[list[str], Item | None]:
    """What was wrong, and the item as it shall be if it has to change."""
    if item is None or not isinstance(item.get("id"), str):
        return ["recreated: its file was damaged"], _remade(storage, params, _id_of(path, item), item)
    wrong = _broken(storage, item)
    if wrong:
        return [f"made again: {wrong}"], _remade(storage, params, item["id"], item)
    repairs, new = [], dict(item)
    if not catalogue.is_listed(params.collection_id, item["id"]):
        catalogue.relink(params.collection_id, item["id"])
        repairs.append("listed in its collection")
    if item.get("links") != item_links(item) or item.get("collection") != params.collection_id:
        new |= {"links": item_links(item), "collection": params.collection_id}
        repairs.append("links")
    parts = [] if item["geometry"] is None else _boxes_of(item["geometry"])
    if parts and not _is_around(item.get("bbox"), parts):
        new["bbox"] = _bbox_around(parts)
        repairs.append("bbox")
    return repairs, new if new != item else None


def _broken(storage: Storage, item: Item) -> str | None:
    """A fault that only recreating the item from its COG can repair."""
    faults = [fault for fault in find_faults(item) if not fault.startswith(("/links", "/bbox", "/collection"))]
    faults = [fault for fault in faults if "'bbox' is a required" not in fault and "'links' is a required" not in fault]
    if faults:
        return mask_and_cut("; ".join(faults), 300)
    try:
        for role, asset in item["assets"].items():
            blob_of(storage, item["id"], role, asset)
    except NonRetryableError as error:
        return str(error)
    return None


def _remade(storage: Storage, params: RepairParams, item_id: str, item: Item | None) -> Item:
    folder = folder_of(storage, params.cog_container, item_id)
    return remake(storage, remains_of(storage, folder, params.collection_id, item)).item


def _boxes_of(geometry: dict[str, Any]) -> list[Box]:
    """Of its parts."""
    try:
        whole = shape(geometry)
    except (GEOSException, ValueError, TypeError, KeyError) as error:
        raise NonRetryableError(f"its geometry cannot be read: {error}", code="VALIDATION_ERROR") from None
    if whole.is_empty:
        raise NonRetryableError(
            "its geometry is empty: register it again, with one or with null", code="VALIDATION_ERROR"
        )
    return [part.bounds for part in getattr(whole, "geoms", [whole])]


def _bbox_around(parts: list[Box]) -> list[float]:
    """Of a geometry that was split at the antimeridian it goes from the western part's edge to the eastern part's."""
    west, south, east, north = _united(parts)
    touches = any(part[0] == -180 for part in parts) and any(part[2] == 180 for part in parts)
    if touches and len(parts) > 1 and not any(part[0] == -180 and part[2] == 180 for part in parts):
        west = min((part[0] for part in parts if part[0] >= 0), default=west)
        east = max((part[2] for part in parts if part[2] <= 0), default=east)
    return [round(float(value), 6) for value in (west, south, east, north)]


def _is_around(bbox: Any, parts: list[Box]) -> bool:
    """Whether it holds all parts and no more; over the antimeridian its west is greater than its east (RFC 7946)."""
    if not isinstance(bbox, list) or len(bbox) != 4 or not all(isinstance(value, int | float) for value in bbox):
        return False
    west, south, east, north = bbox
    if west > east:
        # Parts may end well before the antimeridian: which turn is meant, only the box can tell.
        beyond = [part[0] < west - BBOX_TOLERANCE for part in parts]
        parts = [(w + 360 * b, s, e + 360 * b, n) for (w, s, e, n), b in zip(parts, beyond, strict=True)]
        east += 360
    expected = _united(parts)
    return all(
        abs(edge - other) <= BBOX_TOLERANCE for edge, other in zip((west, south, east, north), expected, strict=True)
    )


def _united(parts: list[Box]) -> Box:
    wests, souths, easts, norths = zip(*parts, strict=True)
    return min(wests), min(souths), max(easts), max(norths)


def _id_of(path: str, item: Item | None) -> str:
    named = item.get("id") if item is not None else None
    return named if isinstance(named, str) else path.rpartition("/")[2].removesuffix(".json")
