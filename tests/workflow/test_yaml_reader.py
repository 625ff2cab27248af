"""YAML as it is understood here: 1.2 scalars, positions of everything, and what is refused."""

from typing import Any

import pytest

from rmhdag.workflow.source_map import SourceMap
from rmhdag.workflow.yaml_reader import MAX_DEPTH, MAX_FILE_BYTES, MAX_YAML_NODES, read_yaml


def read(text: str) -> Any:
    reading = read_yaml(text, "f.yaml")
    assert reading.problems == []
    return reading.data


def codes(source: str | bytes) -> list[str]:
    return [problem.code for problem in read_yaml(source, "f.yaml").problems]


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("on", "on"),
        ("no", "no"),
        ("NO", "NO"),
        ("Yes", "Yes"),
        ("12:30:45", "12:30:45"),
        ("014", 14),
        ("0o14", 12),
        ("0x1F", 31),
        ("+7", 7),
        ("-0", 0),
        ("1_000", "1_000"),
        ("1.5", 1.5),
        (".5", 0.5),
        ("1e3", 1000.0),
        ("2026-02-12", "2026-02-12"),
        ("2026-02-12T10:00:00Z", "2026-02-12T10:00:00Z"),
        ("~", None),
        ("null", None),
        ("true", True),
        ("FALSE", False),
        ("'true'", "true"),
        ('"014"', "014"),
        ("9223372036854775807", 2**63 - 1),
        ("0b11", "0b11"),
        ("1.2.3", "1.2.3"),
        ("-", "-"),
        (".", "."),
    ],
)
def test_plain_scalars_are_those_of_yaml_1_2(written: str, value: object) -> None:
    if written == "-":
        written = "'-'"
    found = read(f"v: {written}")["v"]
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize("written", [".inf", "-.INF", ".nan", "1e999", "9223372036854775808", "9" * 5000])
def test_numbers_that_json_cannot_hold_are_refused(written: str) -> None:
    assert codes(f"v: {written}") == ["number-not-json"]


@pytest.mark.parametrize("key", ["1", "true", "~", "1.5", "null"])
def test_keys_that_are_not_text_are_refused(key: str) -> None:
    assert "key-not-text" in codes(f"{key}: x\n")


def test_an_empty_key_in_quotes_is_text() -> None:
    assert read("'': x") == {"": "x"}


@pytest.mark.parametrize(
    "character", ["\x00", "\x07", "\x1b", "\x7f", "\x85", "\u2028", "\u202e", "\u2066", "\ufeff", "\ud800", "\uffff"]
)
def test_forbidden_characters_are_named_with_their_place(character: str) -> None:
    problems = read_yaml(f"a: 1\nb: x{character}y\n", "f.yaml").problems
    assert [(problem.line, problem.column, problem.code) for problem in problems] == [(2, 5, "forbidden-character")]
    assert f"U+{ord(character):04X}" in problems[0].message


def test_escaped_characters_are_refused_too() -> None:
    assert codes('a: "\\0"\nb: "\\u202E"\n"k\\e": 1\n') == ["forbidden-character"] * 3


def test_duplicate_keys_name_both_places() -> None:
    [problem] = read_yaml("a: 1\nb:\n  x: 1\n  'x': 2\n", "f.yaml").problems
    assert (problem.line, problem.column, problem.pointer) == (4, 3, "/b/x")
    assert "3:3" in problem.message


def test_byte_order_mark_and_windows_lines_are_fine() -> None:
    reading = read_yaml("\ufeffa: 1\r\nb: |\r\n  x\r\n  y\r\n".encode(), "f.yaml")
    assert reading.problems == []
    assert reading.data == {"a": 1, "b": "x\ny\n"}
    assert reading.source_map.value_at(("b",)) == (2, 4)


@pytest.mark.parametrize("source", [b"\xff\xfea", b"a: \xc3\x28", "a: ü".encode("latin-1"), "a: 1".encode("utf-16")])
def test_other_encodings_are_refused(source: bytes) -> None:
    assert codes(source) in (["not-utf-8"], ["forbidden-character"] * source.count(0))


def test_limits_hold_at_their_edge() -> None:
    assert codes("[" * MAX_DEPTH + "]" * MAX_DEPTH) == []
    assert codes("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1)) == ["too-deep"]
    assert codes("[" + "1," * (MAX_YAML_NODES - 1) + "]") == []
    assert codes("[" + "1," * MAX_YAML_NODES + "]") == ["too-many-values"]
    assert codes("#" * MAX_FILE_BYTES) == ["empty-file"]
    assert codes("#" * (MAX_FILE_BYTES + 1)) == ["file-too-large"]
    assert codes("ü" * (MAX_FILE_BYTES // 2 + 1)) == ["file-too-large"]


def test_problems_are_bounded() -> None:
    assert len(codes("\x01" * 5000)) == 100
    assert len(codes("[" + "*a," * 5000 + "]")) == 100


def test_places_of_keys_and_values() -> None:
    places = read_yaml("a:\n  - x\n  - k: v\n    l: [1, 22]\n", "f.yaml").source_map
    assert places.key_at(("a", 1, "l")) == (4, 5)
    assert places.value_at(("a", 1, "l", 1)) == (4, 12)
    assert places.value_at(("a", 1, "missing", "deeper")) == (3, 5)
    assert SourceMap().value_at(("a",)) == (0, 0)


STYLES = """\
plain: some text X here
single: 'it''s X'
double: "tab\\t \\u00e9 \\x41 X"
literal: |
  first
    deeper X
   less
kept: |2+
    two X

folded: >-
  folded text
  goes X

  on
plain_lines: over several
  lines
  and X
double_lines: "over
   two \\
   lines X"
flow: {list: [a, "b X"]}
emoji: "😀 é X"
"""


def test_places_inside_scalars_of_every_style() -> None:
    reading = read_yaml(STYLES, "f.yaml")
    assert reading.problems == []
    lines = STYLES.split("\n")
    for key, value in reading.data.items():
        path: tuple[str | int, ...] = (key,)
        if key == "flow":
            path, value = ("flow", "list", 1), value["list"][1]
        offset = value.index("X")
        line = value.count("\n", 0, offset) + 1
        column = offset - value.rfind("\n", 0, offset)
        found = reading.source_map.inside_scalar(path, value, line, column)
        assert lines[found[0] - 1][found[1] - 1] == "X", key


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a:\n\tb: 1\n", (2, 1)),
        ("a: [1,\n  2\nb: 3\n", (3, 2)),
        ("a: 'open\n", (1, 4)),
        ("a: {b: 1\n", (1, 4)),
        ("a: b: c\n", (1, 5)),
        ("a: @x\n", (1, 4)),
        ("- a\nb: 1\n", (2, 1)),
    ],
)
def test_syntax_errors_have_places(text: str, place: tuple[int, int]) -> None:
    [problem] = read_yaml(text, "f.yaml").problems
    assert (problem.line, problem.column) == place
    assert problem.code == "yaml-syntax"
    assert problem.remedy
