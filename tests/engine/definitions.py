"""Short ways to write definitions in engine tests."""

from __future__ import annotations

from typing import Any

from rmhdag.workflow.definition import (
    AnyNode,
    DependsOn,
    FanInNode,
    FanOutNode,
    InputDefinition,
    RetryRule,
    TaskNode,
    TaskSpec,
    Tolerance,
    WorkflowDefinition,
)

ONCE = RetryRule(max_attempts=1)
AT_ONCE = RetryRule(max_attempts=3, backoff="none", initial_delay_seconds=0)


def spec(params: dict[str, Any] | None = None, retry: RetryRule = ONCE, **more: Any) -> TaskSpec:
    return TaskSpec(handler="echo", queue="light", params=params or {}, retry=retry, **more)


def task(
    *following: str,
    params: dict[str, Any] | None = None,
    retry: RetryRule = ONCE,
    all_of: tuple[str, ...] = (),
    any_of: tuple[str, ...] = (),
    **more: Any,
) -> TaskNode:
    return TaskNode(
        task=spec(params, retry, **more), next=following, depends_on=DependsOn(all_of=all_of, any_of=any_of)
    )


def workflow(outputs: dict[str, Any] | None = None, **nodes: AnyNode) -> WorkflowDefinition:
    return WorkflowDefinition(
        workflow_id="under_test",
        name="Under test",
        inputs={"items": InputDefinition(type="array"), "size": InputDefinition(type="number")},
        outputs=outputs,
        nodes=nodes,
    )


def fan(
    aggregation: Any = "collect",
    *,
    field: str | None = None,
    tolerate: Tolerance | None = None,
    max_parallel: int | None = None,
    retry: RetryRule = ONCE,
    params: dict[str, Any] | None = None,
    **more: Any,
) -> WorkflowDefinition:
    """split → children → join → after"""
    return workflow(
        split=FanOutNode(
            source="{{ inputs.items }}",
            task=spec(params or {"value": "{{ item }}", "at": "{{ index }}"}, retry, **more),
            max_parallel=max_parallel,
            next=("join",),
        ),
        join=FanInNode(source_node="split", aggregation=aggregation, field=field, tolerate=tolerate, next=("after",)),
        after=task(params={"joined": "{{ nodes.join.output }}"}),
    )
