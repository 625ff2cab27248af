"""What jsonb would refuse or change is refused first, by a message that names the place."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmhdag.models.json_values import NotJsonError, check_json, encode_json, json_pointer, measure, plain_text

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
LEAVES = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(LEAVES | TEXT, lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner), max_leaves=20)
ODD_TEXT = st.text('\0\ud800aä€😀"\\\n0123456789:', max_size=25)
ODD_LEAVES = (
    LEAVES
    | ODD_TEXT
    | st.sampled_from(
        [2**63 - 1, 2**63, 2**64, -(2**63), -(2**63) - 1, 1e16, -1e-5, 5e-324, float("nan"), (), b"", {1}]
    )
    | st.integers()
    | st.floats()
)
ODD = st.recursive(
    ODD_LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(ODD_TEXT | st.integers(), inner, max_size=4)
)


@given(JSON)
def test_json_passes_and_its_size_is_counted(value: Any) -> None:
    size = len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())
    escapes = json.dumps(value, ensure_ascii=False).count("\\")
    assert check_json(value) is value
    if not escapes:
        check_json(value, max_bytes=size)
        with pytest.raises(ValueError, match="larger than"):
            check_json(value, max_bytes=size - 1)


@pytest.mark.parametrize(
    ("value", "where", "what"),
    [
        ({"a": [1, {"b": float("nan")}]}, "/a/1/b", "not a JSON number"),
        ([float("inf")], "/0", "not a JSON number"),
        ({"a/b": {"~": "x\0y"}}, "/a~1b/~0", "NUL"),
        ({"a": "\ud800"}, "/a", "surrogate"),
        ({"\0": 1}, "the top", "NUL"),
        ({"a": {"\udfff": 1}}, "/a", "surrogate"),
        ({1: 2}, "the top", "key of type int"),
        ({"n": 2**63}, "/n", "64 bits"),
        ({"n": -(10**5000)}, "/n", "64 bits"),
        ({"s": {1, 2}}, "/s", "a set is not JSON"),
        ({"t": (1, 2)}, "/t", "a tuple is not JSON"),
        ({"b": b"x"}, "/b", "bytes is not JSON"),
    ],
)
def test_hostile_values_are_refused_by_place(value: Any, where: str, what: str) -> None:
    with pytest.raises(ValueError, match=what) as caught:
        check_json(value)
    assert repr(where) in str(caught.value)
    assert "\0" not in str(caught.value)


@given(ODD | JSON, st.integers(1, 5), st.integers(1, 200))
def test_what_is_plainly_good_is_good_on_a_closer_look(value: Any, max_depth: int, max_bytes: int) -> None:
    if plain_text(value, max_depth, max_bytes) is not None:
        measure(value, None, max_depth, max_bytes, 0)


@given(JSON)
def test_most_values_need_no_closer_look(value: Any) -> None:
    text = json.dumps(value)
    if not re.search("[0-9]{19}|0000", text):
        assert plain_text(value, 64, 100 + 10 * len(text)) == encode_json(value)


def test_a_value_that_is_small_in_memory_and_huge_when_written_is_refused() -> None:
    laughs: list[Any] = ["ha"]
    for _ in range(50):
        laughs = [laughs] * 10
    with pytest.raises(NotJsonError, match="larger than 1000000 bytes"):
        check_json(laughs, max_bytes=1_000_000)
    with pytest.raises(NotJsonError, match="larger than 1000000 bytes"):
        check_json([{"a" * 100_000: 1}] * 100_000, max_bytes=1_000_000)


def test_depth_is_bounded() -> None:
    value: Any = 1
    for _ in range(64):
        value = [value]
    check_json(value)
    with pytest.raises(ValueError, match="nested too deeply"):
        check_json([value])


def test_a_value_that_holds_itself_is_refused() -> None:
    value: list[Any] = []
    value.append(value)
    with pytest.raises(ValueError, match="nested too deeply"):
        check_json(value)


def test_pointer_escapes_as_rfc_6901_says() -> None:
    assert json_pointer("a/b", 0, "c~d") == "/a~1b/0/c~0d"
    assert json_pointer() == ""
