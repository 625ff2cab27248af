"""The slow look agrees with what the language says (SPEC E3, W7); it must not be wrong together with the engine."""

from __future__ import annotations

from typing import Any

import pytest

from rmhdag.lab.simulation.expected import Dependencies, expected_aggregate, tolerated_failures
from rmhdag.lab.simulation.rows import NodeRow
from rmhdag.models.states import NodeStatus
from rmhdag.workflow.definition import (
    AnyNode,
    Branch,
    ConditionalNode,
    DependsOn,
    FanInNode,
    TaskNode,
    TaskSpec,
    Tolerance,
    WorkflowDefinition,
)

DONE, SKIPPED, PENDING, FAILED = NodeStatus.COMPLETED, NodeStatus.SKIPPED, NodeStatus.PENDING, NodeStatus.FAILED


def task(**depends_on: tuple[str, ...]) -> TaskNode:
    return TaskNode(task=TaskSpec(handler="work", queue="light"), depends_on=DependsOn(**depends_on))


@pytest.mark.parametrize(
    ("group", "a", "b", "may_start", "must_skip"),
    [
        ("all_of", DONE, DONE, True, False),
        ("all_of", DONE, SKIPPED, True, False),
        ("all_of", DONE, PENDING, False, False),
        ("all_of", DONE, FAILED, False, False),
        ("all_of", SKIPPED, SKIPPED, False, True),
        ("any_of", DONE, PENDING, True, False),
        ("any_of", SKIPPED, PENDING, False, False),
        ("any_of", SKIPPED, SKIPPED, False, True),
    ],
)
def test_joins(group: str, a: NodeStatus, b: NodeStatus, may_start: bool, must_skip: bool) -> None:
    nodes: dict[str, AnyNode] = {"a": task(), "b": task(), "join": task(**{group: ("a", "b")})}
    dependencies = Dependencies(WorkflowDefinition(workflow_id="flow", name="flow", nodes=nodes))
    rows = {"a": NodeRow("a", 0, a), "b": NodeRow("b", 0, b)}
    assert (dependencies.may_start("join", rows), dependencies.must_skip("join", rows)) == (may_start, must_skip)


def test_branches() -> None:
    branches = (Branch(condition="inputs.x", next=("yes",)), Branch(default=True, next=("no",)))
    nodes: dict[str, AnyNode] = {"route": ConditionalNode(branches=branches), "yes": task(), "no": task()}
    dependencies = Dependencies(WorkflowDefinition(workflow_id="flow", name="flow", nodes=nodes))
    rows = {"route": NodeRow("route", 0, DONE, output={"taken": ["yes"]})}
    assert dependencies.may_start("yes", rows)
    assert not dependencies.may_start("no", rows)
    assert dependencies.must_skip("no", rows)


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("collect", {"results": [{"n": 1, "items": [1]}, {"n": 2, "items": []}]}),
        ("concat", {"results": [1]}),
        ("sum", {"total": 3}),
        ("first", {"result": {"n": 1, "items": [1]}}),
        ("last", {"result": {"n": 2, "items": []}}),
        ("merge", {"result": {"n": 2, "items": []}}),
    ],
)
def test_aggregates(mode: Any, expected: dict[str, Any]) -> None:
    outputs = [{"n": 1, "items": [1]}, {"n": 2, "items": []}]
    node = FanInNode(source_node="split", aggregation=mode)
    assert expected_aggregate(node, outputs, 0) == {**expected, "count": 2}
    tolerant = FanInNode(source_node="split", aggregation=mode, tolerate=Tolerance(count=3))
    assert expected_aggregate(tolerant, outputs, 3) == {**expected, "count": 2, "failures": 3}


def test_tolerance() -> None:
    assert tolerated_failures(FanInNode(source_node="split"), 10) == 0
    assert tolerated_failures(FanInNode(source_node="split", tolerate=Tolerance(count=3)), 10) == 3
    assert tolerated_failures(FanInNode(source_node="split", tolerate=Tolerance(percent=25)), 10) == 2
