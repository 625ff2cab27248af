"""Checks of workflows and parameters take time that is linear in what was sent: work is counted, not timed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from rmhdag.api.member_counts import refuse_many_members, shape_of
from rmhdag.api.problems import Problem
from rmhdag.models.api.jobs import JobBatch, JobSubmission
from rmhdag.workflow import problems
from rmhdag.workflow.checker import Surroundings, find_problems
from rmhdag.workflow.definition import InputDefinition
from rmhdag.workflow.handler_schema import find_param_faults
from rmhdag.workflow.inputs import InvalidInputs, validate_inputs
from rmhdag.workflow.parameters import ValueCheck
from rmhdag.workflow.patterns import PatternWork, TooExpensive, pattern_fault, size_of
from tests.engine.definitions import task, workflow

HOSTILE = "(?:a|b)*a(?:[ab]{100}){50}c"


@contextmanager
def counted_guesses(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The words for which the known ones are searched."""
    words: list[str] = []
    search = problems.closest

    def note(word: str, known: Any) -> str | None:
        words.append(word)
        return search(word, known)

    with monkeypatch.context() as patch:
        patch.setattr(problems, "closest", note)
        yield words


def node(**more: Any) -> dict[str, Any]:
    return {"handler": "echo", "queue": "light", **more}


def test_many_unknown_dependencies_get_few_guesses(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = {f"node_{n}": node(depends_on=[f"nod_{n}_{k}" for k in range(10)]) for n in range(100)}
    with counted_guesses(monkeypatch) as words:
        checked, found = find_problems({"workflow_id": "many", "nodes": nodes}, Surroundings())
    assert checked is None
    assert len(found) == problems.MAX_PROBLEMS
    assert len(words) <= problems.MOST_GUESSES
    assert any("Did you mean" in fault.remedy for fault in found)


def test_many_unknown_parameters_get_few_guesses(monkeypatch: pytest.MonkeyPatch) -> None:
    declared = {f"declared_{n}": InputDefinition(type="string") for n in range(60)}
    definition = workflow(a=task()).model_copy(update={"inputs": declared})
    with counted_guesses(monkeypatch) as words, pytest.raises(InvalidInputs) as refusal:
        validate_inputs(definition, {f"declare_{n}": 1 for n in range(2_000)})
    assert len(refusal.value.problems) == problems.MAX_PROBLEMS
    assert len(words) == problems.MOST_GUESSES


def test_guesses_look_at_few_short_words() -> None:
    """10,000 names of 100 characters that all begin alike are the worst."""
    names = [f"{'ab' * 40}{n:05}" for n in range(10_000)]
    assert problems.closest("ab" * 50, names) is not None
    assert problems.MOST_COMPARED * problems.LONGEST_COMPARED <= 2_000


def test_large_enum_is_compared_by_sets() -> None:
    choices: list[Any] = [*range(30_000), 1.0, True, "1", [1, {"b": 1, "a": 2}], [1.0, {"a": 2, "b": 1}]]
    checked, found = find_problems(
        {"workflow_id": "e", "inputs": {"x": {"type": "integer", "enum": choices[:30_001]}}, "nodes": {"a": node()}},
        Surroundings(),
    )
    assert checked is None
    assert [(fault.code, fault.pointer) for fault in found] == [("repeated-value", "/inputs/x/enum/30000")]
    check = ValueCheck()
    assert check.is_among(1.0, choices)
    assert check.is_among([1, {"a": 2, "b": 1}], choices)
    assert not check.is_among("2", choices)
    assert not check.is_among(False, choices)


def test_items_of_an_enum_are_looked_up() -> None:
    """30,000 items against 30,000 choices: all pairs would take minutes."""
    declared = {"type": "array", "items": {"type": "integer", "enum": list(range(30_000))}}
    check = ValueCheck()
    check.value(declared, list(reversed(range(30_000))), ("x",))
    assert not check.faults


def test_a_handlers_constant_is_not_mistaken_for_another() -> None:
    members = {f"m{n}": {"const": n} for n in range(100)}
    schema = {"type": "object", "properties": members}
    assert find_param_faults("h", schema, {f"m{n}": n for n in range(100)}) == []
    assert len(find_param_faults("h", schema, {f"m{n}": n + 1 for n in range(100)})) == 100


def test_long_chain_between_two_cycles_is_walked_once() -> None:
    """Nodes between two cycles are on none, but no peeling from the ends removes them."""
    nodes = {f"n{i}": node(next=f"n{i + 1}") for i in range(9_990)}
    nodes |= {"n9990": node(next="n9989"), "n0": node(next=["n1", "z"]), "z": node(next="n0")}
    checked, found = find_problems({"workflow_id": "chain", "nodes": nodes}, Surroundings())
    assert checked is None
    assert [fault.code for fault in found] == ["cycle", "cycle"]


@pytest.mark.parametrize(
    ("pattern", "size"),
    [
        ("^[a-z]{3}$", 5),
        ("(ab){10}", 30),
        ("((a{10}){10}){10}", 1_110),
        (r"\w+", 10),
        (r"[^/]+\.tif", 6),
        ("a{2,}", 3),
        ("a{0,5}?", 5),
        (r"\x{41}{4}\pL", 14),
        (r"[]a]{2}", 2),
        ("[[:alpha:]]", 1),
        ("(?P<year>[0-9]{4})", 5),
        ("(?i:ab)", 3),
        (r"\{3\}", 3),
    ],
)
def test_size_of_a_pattern(pattern: str, size: int) -> None:
    assert size_of(pattern) == size


@pytest.mark.parametrize("pattern", ["(", ")", "[a", "a{", "a{x}", "\\", "(?x) a #(", "(" * 30 + ")" * 30])
def test_patterns_that_cannot_be_read_are_refused(pattern: str) -> None:
    assert size_of(pattern) is None
    assert pattern_fault(pattern)


@pytest.mark.parametrize("pattern", [HOSTILE, "a{1001}", r"\w{101}", "(a{40}){40}", "(?:a{1000}|b{1000})"])
def test_large_patterns_are_refused(pattern: str) -> None:
    fault = pattern_fault(pattern)
    assert fault is not None
    assert "too complex" in fault
    with pytest.raises(TooExpensive):
        PatternWork().matches(pattern, "ab")


def test_one_check_has_a_budget_for_patterns() -> None:
    """Ten thousand texts of the most characters, against a pattern of the largest size."""
    declared = {"type": "array", "items": {"type": "string", "pattern": "[ab]*a[ab]{990}c"}}
    check = ValueCheck()
    check.value(declared, ["ab" * 5_000] * 10_000, ("x",))
    assert check.is_full
    assert check.faults[-1].code == "too-expensive"
    assert check.faults[0].code == "out-of-range"


def test_stored_workflow_with_an_old_pattern_is_not_tried() -> None:
    definition = workflow(a=task()).model_copy(
        update={"inputs": {"x": InputDefinition.model_construct(type="string", pattern=HOSTILE)}}
    )
    with pytest.raises(InvalidInputs, match="too complex"):
        validate_inputs(definition, {"x": "abba" * 10})


def test_handlers_pattern_that_is_too_large_is_left_to_the_handler() -> None:
    schema = {"type": "object", "properties": {"x": {"type": "string", "pattern": HOSTILE}}}
    assert find_param_faults("h", schema, {"x": "ab" * 100_000}) == []


@pytest.mark.parametrize(
    "value",
    [
        {f"m{n}": 1 for n in range(200)},
        {"jobs": [1] * 1_001},
    ],
)
def test_bodies_with_too_many_members_never_reach_their_model(value: Any) -> None:
    with pytest.raises(Problem) as refusal:
        refuse_many_members(value, shape_of(JobBatch | None))
    assert refusal.value.status_code == 422
    assert 1 <= len(refusal.value.body.errors) <= 10


def test_few_unknown_members_are_the_models_to_name() -> None:
    refuse_many_members(
        {"workflow_id": "a", "input_params": {f"m{n}": 1 for n in range(9_000)}}, shape_of(JobSubmission)
    )
    refuse_many_members([1, "a", None], shape_of(JobSubmission))
    refuse_many_members({"anything": 1}, shape_of(dict[str, Any]))
