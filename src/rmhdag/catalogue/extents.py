"""The extent of a collection in space and time: unions that do not depend on the order of their parts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

WORLD = [-180.0, -90.0, 180.0, 90.0]
MOST_SUMMARY_VALUES = 100
SUMMARISED = ("proj:code",)


def unknown_extent() -> dict[str, Any]:
    """The extent of a collection without items: STAC requires one. Its union with any other extent is the other."""
    return {"spatial": {"bbox": [list(WORLD)]}, "temporal": {"interval": [[None, None]]}}


def is_undated(item: Mapping[str, Any]) -> bool:
    """Whether the item's date is only the time at which its file was stored."""
    return bool(item.get("properties", {}).get("rmhdag:datetime_source") == "file")


def extent_of_item(item: Mapping[str, Any]) -> dict[str, Any]:
    """Unknown in time if the item has no real date: a collection of old maps does not end today."""
    properties = item.get("properties", {})
    moment = None if is_undated(item) else properties.get("datetime")
    start, end = properties.get("start_datetime", moment), properties.get("end_datetime", moment)
    return {"spatial": {"bbox": [_flat(item.get("bbox") or WORLD)]}, "temporal": {"interval": [[start, end]]}}


def united(extent: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    if _is_unknown(extent):
        return dict(other)
    if _is_unknown(other):
        return dict(extent)
    boxes = _united_boxes(_flat(extent["spatial"]["bbox"][0]), _flat(other["spatial"]["bbox"][0]))
    times = _united_times(extent["temporal"]["interval"][0], other["temporal"]["interval"][0])
    return {"spatial": {"bbox": [boxes]}, "temporal": {"interval": [times]}}


def united_summaries(before: Mapping[str, Any], item: Mapping[str, Any]) -> dict[str, Any]:
    """The values that occur in items, as long as they are few."""
    summaries = dict(before)
    for key in SUMMARISED:
        value, values = item.get("properties", {}).get(key), summaries.get(key, [])
        if isinstance(value, str) and value not in values and len(values) < MOST_SUMMARY_VALUES:
            summaries[key] = sorted([*values, value])
    return summaries


def merged_summaries(summaries: Mapping[str, Any], others: Mapping[str, Any]) -> dict[str, Any]:
    """Values of the collection win; lists that items have filled keep their values."""
    merged = {**summaries, **others}
    for key in SUMMARISED:
        if isinstance(summaries.get(key), list) and isinstance(others.get(key), list):
            merged[key] = sorted({*summaries[key], *others[key]})[:MOST_SUMMARY_VALUES]
    return merged


def _is_unknown(extent: Mapping[str, Any]) -> bool:
    try:
        return (
            _flat(extent["spatial"]["bbox"][0]) == WORLD
            and extent["temporal"]["interval"][0][0] is None
            and extent["temporal"]["interval"][0][1] is None
        )
    except (KeyError, IndexError, TypeError, ValueError):
        return True


def _flat(bbox: Any) -> list[float]:
    """In two dimensions: heights are dropped."""
    values = [float(value) for value in bbox]
    if len(values) == 6:
        values = [values[0], values[1], values[3], values[4]]
    if len(values) != 4:
        raise ValueError(f"a bbox has 4 or 6 numbers, not {len(values)}")
    return values


def _united_boxes(box: list[float], other: list[float]) -> list[float]:
    """West > east means across the antimeridian. United with a box that does not cross it, that is all longitudes."""
    south, north = min(box[1], other[1]), max(box[3], other[3])
    crossing = (box[0] > box[2]) + (other[0] > other[2])
    west, east = min(box[0], other[0]), max(box[2], other[2])
    if crossing == 1 or (crossing == 2 and west <= east):
        west, east = -180.0, 180.0
    return [west, south, east, north]


def _united_times(times: list[str | None], other: list[str | None]) -> list[str | None]:
    """An open end stays open; an interval that is open at both ends is unknown and is ignored."""
    if times == [None, None] or other == [None, None]:
        return list(other if times == [None, None] else times)
    (start, end), (other_start, other_end) = times, other
    # Times in UTC compare as text where they have the same precision.
    first = None if start is None or other_start is None else min(start, other_start, key=_sortable)
    last = None if end is None or other_end is None else max(end, other_end, key=_sortable)
    return [first, last]


def _sortable(moment: str) -> tuple[str, str]:
    """`…09Z` before `…09.5Z`: the whole second, then its fraction."""
    text = moment.removesuffix("Z").removesuffix("+00:00")
    whole, _, fraction = text.partition(".")
    return whole, fraction.rstrip("0")
