"""Expressions within all other limits: their work is counted as it costs, and no job keeps the others waiting."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from rmhdag.engine.effects import ChildrenCreated, ContinueLater, Effect
from rmhdag.engine.inputs import Continue, Input, Start
from rmhdag.engine.plan import Plan
from rmhdag.engine.run import JobFacts, JobRun
from rmhdag.orchestrator import advance
from rmhdag.orchestrator.duties import claim_submissions
from rmhdag.workflow.definition import FanOutNode, InputDefinition, WorkflowDefinition
from rmhdag.workflow.expressions import ExpressionError, compile_template, compile_value, resolve_path
from rmhdag.workflow.expressions.budget import CONSTANT_WORK, MAX_WORK, STEP_WORK
from tests.engine.definitions import spec, task, workflow
from tests.engine.driver import START_OF_TIME
from tests.orchestrator.platform import Platform

TEXTS = [f"text {n * 7919 % 99_991:06}" for n in range(99_000)]


class Data:
    def __init__(self, **inputs: Any) -> None:
        self.inputs = inputs
        self.work = 0
        self.look_ups = 0

    def lookup(self, root: str, path: tuple[str | int, ...]) -> Any:
        self.look_ups += 1
        return resolve_path(self.inputs, path)


@pytest.fixture
def platform(migrated_database: str) -> Iterator[Platform]:
    made = Platform(migrated_database)
    yield made
    made.close()


@pytest.mark.parametrize(
    "expression",
    [
        "inputs.texts | sort | first",
        "[inputs.texts | min, inputs.texts | max, inputs.texts | min, inputs.texts | max, inputs.texts | min]",
        "[inputs.texts | unique | length, inputs.texts | unique | length]",
        "[inputs.same == inputs.texts, inputs.texts == inputs.same]",
        "[0 in inputs.numbers, -1 in inputs.numbers]",
        "inputs.numbers | tojson",
        f"[{', '.join(['inputs.long < inputs.other'] * 8)}]",
    ],
)
def test_work_is_counted(expression: str) -> None:
    data = Data(texts=TEXTS, same=list(TEXTS), numbers=[n + 0.5 for n in range(99_000)], long="x" * 10**7)
    data.inputs["other"] = "x" * 10**7
    with pytest.raises(ExpressionError, match="takes too long: more than 50 ms"):
        compile_template("{{ " + expression + " }}").evaluate(data)
    assert data.work > MAX_WORK


@pytest.mark.parametrize(
    "expression",
    [
        "inputs.part in inputs.text",
        "inputs.text | replace(inputs.part, '')",
        "inputs.text | split(inputs.part) | length",
    ],
)
@pytest.mark.parametrize(("letters", "part_letters"), [(2_499, 1_201), (29_999, 99)])
def test_texts_that_nearly_fit_everywhere_count(expression: str, letters: int, part_letters: int) -> None:
    """Each such search takes a quarter of a millisecond, thirty times as much as reading the text."""
    half = "a" * (part_letters // 2)
    data = Data(text="a" * letters, part=f"{half}b{half}")
    with pytest.raises(ExpressionError, match="takes too long: more than 50 ms"):
        compile_value(["{{ " + expression + " }}"] * 200).evaluate(data)


@pytest.mark.parametrize(
    ("expression", "value"),
    [("inputs.value | join", [0.1 + n for n in range(9_000)]), ("inputs.value | upper", "ß" * 100_000)],
)
def test_numbers_as_text_and_letters_that_become_several_count(expression: str, value: Any) -> None:
    """3 ms and 1.6 ms each."""
    with pytest.raises(ExpressionError, match="takes too long: more than 50 ms"):
        compile_value(["{{ " + expression + " }}"] * 28).evaluate(Data(value=value))


def test_ordinary_expressions_are_far_below_the_limit() -> None:
    data = Data(files=[f"folder/tile_{n}.tif" for n in range(1_000)], name="Große Straße")
    for expression in ("inputs.files | sort | first", "inputs.files | join(',')", "inputs.files | unique | length"):
        compile_template("{{ " + expression + " }}").evaluate(data)
    compile_value({"a": "{{ inputs.name | lower | replace(' ', '_') }}", "b": "{{ inputs.files | tojson }}"}).evaluate(
        data
    )
    assert data.work < MAX_WORK // 10


def test_constants_have_a_small_budget() -> None:
    """They are computed each time a workflow is read."""
    with pytest.raises(ExpressionError, match="takes too long"):
        compile_template("{{ 'aaaaaaaaaaaaaaaa'" + " | replace('a', 'aaaaaaaa')" * 5 + " | length }}")
    assert CONSTANT_WORK <= MAX_WORK // 100


def test_refused_evaluations_count_too() -> None:
    data = Data(texts=TEXTS)
    template = compile_template("{{ inputs.texts | sort | first }}")
    for _ in range(STEP_WORK // MAX_WORK + 1):
        with pytest.raises(ExpressionError):
            template.evaluate(data)
    with pytest.raises(ExpressionError, match="for one event of this job took more than 500 ms"):
        compile_template("{{ inputs.texts | length }}").evaluate(data)


def with_inputs(definition: WorkflowDefinition, *names: str) -> WorkflowDefinition:
    return definition.model_copy(update={"inputs": {name: InputDefinition(type="array") for name in names}})


def spread_over(params: dict[str, Any]) -> WorkflowDefinition:
    return with_inputs(workflow(a=FanOutNode(source="{{ inputs.items }}", task=spec(params))), "items", "texts")


class Driver:
    def __init__(self, definition: WorkflowDefinition, params: dict[str, Any]) -> None:
        self.run = JobRun(Plan(definition, {}), JobFacts("j", params))

    def apply(self, given: Input) -> list[Effect]:
        return self.run.apply(given, START_OF_TIME)


def test_what_children_share_is_evaluated_once() -> None:
    definition = spread_over({"first": "{{ inputs.texts | sort | first }}", "mine": "{{ item | upper }}"})
    texts = [f"t{n}" for n in range(1_000)]
    driver = Driver(definition, {"items": [f"i{n}" for n in range(200)], "texts": texts})
    effects = driver.apply(Start())
    (created,) = [effect for effect in effects if isinstance(effect, ChildrenCreated)]
    assert len(created.children) == 200
    assert created.children[7].input_params == {"first": "t0", "mine": "I7"}
    assert driver.run.scope.work < 3_000_000, "one sort, not two hundred"


def test_error_that_children_share_is_found_once() -> None:
    definition = spread_over({"first": "{{ inputs.texts | sort | first }}", "mine": "{{ item }}"})
    driver = Driver(definition, {"items": list(range(200)), "texts": TEXTS})
    effects = driver.apply(Start())
    (created,) = [effect for effect in effects if isinstance(effect, ChildrenCreated)]
    assert all("takes too long" in (child.error_message or "") for child in created.children)
    assert driver.run.scope.work < 10 * MAX_WORK


def test_expansion_goes_on_in_a_later_turn() -> None:
    """Each child takes tens of milliseconds: a chunk ends after fifty."""
    definition = spread_over({"x": "{{ [index, inputs.texts | unique | length] }}"})
    driver = Driver(definition, {"items": list(range(100)), "texts": TEXTS[:60_000]})
    effects = driver.apply(Start())
    made = 0
    for _ in range(60):
        made += sum(len(effect.children) for effect in effects if isinstance(effect, ChildrenCreated))
        assert driver.run.scope.work < 3 * MAX_WORK
        if not any(isinstance(effect, ContinueLater) for effect in effects):
            break
        effects = driver.apply(Continue("a"))
    assert made == 100


def test_nodes_of_one_event_have_a_budget_together() -> None:
    nodes: dict[str, Any] = {f"n{n}": task(params={"x": "{{ inputs.texts | unique | length }}"}) for n in range(40)}
    driver = Driver(with_inputs(workflow(**nodes), "texts"), {"texts": TEXTS[:60_000]})
    driver.apply(Start())
    assert driver.run.scope.work < STEP_WORK + 2 * MAX_WORK


def test_one_job_leaves_the_turn_to_others(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its results wait, and nothing is lost."""
    monkeypatch.setattr(advance, "TURN_WORK", 0)
    seat = platform.seat()
    nodes: dict[str, Any] = {f"n{n}": task(f"m{n}") for n in range(5)} | {
        f"m{n}": task(params={"x": "{{ inputs.texts | sort | first }}"}) for n in range(5)
    }
    job_id = platform.submit(with_inputs(workflow(**nodes), "texts"), {"texts": ["b", "a"]})
    platform.finish(seat)
    assert platform.job(job_id)["status"] == "completed"


def test_many_jobs_of_one_namespace_leave_the_turn_to_others(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each alone keeps to its budget. Together they took a turn of many seconds, in which no other was looked at."""
    monkeypatch.setattr(advance, "TURN_WORK", 0)
    seat = platform.seat()
    costly = with_inputs(workflow(a=task(params={"x": "{{ inputs.texts | sort | first }}"})), "texts")
    theirs = [platform.submit(costly, {"texts": ["b", "a"]}, namespace="alpha") for _ in range(12)]
    ours = platform.submit(workflow(a=task()), namespace="beta")
    while claim_submissions.run_once(seat.context):
        pass

    def begun(jobs: list[str]) -> int:
        return sum(platform.job(job_id)["status"] == "running" for job_id in jobs)

    assert seat.advance.run_once(whole_inbox=True)
    assert (begun(theirs), begun([ours])) == (1, 1)
    for count in range(2, 13):
        assert seat.advance.run_once(whole_inbox=True)
        assert begun(theirs) == count, "those that were put off come first"
    platform.finish(seat)
    assert {platform.job(job_id)["status"] for job_id in (*theirs, ours)} == {"completed"}


def test_too_expensive_parameters_fail_the_node(platform: Platform) -> None:
    seat = platform.seat()
    definition = with_inputs(workflow(a=task(params={"x": "{{ inputs.texts | sort | first }}"})), "texts")
    job_id = platform.submit(definition, {"texts": TEXTS})
    seat.work()
    job = platform.job(job_id)
    assert job["status"] == "failed"
    assert "`sort` of so much takes too long" in job["error_message"]
    assert platform.nodes(job_id) == {"a": "failed"}
