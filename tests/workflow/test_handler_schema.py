"""Parameters and outputs against the schemas that handlers publish, odd and hostile schemas included."""

from __future__ import annotations

from typing import Any

import pytest

from rmhdag.workflow import HandlerEntry, KnownHandlers, load
from rmhdag.workflow.handler_rules import find_unfit_tasks
from rmhdag.workflow.handler_schema import find_missing_step, find_param_faults

TILE: dict[str, Any] = {
    "$defs": {
        "Box": {
            "type": "object",
            "properties": {"west": {"type": "number"}, "east": {"type": "number"}},
            "required": ["west"],
            "additionalProperties": False,
        },
        "Named": {
            "type": "object",
            "properties": {"name": {"type": "string"}},
            "required": ["name"],
            "additionalProperties": False,
        },
    },
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "tile": {"type": "string", "minLength": 2},
        "size": {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}]},
        "area": {"anyOf": [{"oneOf": [{"$ref": "#/$defs/Box"}, {"$ref": "#/$defs/Named"}]}, {"type": "null"}]},
        "bands": {"type": "array", "items": {"type": "integer"}, "maxItems": 3},
        "corner": {"type": "array", "prefixItems": [{"type": "number"}, {"type": "string"}]},
        "options": {"type": "object", "additionalProperties": {"type": "boolean"}},
        "mode": {"const": "fast"},
    },
    "required": ["tile"],
    "x-other-names": {"tile": ["tile_name"]},
}


def faults(**params: Any) -> list[str]:
    return [f"{fault.pointer} {fault.code}" for fault in find_param_faults("h", TILE, params)]


@pytest.mark.parametrize(
    ("params", "found"),
    [
        ({"tile": "t1"}, []),
        ({"tile_name": "t1"}, []),
        ({}, ["/tile missing-parameter"]),
        ({"tile": "t1", "tlie": 1}, ["/tlie unknown-parameter"]),
        ({"tile": "t1", "tlie": "{{ inputs.x }}"}, ["/tlie unknown-parameter"]),
        ({"tile": "{{ inputs.x }}", "size": "{{ inputs.y }}"}, []),
        ({"tile": 3}, ["/tile wrong-type"]),
        ({"tile": None}, ["/tile wrong-type"]),
        ({"tile": "t"}, ["/tile out-of-range"]),
        ({"tile": "t1", "size": None}, []),
        ({"tile": "t1", "size": 3.0}, []),
        ({"tile": "t1", "size": "3"}, ["/size wrong-type"]),
        ({"tile": "t1", "size": True}, ["/size wrong-type"]),
        ({"tile": "t1", "size": 0}, ["/size out-of-range"]),
        ({"tile": "t1", "area": {"west": 1, "east": "{{ item }}"}}, []),
        ({"tile": "t1", "area": {"west": 1, "eats": 2}}, ["/area/eats unknown-parameter"]),
        ({"tile": "t1", "area": {"name": 1}}, ["/area/name wrong-type"]),
        ({"tile": "t1", "area": [1]}, ["/area wrong-type"]),
        ({"tile": "t1", "bands": [1, "2", "{{ item }}"]}, ["/bands/1 wrong-type"]),
        ({"tile": "t1", "bands": [1, 2, 3, 4]}, ["/bands out-of-range"]),
        ({"tile": "t1", "corner": ["a", 1, None]}, ["/corner/0 wrong-type", "/corner/1 wrong-type"]),
        ({"tile": "t1", "options": {"any": True, "other": 1}}, ["/options/other wrong-type"]),
        ({"tile": "t1", "mode": "slow"}, ["/mode not-allowed"]),
    ],
)
def test_names_types_and_limits(params: dict[str, Any], found: list[str]) -> None:
    assert faults(**params) == found


def test_a_choice_of_types_is_named_as_a_whole() -> None:
    schema = {"type": "object", "properties": {"a": {"anyOf": [{"type": "string"}, {"type": "integer"}]}}}
    (fault,) = find_param_faults("h", schema, {"a": [1]})
    assert fault.message == "parameter `a` of `h` must be text or a whole number, not a list"


@pytest.mark.parametrize(
    ("kind", "value", "remedy"),
    [
        ("number", "0.3", "Write 0.3 without quotes"),
        ("number", "-1e-3", "Write -1e-3 without quotes"),
        ("integer", "3", "Write 3 without quotes"),
        ("integer", "3.5", "Give a whole number"),
        ("integer", "007", "Give a whole number"),
        ("number", "inf", "Give a number"),
        ("number", "٣", "Give a number"),
        ("boolean", "true", "Write true without quotes"),
        ("boolean", "yes", "Give true or false"),
        ("string", 3, "Write it in quotes"),
        ("string", True, "Write it in quotes"),
        ("string", [3], "Give text"),
        ("array", "3", "Give a list"),
    ],
)
def test_a_value_that_is_right_but_for_its_quotes(kind: str, value: Any, remedy: str) -> None:
    (fault,) = find_param_faults("h", {"type": "object", "properties": {"a": {"type": kind}}}, {"a": value})
    assert (fault.code, fault.remedy) == ("wrong-type", remedy)


def test_further_names_are_suggested() -> None:
    (unknown, missing) = find_param_faults("h", TILE, {"tile_nmae": "x1"})
    assert (unknown.remedy, missing.code) == ("Did you mean `tile_name`?", "missing-parameter")


LOOP = {"$defs": {"A": {"$ref": "#/$defs/A"}}, "$ref": "#/$defs/A"}
BUSH = {"$defs": {"A": {"anyOf": [{"$ref": "#/$defs/A"}] * 30}}, "properties": {"a": {"$ref": "#/$defs/A"}}}
NEST: dict[str, Any] = {
    "$defs": {"A": {"type": "object", "additionalProperties": {"anyOf": [{"$ref": "#/$defs/A"}] * 9}}},
    "$ref": "#/$defs/A",
}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (LOOP, 1),
        (BUSH, 1),
        (NEST, {"a": {"a": {"a": {"a": {"a": {"a": {"a": {"a": 1}}}}}}}}),
        ({"$ref": "elsewhere"}, 1),
        ({"properties": 3}, 1),
        ({"properties": {"a": {"minimum": "x", "type": "integer"}}}, 1),
        ({"properties": {"a": {"multipleOf": 0, "type": "integer"}}}, 1),
        ({"properties": {"a": {"type": "string", "pattern": "("}}}, "x"),
        ({"properties": {"a": {"enum": 3}}}, 1),
        ({"required": 3}, 1),
        ({"anyOf": "x"}, 1),
        ({"x-other-names": [1], "properties": {}}, 1),
    ],
    ids=lambda value: str(value)[:60],
)
def test_odd_schemas_check_nothing_and_come_to_an_end(schema: dict[str, Any], value: Any) -> None:
    """They may come from anybody who has a key for workers."""
    assert find_param_faults("h", schema, {"a": value}) == []


@pytest.mark.parametrize(
    ("steps", "place"),
    [
        (("west",), None),
        (("box", "west"), None),
        (("box", "wset"), 1),
        (("bx",), 0),
        (("many", 0, "x"), None),
        (("free", "x"), None),
        (("maybe", "x"), None),
    ],
)
def test_steps_into_an_output(steps: tuple[str | int, ...], place: int | None) -> None:
    box = {"type": "object", "properties": {"west": {"type": "number"}}}
    schema = {
        "$defs": {"Box": box},
        "type": "object",
        "properties": {
            "west": {"type": "number"},
            "box": {"$ref": "#/$defs/Box"},
            "many": {"type": "array", "items": {"$ref": "#/$defs/Box"}},
            "free": {"type": "object", "additionalProperties": True},
            "maybe": {"anyOf": [{"$ref": "#/$defs/Box"}, {"type": "null"}]},
        },
    }
    found = find_missing_step(schema, steps)
    assert (None if found is None else found[0]) == place


RESERVED = (
    "node `three`: there is no handler `kept.name` yet: rmhdag keeps this name for a later version. "
    "Write a handler of your own under another name, or leave the node out"
)


def test_a_stored_workflow_is_held_against_the_handlers_of_today() -> None:
    text = """
        workflow_id: stored
        defaults: {queue: q}
        nodes:
          one: {handler: mine.clip, params: {tlie: a}}
          two: {handler: gone.away, params: {x: 1}}
          three: {handler: kept.name}
          each: {type: fan_out, source: [1], child_node: child}
          child: {handler: mine.clip, params: {tile: "{{ item }}", size: "1"}}
          all: {type: fan_in, source_node: each}
    """
    definition = load(text).definition
    known = KnownHandlers([HandlerEntry("mine.clip", params_schema=TILE)], reserved=["kept.name"])
    assert find_unfit_tasks(definition, KnownHandlers()) == []
    assert find_unfit_tasks(definition, known) == [
        "node `one`: handler `mine.clip` has no parameter `tlie`. Did you mean `tile`?",
        "node `one`: handler `mine.clip` needs the parameter `tile`. Add `tile` under `params`",
        RESERVED,
        "node `each`: parameter `size` of `mine.clip` must be a whole number, not text. Write 1 without quotes",
    ]
