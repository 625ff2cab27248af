"""Every place of a JSON value, and the value with something else in one of them."""

from collections.abc import Iterator
from typing import Any

Place = tuple[str | int, ...]


def places_in(value: Any, place: Place = ()) -> Iterator[Place]:
    """The whole first, each before what is inside it."""
    yield place
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in members:
        yield from places_in(part, (*place, key))


def replaced(value: Any, place: Place, by: Any) -> Any:
    if not place:
        return by
    copied = value.copy()
    copied[place[0]] = replaced(value[place[0]], place[1:], by)
    return copied
