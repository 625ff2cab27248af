"""The JSON Schema, which editors use, says the same as the models: what fits it has nothing that they would report."""

import copy
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmhdag.workflow import Problem, check
from rmhdag.workflow.check_models import CHECK_MODELS, CheckType
from rmhdag.workflow.language_schema import json_schema
from rmhdag.workflow.report import Report
from rmhdag.workflow.source_map import SourceMap
from rmhdag.workflow.structure_faults import report_structure
from rmhdag.workflow.written import NODE_MODELS
from rmhdag.workflow.yaml_reader import read_yaml
from tests.workflow.corpus import cases

Schema = dict[str, Any]
SCHEMA = json_schema()


def matches(_: Any, pattern: str, value: Any, __: Any) -> Iterator[jsonschema.ValidationError]:
    """As JSON Schema has it, `$` is the very end; Python's is also before a last line feed."""
    if isinstance(value, str) and not re.search(pattern.replace("$", r"\Z"), value):
        yield jsonschema.ValidationError(f"{value!r} does not match")


# As for the models, and unlike in JSON Schema, 3.0 is no integer.
WHOLE = jsonschema.Draft202012Validator.TYPE_CHECKER.redefine("integer", lambda _, value: type(value) is int)
VALIDATOR = jsonschema.validators.extend(  # type: ignore[no-untyped-call]
    jsonschema.Draft202012Validator, {"pattern": matches}, type_checker=WHOLE
)
FILES = {
    case.path.stem: reading.data
    for kind in ("valid", "invalid")
    for case in cases(kind)
    if isinstance((reading := read_yaml(case.path.read_bytes(), "")).data, dict) and not reading.problems
}
VALID = [case.path.stem for case in cases("valid")]

LIMITS = (0, 1, 99, 100, 86_400, 1_000_000, 31_536_000, 2_147_483_647)
LENGTHS = (48, 49, 64, 65, 200, 201, 4_000, 4_001)
NUMBERS: list[Any] = [
    *(number for limit in LIMITS for number in (limit, limit + 1, float(limit))),
    *(-1, 2**63 - 1, -0.0, 0.1, 1.5, 100.5, 1e300, True, False),
]
TEXTS: list[Any] = [
    *(letter * length for letter in ("a", "Z") for length in LENGTHS),
    *("", "a", "A", "9", "_", "-", "a-b", "a_b", "a.b", "a..b", ".a", "a.", "a b", "a\n", "\na", "é", "{x}", "{{ x }}"),
    *("END", "none", "linear", "collect", "sum", "fail", "continue", "raster", "string", "object", "true", "1", "1.5"),
    "required",
    *(kind.value for kind in NODE_MODELS),
]
OTHERS: list[Any] = json.loads(
    """[null, [], {}, [null], [1], ["a"], ["a", "a"], ["a", "b"], ["a\\n"], [[]], [{}], {"a": null}, {"a": "b"},
    {"all_of": "a"}, {"all_of": []}, {"all_of": null}, {"any_of": ["a"], "all_of": "b"}, {"some_of": "a"},
    {"max_attempts": 1}, {"max_attempts": 1.0}, {"max_attempts": 0}, {"max_attempts": null}, {"jitter": 1},
    {"jitter": true}, {"x": 1}, {"count": 1}, {"percent": 50}, {"count": 1, "percent": 5}, {"count": null},
    {"handler": "echo"}, {"handler": "echo", "x": 1}, {"handler": "echo", "queue": null}, {"queue": "q"},
    [{"default": true, "next": "a"}], [{"default": 1, "next": "a"}], [{"condition": "< 1"}], [{"next": "a"}],
    {"a": {"type": "string"}}, {"a": {"type": "string", "default": null}}, {"a": {"type": "string", "enum": null}},
    {"type": "crs", "value": "v"}, [{"type": "crs", "value": "v"}], [{"type": "crs"}], [{"value": "v"}], [".tif"],
    {"a b": {"type": "string"}}, {"a\\n": 1}, {"queue": null}, {"retries": 1, "retry": {}}, {"type": "string"}]"""
)
VALUES = NUMBERS + TEXTS + OTHERS

# What the schema refuses and the models leave to the rules.
LEFT_TO_RULES = {"source", "next", "on_true", "on_false", "depends_on", "branches", "tolerate", "task", "defaults"}


def fits(schema: Schema, value: Any) -> bool:
    return bool(VALIDATOR({**schema, "$defs": SCHEMA["$defs"]}).is_valid(value))


def file_with(node: dict[str, Any]) -> dict[str, Any]:
    return {"workflow_id": "w", "nodes": {"a": node}}


NODES: dict[str, dict[str, Any]] = {model.__name__: {"type": kind.value} for kind, model in NODE_MODELS.items()}
NODES["WrittenTask"] = {"handler": "echo"}
NODES["WrittenFanOut"]["source"] = []
NODES["WrittenWorkflowNode"]["workflow"] = "other"

CHECK_PARTS: dict[CheckType, dict[str, Any]] = {
    CheckType.BLOB_EXISTS: {"container": "c", "path": "p"},
    CheckType.BLOB_LIST: {"container": "c", "paths": "p"},
    CheckType.CONTAINER_NOT_EMPTY: {"container": "c"},
    CheckType.EXTENSION: {"path": "p", "allowed": [".tif"]},
    CheckType.CRS: {"value": "v"},
    CheckType.DATA_DATABASE: {},
}

# Each definition of the schema, the least it may hold, and a file around it.
AROUND: dict[str, tuple[dict[str, Any], Callable[[Any], dict[str, Any]]]] = {
    **{name: (least, file_with) for name, least in NODES.items()},
    **{
        model.__name__: (
            {"type": kind.value, **CHECK_PARTS[kind]},
            lambda part: {**file_with({"handler": "echo"}), "checks": [part]},
        )
        for kind, model in CHECK_MODELS.items()
    },
    "WrittenBranch": (
        {"next": "a"},
        lambda part: file_with({"type": "conditional", "condition_field": "inputs.a", "branches": [part]}),
    ),
    "WrittenDefaults": ({}, lambda part: {**file_with({"handler": "echo"}), "defaults": part}),
    "WrittenInput": ({"type": "string"}, lambda part: {**file_with({"handler": "echo"}), "inputs": {"a": part}}),
    "WrittenRetry": ({}, lambda part: file_with({"handler": "echo", "retry": part})),
    "WrittenTaskSpec": ({"handler": "echo"}, lambda part: file_with({**NODES["WrittenFanOut"], "task": part})),
    "WrittenTolerance": ({}, lambda part: file_with({"type": "fan_in", "tolerate": part})),
}
FIELDS = [
    (name, field)
    for name in AROUND
    for field in SCHEMA["$defs"][name]["properties"]
    if (name, field) == ("WrittenInput", "type") or field != "type"
]


def structural_problems(data: dict[str, Any]) -> list[Problem]:
    report = Report("file", SourceMap())
    report_structure(data, report)
    return report.sorted()


def test_every_definition_is_compared() -> None:
    assert AROUND.keys() == SCHEMA["$defs"].keys() - {"Node", "Check"}


@pytest.mark.parametrize(("name", "field"), FIELDS)
def test_a_field_takes_the_same_values_by_schema_and_model(name: str, field: str) -> None:
    least, around = AROUND[name]
    refused = [
        value
        for value in VALUES
        if not _agree(field, SCHEMA["$defs"][name]["properties"][field], value, around({**least, field: value}))
    ]
    assert len(refused) < len(VALUES)
    assert refused or (name, field) == ("WrittenInput", "default")


@pytest.mark.parametrize("field", SCHEMA["properties"].keys() - {"nodes"})
def test_a_field_of_the_workflow_takes_the_same_values(field: str) -> None:
    whole = file_with({"handler": "echo"})
    refused = [
        value for value in VALUES if not _agree(field, SCHEMA["properties"][field], value, {**whole, field: value})
    ]
    assert 0 < len(refused) < len(VALUES)


def _agree(field: str, schema: Schema, value: Any, data: dict[str, Any]) -> bool:
    """Whether the value is allowed, by both."""
    by_schema, by_model = fits(schema, value), not structural_problems(data)
    if by_schema != by_model:
        assert by_model, f"the schema allows {value!r}, the models do not"
        assert field in LEFT_TO_RULES, f"the models allow {value!r}, the schema does not"
    return by_schema


@pytest.mark.parametrize("name", FILES)
def test_what_fits_has_no_problem_of_structure(name: str) -> None:
    if fits(SCHEMA, FILES[name]):
        assert structural_problems(FILES[name]) == []
    else:
        assert name not in VALID


FIELD_NAMES = sorted(
    {field for _, field in FIELDS} | SCHEMA["properties"].keys() | {"type", "all_of", "any_of", "x", "a b"}
)


def places(value: Any) -> Iterator[tuple[Any, str | int]]:
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in members:
        yield value, key
        yield from places(part)


@st.composite
def changed_files(draw: st.DrawFn) -> dict[str, Any]:
    """A valid file with fields deleted, renamed, added or given other values."""
    data: dict[str, Any] = copy.deepcopy(FILES[draw(st.sampled_from(VALID))])
    for _ in range(draw(st.integers(1, 3))):
        owner, key = draw(st.sampled_from(list(places(data)) or [(data, "x")]))
        change = draw(st.sampled_from(["set", "set", "add", "delete", "rename"]))
        if change == "delete" and key in (owner if isinstance(owner, dict) else range(len(owner))):
            del owner[key]
        elif change == "rename" and isinstance(owner, dict) and key in owner:
            owner[draw(st.sampled_from(FIELD_NAMES))] = owner.pop(key)
        elif change == "add" and isinstance(owner, dict):
            owner[draw(st.sampled_from(FIELD_NAMES))] = copy.deepcopy(draw(st.sampled_from(VALUES)))
        else:
            owner[key] = copy.deepcopy(draw(st.sampled_from(VALUES)))
    return data


@given(changed_files())
@settings(max_examples=200)
def test_a_changed_file_is_judged_alike(data: dict[str, Any]) -> None:
    if fits(SCHEMA, data):
        assert structural_problems(data) == []
    else:
        assert check(data)[0] is None
