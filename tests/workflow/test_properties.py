"""Whatever is thrown at reader, checker and expressions: an answer, never another exception, never for long."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rmhdag.workflow import InvalidInputs, InvalidWorkflow, check, load, validate_inputs
from rmhdag.workflow.expressions import (
    ExpressionError,
    compile_branch,
    compile_condition,
    compile_template,
    compile_value,
    resolve_path,
)
from rmhdag.workflow.yaml_reader import read_yaml
from tests.json_places import places_in, replaced
from tests.workflow.corpus import Case, cases

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)

YAML_PIECES = st.sampled_from(
    (
        "a¦b:¦: ¦- ¦\n¦  ¦[¦]¦{¦}¦,¦'¦\"¦|¦>¦&a ¦*a ¦!!x ¦? ¦#¦---\n¦nodes:\n¦  a:\n¦    handler: echo\n¦"
        "    next: b\n¦workflow_id: w\n¦\t¦%YAML 1.2\n¦<<: ¦\\¦\u202e¦é"
    ).split("¦")
)
EXPRESSION_PIECES = st.sampled_from(
    (
        "inputs¦nodes¦.a¦.output¦[0]¦['k']¦ + ¦ - ¦ * ¦ / ¦ % ¦ ~ ¦ | ¦length¦default(1)¦int¦(¦)¦[¦]¦{¦}¦"
        "1¦-1¦2.5¦'x'¦\"y\"¦true¦none¦ and ¦ or ¦ not ¦ in ¦ is ¦defined¦ == ¦ < ¦ if ¦ else ¦{{ ¦ }}¦{%¦"
        "%}¦{#¦item¦index¦fan_out¦,¦:¦**¦\n¦\\¦é¦range¦__class__¦join¦tojson¦sort"
    ).split("¦")
)


class Scope:
    def __init__(self, data: Any) -> None:
        self.data = data
        self.work = 0

    def lookup(self, root: str, path: tuple[str | int, ...]) -> Any:
        return resolve_path(self.data, path)


@given(st.text() | st.lists(YAML_PIECES, max_size=30).map("".join))
@settings(max_examples=200)
def test_any_text_is_answered(text: str) -> None:
    loaded, problems = check(text, file="f.yaml")
    assert (loaded is None) == bool(problems)
    for problem in problems:
        assert problem.line >= 1
        assert problem.column >= 1
        assert problem.remedy


@given(st.binary())
@settings(max_examples=200)
def test_any_bytes_are_answered(source: bytes) -> None:
    with suppress(InvalidWorkflow):
        load(source, file="f.yaml")


@given(st.sampled_from([case.path for case in cases("valid")]), st.data())
@settings(max_examples=200)
def test_any_change_of_a_valid_file_is_answered(path: Any, data: st.DataObject) -> None:
    text = path.read_text("utf-8")
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 40)))
    changed = text[:start] + data.draw(st.text(max_size=5) | YAML_PIECES) + text[end:]
    loaded, problems = check(changed, file=path.name)
    assert (loaded is None) == bool(problems)
    lines = changed.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    for problem in problems:
        assert 1 <= problem.line <= len(lines)


NEW_VALUES: list[Any] = [None, [], {"x": []}, True, "x"]


@pytest.mark.parametrize("case", list(cases("valid")), ids=lambda case: str(case.path.stem))
def test_any_value_of_a_valid_file_may_be_something_else(case: Case) -> None:
    data = read_yaml(case.path.read_bytes(), "").data
    for path in list(places_in(data))[1:]:
        for new in NEW_VALUES:
            loaded, problems = check(replaced(data, path, new), env_names=case.env_names)
            assert (loaded is None) == bool(problems), (path, new)


@given(
    st.dictionaries(st.sampled_from(["workflow_id", "nodes", "inputs", "outputs", "defaults", "version", "x"]), JSON)
)
@settings(max_examples=200)
def test_any_object_is_answered(data: dict[str, Any]) -> None:
    loaded, problems = check(data)
    assert (loaded is None) == bool(problems)


NODE_FIELDS = st.sampled_from(
    (
        "type handler queue params next depends_on branches condition condition_field on_true on_false source task "
        "child_node source_node aggregation field tolerate message approvers workflow version retry retries "
        "timeout_seconds item_key"
    ).split()
)
NODE_VALUES = JSON | st.sampled_from(
    (
        "a¦b¦END¦START¦task¦fan_out¦fan_in¦conditional¦approval¦workflow¦start¦end¦echo¦{{ item }}¦"
        "{{ nodes.a.output.x }}¦{{ inputs.x¦< 5¦inputs.x > 1"
    ).split("¦")
)


@given(
    st.dictionaries(
        st.sampled_from(["a", "b", "c", "END"]), st.dictionaries(NODE_FIELDS, NODE_VALUES, max_size=6), max_size=4
    )
)
@settings(max_examples=200)
def test_any_nodes_are_answered(nodes: dict[str, Any]) -> None:
    loaded, problems = check({"workflow_id": "w", "defaults": {"queue": "q"}, "nodes": nodes})
    assert (loaded is None) == bool(problems)


@given(JSON)
def test_json_written_as_yaml_is_read_back(value: Any) -> None:
    """JSON is YAML: what survives the refusals survives unchanged."""
    reading = read_yaml(json.dumps(value), "f.yaml")
    if not reading.problems:
        assert reading.data == value


@given(st.text() | st.lists(EXPRESSION_PIECES, max_size=25).map("".join), JSON)
@settings(max_examples=200)
@example("{{ inputs['a'] }}", {"a": 1})
def test_any_template_is_answered(text: str, data: Any) -> None:
    for compiler in (
        compile_template,
        compile_condition,
        lambda condition: compile_branch("inputs", condition),
        compile_value,
    ):
        with suppress(ExpressionError):
            compiler(text).evaluate(Scope(data))


@given(JSON)
def test_data_passes_through_a_lone_template_untouched(data: Any) -> None:
    scope = Scope({"x": data})
    assert compile_template("{{ inputs.x }}").evaluate(scope) is data
    assert compile_template("{{ (inputs.x) }}").evaluate(scope) is data
    assert compile_value({"k": ["{{ inputs.x }}"]}).evaluate(scope)["k"][0] is data


@given(st.text().filter(lambda text: "{" not in text))
def test_text_without_braces_is_itself(text: str) -> None:
    compiled = compile_template(text)
    assert compiled.is_static
    assert compiled.evaluate(Scope({})) == text


@given(
    st.sampled_from(["inputs", "nodes", "env", "item", "index", "fan_out", "other"]),
    st.lists(st.sampled_from(["a", "output", "status", "x", "total"]), max_size=4),
)
def test_the_short_way_means_the_same_as_the_long_one(root: str, steps: list[str]) -> None:
    """A lone path is read without a tree; in brackets it takes the long way."""
    outcomes: list[tuple[object, str | None]] = []
    for text in ("{{{{ {} }}}}", "{{{{ ({}) }}}}"):
        try:
            outcomes.append((compile_template(text.format(".".join([root, *steps]))).references, None))
        except ExpressionError as error:
            outcomes.append((frozenset(), error.message))
    assert outcomes[0] == outcomes[1]


INPUTS = load(
    {
        "workflow_id": "w",
        "inputs": {
            "s": {"type": "string", "maxLength": 5, "pattern": "^a*$"},
            "i": {"type": "integer", "minimum": 0, "multipleOf": 2},
            "n": {"type": "number", "multipleOf": 0.1},
            "a": {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
            "o": {"type": "object", "properties": {"k": {"type": "boolean", "default": True}}},
        },
        "nodes": {"a": {"handler": "echo", "queue": "q"}},
    }
).definition


@given(st.dictionaries(st.sampled_from(["s", "i", "n", "a", "o", "z"]), JSON) | JSON)
@settings(max_examples=150)
def test_any_parameters_are_answered(params: Any) -> None:
    with suppress(InvalidInputs):
        once = validate_inputs(INPUTS, params)
        assert once.keys() >= INPUTS.inputs.keys()
        assert validated_again(once) == once


def validated_again(params: dict[str, Any]) -> dict[str, Any] | str:
    """What passed once must pass again; a refusal is returned, not raised, so that it is seen."""
    try:
        return validate_inputs(INPUTS, params)
    except InvalidInputs as error:
        return str(error)
