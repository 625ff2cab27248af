"""Submitted parameters against the declared inputs."""

from typing import Any

import pytest

from rmhdag.workflow import InvalidInputs, load, validate_inputs
from rmhdag.workflow.definition import WorkflowDefinition


def definition(**inputs: Any) -> WorkflowDefinition:
    return load({"workflow_id": "w", "inputs": inputs, "nodes": {"a": {"handler": "echo", "queue": "q"}}}).definition


def validated(declared: dict[str, Any], value: Any) -> Any:
    return validate_inputs(definition(x=declared), {"x": value})["x"]


def refusals(declared: dict[str, Any], value: Any) -> list[tuple[str, str]]:
    with pytest.raises(InvalidInputs) as caught:
        validate_inputs(definition(x=declared), {"x": value})
    assert all(problem.remedy and problem.message for problem in caught.value.problems)
    return [(problem.code, problem.pointer) for problem in caught.value.problems]


def test_defaults_are_applied_and_what_is_optional_is_null() -> None:
    declared = definition(
        a={"type": "string", "default": "x"}, b={"type": "integer"}, c={"type": "array", "default": []}
    )
    assert validate_inputs(declared, {}) == {"a": "x", "b": None, "c": []}
    assert validate_inputs(declared, {"a": "y", "b": 1}) == {"a": "y", "b": 1, "c": []}


def test_validated_parameters_can_be_submitted_again() -> None:
    declared = definition(a={"type": "string"}, b={"type": "integer", "default": 3})
    once = validate_inputs(declared, {})
    assert validate_inputs(declared, once) == once


def test_null_counts_as_not_given() -> None:
    assert validated({"type": "string", "default": "x"}, None) == "x"
    assert refusals({"type": "string", "required": True}, None) == [("missing-parameter", "/x")]


def test_unknown_parameters_are_refused_with_a_suggestion() -> None:
    with pytest.raises(InvalidInputs) as caught:
        validate_inputs(definition(container_name={"type": "string"}), {"container": "a", "a/b": 1})
    first, second = caught.value.problems
    assert (first.code, first.pointer, first.remedy) == (
        "unknown-parameter",
        "/container",
        "Did you mean `container_name`?",
    )
    assert second.pointer == "/a~1b"
    assert str(first).startswith("input_params#/container: ")


def test_all_problems_come_at_once() -> None:
    declared = definition(a={"type": "string", "required": True}, b={"type": "integer"})
    with pytest.raises(InvalidInputs) as caught:
        validate_inputs(declared, {"b": "1", "c": 1})
    assert sorted(problem.pointer for problem in caught.value.problems) == ["/a", "/b", "/c"]


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("string", ["", "x"], [1, True, [], {}]),
        ("integer", [0, -5, 2**63 - 1], [True, "3", 1.5, [], {}]),
        ("number", [0, 1.5, -1e300], [True, "3", []]),
        ("boolean", [True, False], [0, 1, "true"]),
        ("array", [[], [1, "a", None]], [{}, "ab", 1]),
        ("object", [{}, {"a": None}], [[], "x", 1]),
    ],
)
def test_types_are_strict(kind: str, good: list[Any], bad: list[Any]) -> None:
    for value in good:
        assert validated({"type": kind}, value) == value
    for value in bad:
        assert refusals({"type": kind}, value) == [("wrong-type", "/x")]


def test_a_whole_float_is_an_integer_and_becomes_one() -> None:
    found = validated({"type": "integer"}, 3.0)
    assert found == 3
    assert type(found) is int


@pytest.mark.parametrize(
    ("declared", "good", "bad"),
    [
        ({"type": "integer", "minimum": 2, "maximum": 4}, [2, 4], [1, 5]),
        ({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}, [0.5], [0, 1, -1]),
        ({"type": "number", "multipleOf": 0.1}, [0.3, 1, 0], [0.35]),
        ({"type": "integer", "multipleOf": 3}, [9, -3], [10]),
        ({"type": "number", "multipleOf": 1e-300}, [0], [1e300]),
        ({"type": "string", "minLength": 2, "maxLength": 3}, ["ab", "äöü"], ["a", "abcd"]),
        ({"type": "string", "pattern": "^[a-z]+$"}, ["abc"], ["", "ABC", "abc\n"]),
        ({"type": "string", "pattern": "b"}, ["abc"], ["xyz"]),
        ({"type": "string", "format": "date"}, ["2026-02-12"], ["12.02.2026", "2026-13-01", "2026-02-12T00:00:00Z"]),
        (
            {"type": "string", "format": "date-time"},
            ["2026-02-12T10:00:00Z", "2026-02-12T10:00:00.5+01:00"],
            ["2026-02-12"],
        ),
        ({"type": "string", "format": "uuid"}, ["0190a3c4-8d2e-7c3a-9f00-123456789abc"], ["0190a3c4"]),
        ({"type": "string", "format": "uri"}, ["https://example.org/a?b=c"], ["not a uri", "/path"]),
        ({"type": "string", "format": "email"}, ["a@b.org"], ["a", "a b@c.org"]),
        ({"type": "string", "enum": ["a", "b"]}, ["a"], ["c", "A"]),
        ({"type": "integer", "enum": [1, 2]}, [1, 2.0], [3]),
        ({"type": "array", "minItems": 1, "maxItems": 2}, [[1]], [[], [1, 2, 3]]),
        (
            {"type": "array", "uniqueItems": True},
            [[1, True, "1"], [{"a": 1}, {"a": 2}]],
            [[1, 1.0], [{"a": 1}, {"a": 1}]],
        ),
    ],
)
def test_limits(declared: dict[str, Any], good: list[Any], bad: list[Any]) -> None:
    for value in good:
        assert validated(declared, value) == value
    for value in bad:
        assert refusals(declared, value)[0][1] == "/x"


def test_items_and_properties_are_checked_and_defaulted() -> None:
    declared = {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {"name": {"type": "string", "required": True}, "size": {"type": "integer", "default": 1}},
            "additionalProperties": False,
        },
    }
    assert validated(declared, [{"name": "a"}, {"name": "b", "size": 2}]) == [
        {"name": "a", "size": 1},
        {"name": "b", "size": 2},
    ]
    assert refusals(declared, [{"name": "a"}, {"size": "2", "other": 1}]) == [
        ("unknown-parameter", "/x/1/other"),
        ("missing-parameter", "/x/1/name"),
        ("wrong-type", "/x/1/size"),
    ]


def test_objects_are_open_unless_said_otherwise() -> None:
    declared = {"type": "object", "properties": {"a": {"type": "string"}}}
    assert validated(declared, {"b": 1}) == {"b": 1}


@pytest.mark.parametrize(
    "params",
    [
        {"x": float("nan")},
        {"x": float("inf")},
        {"x": "a\0b"},
        {"x": "\ud800"},
        {"x": 2**64},
        {"x": {1: 2}},
        {"\0": 1},
    ],
)
def test_what_jsonb_cannot_hold_is_refused(params: Any) -> None:
    with pytest.raises(InvalidInputs) as caught:
        validate_inputs(definition(x={"type": "object"}), params)
    assert [problem.code for problem in caught.value.problems] == ["not-json"]


def test_deep_and_large_parameters_are_refused() -> None:
    declared = definition(x={"type": "array"})
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(InvalidInputs, match="too deep"):
        validate_inputs(declared, {"x": deep})
    with pytest.raises(InvalidInputs, match="larger than"):
        validate_inputs(declared, {"x": ["y" * 1000] * 1000}, max_bytes=100_000)
    assert (
        len(validate_inputs(declared, {"x": [f"s3://bucket/file_{index}.tif" for index in range(100_000)]})["x"])
        == 100_000
    )


@pytest.mark.parametrize("params", [None, [], "x", 1])
def test_parameters_are_an_object(params: Any) -> None:
    with pytest.raises(InvalidInputs, match="not an object"):
        validate_inputs(definition(), params)


def test_patterns_cannot_hang() -> None:
    declared = {"type": "string", "pattern": "^(a|a)*(a+)+$"}
    assert refusals(declared, "a" * 9_999 + "!") == [("out-of-range", "/x")]
    assert refusals(declared, "a" * 100_000 + "!") == [("too-expensive", "/x")]


def test_text_with_braces_stays_text() -> None:
    assert validated({"type": "string"}, "{{ env.SECRET }}") == "{{ env.SECRET }}"
