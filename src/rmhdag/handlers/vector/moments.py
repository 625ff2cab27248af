"""Times that GDAL hands over as text, because they would otherwise lose their zones."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc

from rmhdag.handlers.vector.refusals import Finding, Findings

MOMENT = pa.timestamp("us", tz="UTC")
ZONE = r"T.*(Z|[+-]\d{2}(:?\d{2})?)$"
KIND, DATE_TIME = b"GDAL:OGR:type", b"DateTime"


def is_moment(field: pa.Field) -> bool:
    return bool((field.metadata or {}).get(KIND) == DATE_TIME and pa.types.is_string(field.type))


def moments_of(texts: pa.Array, column: str, findings: Findings) -> pa.Array:
    """In UTC, as times without a zone are. What is not a time becomes null, and is counted."""
    zoned = pc.if_else(
        pc.match_substring_regex(texts, ZONE), texts, pc.binary_join_element_wise(texts, pa.scalar("Z"), "")
    )
    try:
        return zoned.cast(MOMENT)
    except pa.ArrowInvalid:
        moments = [_moment(text) for text in texts.to_pylist()]
    lost = [text for text, moment in zip(texts.to_pylist(), moments, strict=True) if text and moment is None]
    findings.add(
        Finding.DATES_RESET,
        "dates outside of the years 1 to 9999 became null",
        len(lost),
        [f"{column}: {text[:40]}" for text in lost[:3]],
    )
    return pa.array(moments, type=MOMENT)


def _moment(text: str | None) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text or "")
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
