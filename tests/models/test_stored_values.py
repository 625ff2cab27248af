"""Values that stand apart, put in place of their references."""

from __future__ import annotations

from typing import Any

import pytest

from rmhdag.models.references import Reference
from rmhdag.models.stored_values import MOST_BYTES, NOT_STORED, Unfolding, ValuesTooLarge


def reference(letter: str, size_bytes: int = 70_000) -> dict[str, Any]:
    return Reference(letter * 64, size_bytes).as_json()


def whole(value: Any, stored: dict[str, Any]) -> Any:
    unfolding = Unfolding().steps(value)
    found = None
    while True:
        try:
            found = stored.get(unfolding.send(found)[0], NOT_STORED)
        except StopIteration as end:
            return end.value


def test_values_come_in_place_of_their_references() -> None:
    assert whole({"a": [reference("a"), 1], "b": reference("b")}, {"a": "large", "b": [2]}) == {
        "a": ["large", 1],
        "b": [2],
    }


def test_a_stored_list_of_references() -> None:
    assert whole(reference("a"), {"a": [reference("b")], "b": "large"}) == ["large"]


@pytest.mark.parametrize(
    "value", [reference("c"), reference("a")["rmhdag:payload"], reference("a") | {"more": 1}, None, "text"]
)
def test_what_refers_to_nothing_stays(value: Any) -> None:
    assert whole([value], {"a": "large"}) == [value]


@pytest.mark.parametrize("value", [reference("a", MOST_BYTES + 1), [reference("a", 0)] * 1_025])
def test_not_more_than_anybody_wants_at_once(value: Any) -> None:
    with pytest.raises(ValuesTooLarge, match="64 MB"):
        whole(value, {"a": "large"})


def test_references_to_references_have_an_end() -> None:
    assert whole(reference("a"), {"a": [reference("a")]}) == [[[reference("a")]]]
