"""Outages shorter and longer than every time-out: tasks that end in time in their workers must not fail for one."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from rmhdag.lab.chaos.nemesis import Nemesis
from rmhdag.lab.chaos.workflows import workflow
from rmhdag.services.submissions import Submission, Submitted, submit_many
from rmhdag.store.connection import connect
from rmhdag.workflow.definition import WorkflowDefinition

# How long a job may take to its end after the database is back, besides its task's own time and its leases.
PATIENCE_SECONDS = 60.0


class Timing(NamedTuple):
    """How long tasks take, and what they are allowed."""

    task_seconds: int
    timeout_seconds: int

    @property
    def workflow_id(self) -> str:
        return f"chaos_outage_{self.task_seconds}_{self.timeout_seconds}"


class Cell(NamedTuple):
    task_seconds: int
    timeout_seconds: int
    outage_seconds: float
    jobs: int
    completed: int
    failed: int
    open: int
    ended_after_seconds: float
    error: str | None


def definition(timing: Timing) -> WorkflowDefinition:
    """One attempt only: a time-out shows."""
    task = {
        "handler": "sleep",
        "params": {"seconds": timing.task_seconds},
        "timeout_seconds": timing.timeout_seconds,
        "retry": {"max_attempts": 1},
    }
    return workflow(timing.workflow_id, {"work": task}, {"slept": "{{ nodes.work.output.slept_seconds }}"})


def run_grid(
    dsn: Callable[[], str],
    schema: str,
    nemesis: Nemesis,
    timings: Sequence[Timing],
    outages: Sequence[float],
    jobs: int,
) -> list[Cell]:
    """Cell by cell: jobs whose tasks are at every age when the database goes, and what has become of them."""
    return [_run_cell(dsn, schema, nemesis, timing, outage, jobs) for timing in timings for outage in outages]


def _run_cell(dsn: Callable[[], str], schema: str, nemesis: Nemesis, timing: Timing, outage: float, jobs: int) -> Cell:
    accepted: list[str] = []
    # In five parts, so that when the database goes some tasks have just begun and others are about to end.
    for part in range(5):
        submissions = [
            Submission(workflow_id=timing.workflow_id, input_params={"x": part}, submitted_by="chaos")
            for _ in range(part, jobs, 5)
        ]
        with connect(dsn(), "chaos:outages", autocommit=True) as conn:
            conn.execute("SELECT set_config('search_path', %s, false)", [schema])
            accepted += [answer.job_id for answer in submit_many(conn, submissions) if isinstance(answer, Submitted)]
        nemesis.idle(timing.task_seconds / 6, lambda: False)
    nemesis.take_database_away(outage)
    back = time.monotonic()
    deadline = back + timing.timeout_seconds + PATIENCE_SECONDS
    while True:
        nemesis.look_after()
        counts, error = _ends(dsn(), schema, accepted)
        remaining = len(accepted) - sum(counts.values())
        if not remaining or time.monotonic() > deadline:
            break
        time.sleep(0.2)
    seconds = round(time.monotonic() - back, 1)
    completed, failed = counts.get("completed", 0), counts.get("failed", 0)
    return Cell(*timing, outage, len(accepted), completed, failed, remaining, seconds, error)


def _ends(dsn: str, schema: str, accepted: list[str]) -> tuple[dict[str, int], str | None]:
    query = """
        SELECT status::text, count(*), min(error_message) FROM dag_jobs
        WHERE job_id = ANY(%s) AND completed_at IS NOT NULL GROUP BY status
    """
    with connect(dsn, "chaos:outages", autocommit=True) as conn:
        conn.execute("SELECT set_config('search_path', %s, false)", [schema])
        rows: list[tuple[Any, ...]] = conn.execute(query, [accepted]).fetchall()
    errors = [row[2] for row in rows if row[2] is not None]
    return {row[0]: row[1] for row in rows}, errors[0] if errors else None
