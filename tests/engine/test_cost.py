"""The work per input does not grow with the job (SPEC E9). Counted in bytecode operations, never in seconds."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from rmhdag.engine.effects import ContinueLater, Effect, TaskQueued
from rmhdag.engine.inputs import (
    CancelJob,
    Continue,
    Input,
    Output,
    SetWindow,
    Start,
    TaskLost,
    TaskReported,
    TaskStarted,
)
from rmhdag.engine.plan import EXPANSION_CHUNK, Plan
from rmhdag.engine.run import JobFacts, JobRun
from tests.engine.definitions import fan, task, workflow
from tests.engine.driver import START_OF_TIME

SIZES = (10, 1_000, 100_000)


def count_operations(action: Callable[[], Any]) -> int:
    count = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        action()
    finally:
        sys.settrace(before)
    return count


class Costed:
    """A fan-out of a given size, fully expanded, with five tasks in its queue."""

    def __init__(self, size: int) -> None:
        self.run = JobRun(Plan(fan()), JobFacts("0" * 32, {"items": list(range(size))}))
        self.queued: list[TaskQueued] = []
        self.apply(SetWindow("light", 5))
        effects = self.apply(Start())
        while any(isinstance(effect, ContinueLater) for effect in effects):
            effects = self.apply(Continue("split"))

    def apply(self, given: Input) -> list[Effect]:
        effects = self.run.apply(given, START_OF_TIME)
        self.queued += [effect for effect in effects if isinstance(effect, TaskQueued)]
        return effects

    def cost(self, make: Callable[[TaskQueued], Input]) -> int:
        given = make(self.queued.pop(0))
        return count_operations(lambda: self.apply(given))


def success(queued: TaskQueued) -> Input:
    return TaskReported(queued.node_id, queued.attempt, queued.task_id, 1, True, Output({"n": 1}))


def failure(queued: TaskQueued) -> Input:
    return TaskReported(queued.node_id, queued.attempt, queued.task_id, 1, False, error_message="x")


def started(queued: TaskQueued) -> Input:
    return TaskStarted(queued.node_id, queued.attempt, queued.task_id, 1, "w")


def lost(queued: TaskQueued) -> Input:
    return TaskLost(queued.node_id, queued.attempt, queued.task_id, 1, "w", True)


def test_the_counter_counts() -> None:
    assert count_operations(lambda: sum(n for n in range(1_000))) > 1_000


@pytest.mark.parametrize("make", [success, failure, started, lost])
def test_an_input_about_a_child_costs_the_same_in_every_size(make: Callable[[TaskQueued], Input]) -> None:
    costs = {}
    for size in SIZES:
        job = Costed(size)
        job.cost(success)
        costs[size] = job.cost(make)
    assert 0 < costs[100_000] <= costs[10] * 1.05 + 5, costs
    assert costs[10] < 2_000


def test_a_chunk_of_an_expansion_costs_the_same_whatever_is_left() -> None:
    costs = []
    for size in (3 * EXPANSION_CHUNK, 100 * EXPANSION_CHUNK):
        run = JobRun(Plan(fan()), JobFacts("0" * 32, {"items": list(range(size))}))
        run.apply(SetWindow("light", 5), START_OF_TIME)
        run.apply(Start(), START_OF_TIME)
        costs.append(count_operations(lambda run=run: run.apply(Continue("split"), START_OF_TIME)))  # type: ignore[misc]
    assert costs[1] <= costs[0] * 1.01 + 5, costs


def test_cancelling_costs_the_same_in_every_size() -> None:
    costs = {}
    for size in SIZES:
        job = Costed(size)
        costs[size] = count_operations(lambda job=job: job.apply(CancelJob("ann")))  # type: ignore[misc]
    assert costs[100_000] <= costs[10] * 1.2 + 100, costs


def test_a_result_in_a_chain_costs_the_same_in_every_length() -> None:
    costs = []
    for size in (10, 900):
        nodes: dict[str, Any] = {f"n{number}": task(f"n{number + 1}") for number in range(size)}
        nodes[f"n{size}"] = task()
        run = JobRun(Plan(workflow(**nodes)), JobFacts("0" * 32, {}))
        (queued,) = [effect for effect in run.apply(Start(), START_OF_TIME) if isinstance(effect, TaskQueued)]
        given = success(queued)
        costs.append(count_operations(lambda run=run, given=given: run.apply(given, START_OF_TIME)))  # type: ignore[misc]
    assert costs[0] == costs[1]
