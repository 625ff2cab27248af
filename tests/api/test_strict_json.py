"""Bodies are read in a quick way and in a careful one, which must not be told apart."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmhdag.api.problems import Problem
from rmhdag.api.strict_json import MOST_CONTAINERS, MOST_VALUES, parse, read_carefully, read_quickly
from rmhdag.models.json_values import MAX_DEPTH

TEXT = st.text(max_size=5) | st.sampled_from(["", ":", '":', "a", "b", "\0", "\\u0000", "{[,", "1" * 19])
NUMBERS = (
    st.floats(allow_nan=False) | st.integers() | st.sampled_from([2**63 - 1, 2**63, 2**64, -(2**63), -(2**63) - 1])
)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=15,
)
WRITTEN = st.builds(
    lambda value, ascii_only, indent: json.dumps(value, ensure_ascii=ascii_only, indent=indent).encode(
        errors="surrogatepass"
    ),
    VALUES,
    st.booleans(),
    st.sampled_from([None, 0, 1]),
)
TOKENS = """{ } [ ] , : "a" "b" "a": "\\u0061": "\\u0022:" ":" 1 -0 0.1 01 1. 1e5 1E+400 -1e-400 9223372036854775808
    18446744073709551616 -9223372036854775809 0.12345678901234567890123 true null NaN -Infinity "\\ud800"
    "\\udc00\\ud800" "\\ud83d\\ude00" "\\u0000" "\\\\u0000" "\\" \\ é \ufeff \x7f" """.split()
SCRAPS = st.lists(st.sampled_from([*TOKENS, " ", "\n", "\0", "\t", '"\t"']), max_size=12).map(
    lambda parts: "".join(parts).encode()
)
MEMBERS = st.lists(
    st.sampled_from(['"a":1', '"b" :[]', '"\\u0061":{"a":2}', '"c":"\\":"', '"d":{"a":1,"a":2}']), max_size=4
)
OBJECTS = MEMBERS.map(lambda members: ("{" + ",".join(members) + "}").encode())


def read(body: bytes) -> Any:
    try:
        return read_carefully(body, MAX_DEPTH)
    except Problem as problem:
        return problem.body


@given(WRITTEN | SCRAPS | OBJECTS | st.binary(max_size=8))
def test_the_quick_way_reads_what_the_careful_one_reads(body: bytes) -> None:
    try:
        quick = read_quickly(body, MAX_DEPTH)
    except ValueError:
        return
    # As text, for 1 and 1.0 and true are equal.
    assert repr(quick) == repr(read(body))


@pytest.mark.parametrize("depth", [MAX_DEPTH - 1, MAX_DEPTH, MAX_DEPTH + 1, 1_000, 1_025])
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_both_ways_read_as_deeply(depth: int, opening: str, closing: str) -> None:
    body = (opening * depth + "[]" + closing * depth).encode()
    if depth < MAX_DEPTH:
        assert read_quickly(body, MAX_DEPTH) == read(body)
    else:
        with pytest.raises(ValueError, match=r"deeply|depth"):
            read_quickly(body, MAX_DEPTH)


def test_ordinary_bodies_are_read_in_the_quick_way() -> None:
    body = {"workflow_id": "a", "input_params": {"at": "2026-01-01T00:00:00Z", "n": [1, -2.5, 1e300, None, "é\n"]}}
    assert read_quickly(json.dumps(body, indent=2).encode(), MAX_DEPTH) == body


def test_a_body_has_a_bounded_number_of_values() -> None:
    most = b"[" + b"1," * (MOST_VALUES - 2) + b"1]"
    assert len(parse(most)) == MOST_VALUES - 1
    with pytest.raises(Problem, match=f"at most {MOST_VALUES} values") as caught:
        parse(b"[" + most + b"]")
    assert caught.value.status_code == 413


@pytest.mark.parametrize(
    "body",
    [b'["' + b"a,[{" * MOST_VALUES + b'\\",\\""]', b"[" + b"[ ],{}," * (MOST_CONTAINERS // 2 - 1) + b"0]"],
    ids=["in a text", "empty lists"],
)
def test_what_looks_like_many_values_is_counted(body: bytes) -> None:
    assert parse(body) == json.loads(body)


def test_a_text_without_end_is_read_once() -> None:
    with pytest.raises(Problem, match="not JSON"):
        parse(b'["' + b',\\"' * MOST_VALUES)
