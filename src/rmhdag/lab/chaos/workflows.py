"""The mixed workload: small workflows of every kind, each of which says how it must end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from rmhdag.models.states import JobStatus
from rmhdag.workflow import load
from rmhdag.workflow.definition import WorkflowDefinition

QUEUE = "chaos"
WIDTH = 200
_INPUTS = {"x": {"type": "integer", "required": True}}
_X = "{{ inputs.x }}"
_RETRY = {"max_attempts": 4, "backoff": "none", "initial_delay_seconds": 0.3}


class Kind(NamedTuple):
    """`result` None: only the status is known beforehand. `share` is how often it is submitted."""

    definition: WorkflowDefinition
    share: int
    status: JobStatus = JobStatus.COMPLETED
    result: Callable[[int], dict[str, Any]] | None = None
    # It only ends because somebody cancels it.
    cancel: bool = False
    # What it is submitted with, besides x.
    inputs: Callable[[int], dict[str, Any]] = lambda x: {}
    # Its submitters wait for several of them at once.
    burst: int = 1
    # Ends that are right as well: a child job may be cancelled by its parent, and some jobs are too large.
    also: frozenset[JobStatus] = frozenset()


def workflow(
    workflow_id: str,
    nodes: dict[str, Any],
    outputs: dict[str, Any] | None = None,
    inputs: dict[str, Any] | None = None,
) -> WorkflowDefinition:
    """Every workflow takes x, by which its result is known."""
    written: dict[str, Any] = {
        "workflow_id": workflow_id,
        "name": workflow_id,
        "inputs": {**_INPUTS, **(inputs or {})},
        "defaults": {"queue": QUEUE, "retry": _RETRY},
        "nodes": nodes,
    }
    if outputs is not None:
        written["outputs"] = outputs
    return load(written).definition


def _echo(value: str, **more: Any) -> dict[str, Any]:
    return {"handler": "echo", "params": {"x": value}, **more}


def _output(node: str) -> str:
    return f"{{{{ nodes.{node}.output.echoed_params.x }}}}"


def _chain() -> WorkflowDefinition:
    nodes = {"n0": _echo(_X, next="n1")}
    for index in range(1, 8):
        nodes[f"n{index}"] = _echo(_output(f"n{index - 1}"), **({"next": f"n{index + 1}"} if index < 7 else {}))
    return workflow("chaos_chain", nodes, {"x": _output("n7")})


def _diamond() -> WorkflowDefinition:
    nodes = {
        "top": _echo(_X, next=["left", "right"]),
        "left": _echo(_output("top")),
        "right": {"handler": "sleep", "params": {"seconds": 0.05}},
        "bottom": _echo(_output("left"), depends_on=["left", "right"]),
    }
    return workflow("chaos_diamond", nodes, {"x": _output("bottom")})


def _conditional() -> WorkflowDefinition:
    nodes = {
        "measure": {"handler": "size_check", "params": {"size_mb": _X, "threshold_mb": 500}, "next": "by_size"},
        "by_size": {
            "type": "conditional",
            "condition": "nodes.measure.output.is_large",
            "on_true": "large",
            "on_false": "small",
        },
        "large": _echo(_X),
        "small": _echo(_X),
        "after": _echo(_X, depends_on={"any_of": ["large", "small"]}),
    }
    return workflow("chaos_conditional", nodes, {"category": "{{ nodes.measure.output.category }}"})


def _fan_out() -> WorkflowDefinition:
    nodes = {
        "split": {
            "type": "fan_out",
            "source": list(range(WIDTH)),
            "task": {"handler": "echo", "params": {"x": "{{ item }}"}},
            "next": "join",
        },
        "join": {"type": "fan_in", "aggregation": "sum", "field": "echoed_params.x", "next": "after"},
        "after": _echo("{{ nodes.join.output.total }}"),
    }
    return workflow("chaos_fan_out", nodes, {"total": _output("after"), "count": "{{ nodes.join.output.count }}"})


def _retries() -> WorkflowDefinition:
    nodes = {
        "first": {"handler": "fail", "params": {"succeed_on_attempt": 3}, "next": "second"},
        "second": _echo("{{ nodes.first.output.attempt }}"),
    }
    return workflow("chaos_retries", nodes, {"attempt": _output("second")})


def _timeout() -> WorkflowDefinition:
    slow = {"handler": "sleep", "params": {"seconds": 600}, "timeout_seconds": 1}
    nodes = {"slow": {**slow, "retry": {**_RETRY, "max_attempts": 2}, "next": "never"}, "never": _echo(_X)}
    return workflow("chaos_timeout", nodes)


def _cancel() -> WorkflowDefinition:
    nodes = {
        "begin": _echo(_X, next=["wait", "also"]),
        "wait": {"handler": "sleep", "params": {"seconds": 600}, "next": "never"},
        "also": {"handler": "chunk_processor", "params": {"chunk": list(range(600)), "seconds_per_item": 1}},
        "never": _echo(_X),
    }
    return workflow("chaos_cancel", nodes)


def _checkpoints() -> WorkflowDefinition:
    nodes = {
        "phases": {
            "handler": "multi_phase",
            "params": {"phases": 6, "seconds_per_phase": 0.3, "fail_in_phase": 4},
            "next": "after",
        },
        "after": _echo(_X),
    }
    return workflow("chaos_checkpoints", nodes, {"phases": "{{ nodes.phases.output.phases }}"})


def _brief() -> WorkflowDefinition:
    """Over so soon that a command comes while its last result is being settled."""
    return workflow("chaos_brief", {"only": _echo(_X)}, {"x": _output("only")})


def _storm() -> WorkflowDefinition:
    """All of its tasks fail once, and all of them are due again together."""
    retry = {"max_attempts": 3, "backoff": "none", "initial_delay_seconds": 2, "jitter": 0}
    task = {"handler": "fail", "params": {"succeed_on_attempt": 2}, "retry": retry}
    nodes = {
        "split": {"type": "fan_out", "source": list(range(WIDTH)), "task": task, "next": "join"},
        "join": {"type": "fan_in", "aggregation": "sum", "field": "attempt"},
    }
    return workflow("chaos_storm", nodes, {"attempts": "{{ nodes.join.output.total }}"})


def _approval() -> WorkflowDefinition:
    nodes = {"gate": {"type": "approval", "on_reject": "continue", "next": "after"}, "after": _echo(_X)}
    return workflow("chaos_approval", nodes, {"x": _output("after")})


def _snooze() -> WorkflowDefinition:
    nodes = {
        "later": {"handler": "chaos.snooze", "params": {"seconds": 1}, "next": "after"},
        "after": _echo(_X),
    }
    return workflow("chaos_snooze", nodes, {"x": _output("after")})


def small_kinds() -> dict[str, Kind]:
    edges = [
        Kind(_chain(), 8, result=lambda x: {"x": x}),
        Kind(_diamond(), 6, result=lambda x: {"x": x}),
        Kind(_conditional(), 6, result=lambda x: {"category": "large" if x >= 500 else "small"}),
        Kind(_fan_out(), 3, result=lambda x: {"total": WIDTH * (WIDTH - 1) // 2, "count": WIDTH}),
        Kind(_retries(), 4, result=lambda x: {"attempt": 3}),
        Kind(_timeout(), 1, status=JobStatus.FAILED),
        Kind(_cancel(), 1, status=JobStatus.CANCELLED, cancel=True),
        Kind(_checkpoints(), 2, result=lambda x: {"phases": [1, 2, 3, 4, 5, 6]}),
        Kind(_brief(), 6, result=lambda x: {"x": x}),
        Kind(_storm(), 1, result=lambda x: {"attempts": 2 * WIDTH}, burst=5),
        Kind(_approval(), 2, result=lambda x: {"x": x}),
        Kind(_snooze(), 2, result=lambda x: {"x": x}),
    ]
    return {kind.definition.workflow_id: kind for kind in edges}
