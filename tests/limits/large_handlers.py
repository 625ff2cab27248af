"""Handlers whose results are as large as a test asks for."""

from __future__ import annotations

from typing import Any

from rmhdag.handlers import HandlerContext, HandlerResult, handler
from rmhdag.models.records import LineageRecord, StacItemRecord
from tests.limits.place import nested, text_of

Context = HandlerContext[dict[str, Any]]
LETTERS_IN_A_LINE = 50_000
# One record is at most as large as a row.
RECORD_BYTES = 900_000


@handler("limits.output")
def make_output(ctx: Context) -> dict[str, Any]:
    return {"text": text_of(ctx.params["size"], around={"text": ""})}


@handler("limits.deep")
def make_deep(ctx: Context) -> dict[str, Any]:
    return {"deep": nested(ctx.params["size"] - 1)}


@handler("limits.items")
def make_items(ctx: Context) -> dict[str, Any]:
    return {"items": [0] * ctx.params["size"]}


@handler("limits.take")
def take(ctx: Context) -> dict[str, Any]:
    return {"keys": sorted(ctx.params)}


@handler("limits.fail")
def fail(ctx: Context) -> None:
    raise ValueError("as asked")


@handler("limits.checkpoint")
def save_checkpoint(ctx: Context) -> None:
    ctx.checkpoint("phase", {"text": text_of(ctx.params["size"], around={"text": ""})})


@handler("limits.metrics")
def make_metrics(ctx: Context) -> HandlerResult:
    return HandlerResult(metrics={"text": text_of(ctx.params["size"], around={"text": ""})})


@handler("limits.log")
def write_log(ctx: Context) -> None:
    """So many letters, the ends of lines among them."""
    size = ctx.params["size"]
    while size > 0:
        length = min(size, LETTERS_IN_A_LINE)
        print("x" * (length - 1), flush=True)
        size -= length


@handler("limits.records")
def make_records(ctx: Context) -> HandlerResult:
    """Of so many bytes together, as they are kept: a list."""
    left, records = ctx.params["size"] - len("[]"), list[StacItemRecord]()
    while left > 0:
        size = min(left, RECORD_BYTES)
        # Nothing is left over that is too little for a record.
        size -= 2_000 if 0 < left - size < 2_000 else 0
        records.append(_item_of(len(records), size - (len(",") if size < left else 0)))
        left -= size
    return HandlerResult(records=tuple(records))


def _item_of(number: int, size: int) -> StacItemRecord:
    """An item that takes so many bytes, with all that is around it."""

    def item(text: str) -> dict[str, Any]:
        properties = {"datetime": "2026-01-01T00:00:00Z", "description": text}
        return {
            "type": "Feature",
            "stac_version": "1.1.0",
            "id": f"i{number}",
            "geometry": None,
            "properties": properties,
            "links": [],
            "assets": {},
        }

    around = {"type": "stac_item", "collection_id": "large", "item": item("")}
    return StacItemRecord(collection_id="large", item=item(text_of(size, around=around)))


@handler("limits.many_records")
def make_many_records(ctx: Context) -> HandlerResult:
    records = (LineageRecord(source_url=f"https://example.org/{n}") for n in range(ctx.params["size"]))
    return HandlerResult(records=tuple(records))
