"""The virtual platform and a real orchestrator over PostgreSQL come to the same results, nodes, attempts and events."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from rmhdag.models.leases import ClaimedTask, TaskReport
from rmhdag.models.states import TaskStatus
from rmhdag.store import tasks
from rmhdag.testing import HandlerBench, VirtualJob, run_workflow
from rmhdag.testing.recording import execute
from rmhdag.workflow import load
from tests.orchestrator.platform import QUEUE, Platform

AT_ONCE = {"max_attempts": 3, "backoff": "none", "initial_delay_seconds": 0}
ECHO = {"handler": "echo", "params": {"a": 1}}
WORKFLOWS: dict[str, dict[str, Any]] = {
    "a retry that helps": {
        "one": {"handler": "fail", "params": {"succeed_on_attempt": 3}, "retry": AT_ONCE, "next": "two"},
        "two": {"handler": "echo", "params": {"attempt": "{{ nodes.one.output.attempt }}"}},
    },
    "a failure that is final": {
        "one": {"handler": "fail", "params": {"retryable": False}, "retry": AT_ONCE, "next": "two"},
        "two": ECHO,
    },
    "attempts used up": {"one": {"handler": "fail", "retry": AT_ONCE}},
    "branches": {
        "size": {"handler": "size_check", "params": {"size_mb": 500}, "next": "route"},
        "route": {
            "type": "conditional",
            "condition": "{{ nodes.size.output.is_large }}",
            "on_true": "big",
            "on_false": "small",
        },
        "big": ECHO,
        "small": ECHO,
    },
    "a fan-out with failures": {
        "parts": {
            "type": "fan_out",
            "source": [[1, 2], "odd", [3]],
            "task": {"handler": "chunk_processor", "params": {"chunk": "{{ item }}"}, "retries": 0},
            "next": "sum",
        },
        "sum": {"type": "fan_in", "aggregation": "sum", "field": "total", "tolerate": {"count": 1}},
    },
    "too many failures": {
        "parts": {
            "type": "fan_out",
            "source": ["odd", "even"],
            "task": {"handler": "chunk_processor", "params": {"chunk": "{{ item }}"}, "retries": 0},
            "next": "all",
        },
        "all": {"type": "fan_in"},
    },
    "a parameter that cannot be resolved": {
        "one": ECHO | {"next": "two"},
        "two": {"handler": "echo", "params": {"x": "{{ nodes.one.output.nothing }}"}},
    },
    "a child job that does not exist": {"child": {"type": "workflow", "workflow": "nobody"}},
}


@pytest.fixture
def platform(migrated_database: str) -> Iterator[Platform]:
    platform = Platform(migrated_database)
    yield platform
    platform.close()


def run_task(platform: Platform, bench: HandlerBench, task: ClaimedTask) -> None:
    spec = bench.find(task.handler)
    ctx = bench.context(task.params, attempt=task.attempt, job_id=task.job_id, node_id=task.node_id)
    outcome = execute(spec, ctx).outcome
    status = TaskStatus.COMPLETED if outcome.error_kind is None else TaskStatus.FAILED
    report = TaskReport(task.task_id, task.lease_epoch, status, outcome.error_kind, outcome.error_message, 1)
    tasks.report_tasks(platform.conn, platform.worker_id, [report._replace(output=outcome.output)])


def real_facts(platform: Platform, bench: HandlerBench, definition: Any) -> dict[str, Any]:
    seat = platform.seat()
    job_id = platform.submit(definition)
    seat.work()
    while claimed := platform.claim():
        for task in claimed:
            run_task(platform, bench, task)
        seat.work()
    job = platform.job(job_id)
    rows = platform.conn.execute(
        "SELECT node_id, status, attempt, error_message FROM dag_node_states WHERE job_id = %s", [job_id]
    )
    events = platform.conn.execute(
        "SELECT node_id, event_type FROM dag_job_events WHERE job_id = %s ORDER BY seq", [job_id]
    )
    return {
        "job": (job["status"], job["result"] or {}, without_ids(job["error_message"])),
        "nodes": {row[0]: tuple(map(without_ids, row[1:])) for row in rows},
        "events": by_node((node_id, str(kind)) for node_id, kind in events),
    }


def virtual_facts(job: VirtualJob) -> dict[str, Any]:
    return {
        "job": (job.status, job.outputs, without_ids(job.error_message)),
        "nodes": {
            name: tuple(map(without_ids, (node.status, node.attempt, node.error_message)))
            for name, node in job.nodes.items()
        },
        "events": by_node((event.node_id, str(event.type)) for event in job.events),
    }


def without_ids(value: object) -> str:
    """Ids of jobs differ from run to run."""
    return re.sub("[0-9a-f]{32}", "ID", str(value))


def by_node(events: Any) -> dict[str | None, list[str]]:
    """Without starts, which a real worker tells only of tasks that take a while, and without the submission."""
    found: dict[str | None, list[str]] = {}
    for node_id, kind in events:
        if kind not in ("node_running", "job_created"):
            found.setdefault(node_id, []).append(kind)
    return found


@pytest.mark.parametrize("name", WORKFLOWS)
def test_both_platforms_agree(name: str, platform: Platform, handler_bench: HandlerBench) -> None:
    written = {"workflow_id": "flow", "name": name, "defaults": {"queue": QUEUE}, "nodes": WORKFLOWS[name]}
    real = real_facts(platform, handler_bench, load(written).definition)
    assert virtual_facts(run_workflow(written)) == real
