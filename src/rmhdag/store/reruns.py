"""What a finished job leaves to the one that reruns it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from psycopg.rows import class_row

from rmhdag.models.states import JobStatus, NodeStatus
from rmhdag.store.connection import Conn
from rmhdag.store.queries import load_queries

SQL = load_queries(__file__)
PAGE = 20_000


class FinishedJob(NamedTuple):
    job_id: str
    namespace: str
    workflow_id: str
    workflow_version: int
    workflow_hash: str
    status: JobStatus
    input_params: dict[str, Any]
    priority: int
    fairness_key: str
    root_job_id: str
    correlation_id: str | None
    callback_url: str | None
    request_id: str | None
    asset_id: str | None
    revision: int | None


class NodeOutcome(NamedTuple):
    """`output` is what the engine made itself; that of a task stands with the result of `task_id`."""

    node_id: str
    status: NodeStatus
    task_id: str | None
    output: Any


def read_job(conn: Conn, namespace: str, job_id: str) -> FinishedJob | None:
    with conn.cursor(row_factory=class_row(FinishedJob)) as cursor:
        row = cursor.execute(SQL["finished_job"], {"namespace": namespace, "job_id": job_id}).fetchone()
    return None if row is None else row._replace(status=JobStatus(row.status))


def node_outcomes(conn: Conn, job_id: str) -> dict[str, NodeOutcome]:
    with conn.cursor(row_factory=class_row(NodeOutcome)) as cursor:
        rows = cursor.execute(SQL["node_outcomes"], {"job_id": job_id}).fetchall()
    return {row.node_id: row._replace(status=NodeStatus(row.status)) for row in rows}


def fan_out_totals(conn: Conn, fan_outs: Sequence[tuple[str, str]]) -> dict[tuple[str, str], int]:
    """The number of children by (job, fan-out), for those that have begun."""
    job_ids, node_ids = map(list, zip(*fan_outs, strict=True))
    rows = conn.execute(SQL["fan_out_totals"], {"jobs": job_ids, "nodes": node_ids}).fetchall()
    return {(job_id, node_id): total for job_id, node_id, total in rows}


def finished_children(conn: Conn, job_id: str, fan_outs: Sequence[str]) -> dict[str, dict[int, str]]:
    """fan-out → child index → the task that made the child's output.

    A fan-out that the job itself took over as a whole has its children in the job before.
    """
    children: dict[str, dict[int, str]] = defaultdict(dict)
    remaining = list(fan_outs)
    while remaining:
        for fan_out in remaining:
            for index, task_id in _finished_children_of(conn, job_id, fan_out):
                children[fan_out][index] = task_id
        before = conn.execute(SQL["taken_over_from"], {"job_id": job_id}).fetchone()
        if before is None:
            break
        job_id, again = before[0], before[1] or remaining
        remaining = [fan_out for fan_out in remaining if fan_out not in again]
    return dict(children)


def _finished_children_of(conn: Conn, job_id: str, fan_out: str) -> Iterator[tuple[int, str]]:
    """In pages, so that no statement is larger the larger the fan-out is."""
    last_index = -1
    while True:
        parameters = {"job_id": job_id, "fan_out": fan_out, "after": last_index, "limit": PAGE}
        page = conn.execute(SQL["finished_children"], parameters).fetchall()
        yield from page
        if len(page) < PAGE:
            return
        last_index = page[-1][0]


def warnings_of_tasks(conn: Conn, task_ids: Sequence[str]) -> list[dict[str, Any]]:
    """What completed tasks warned of, in pages like their ids."""
    all_warnings: list[dict[str, Any]] = []
    for start in range(0, len(task_ids), PAGE):
        for (warnings,) in conn.execute(SQL["warnings_of_tasks"], {"tasks": list(task_ids[start : start + PAGE])}):
            all_warnings += warnings
    return all_warnings


def lock_reruns(conn: Conn, job_id: str) -> bool:
    """Until the end of the transaction: reruns of one job come one after the other, and retention leaves the job.

    False: it is gone already. The row's lock stops nobody who changes the row, only who deletes it.
    """
    conn.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [f"rmhdag rerun {job_id}"])
    return conn.execute(SQL["keep_job"], {"job_id": job_id}).fetchone() is not None


def record_rerun(
    conn: Conn, namespace: str, job_id: str, *, new_job_id: str, issued_by: str, source_app: str = "cli"
) -> None:
    parameters = {
        "namespace": namespace,
        "job_id": job_id,
        "new_job_id": new_job_id,
        "issued_by": issued_by,
        "source_app": source_app,
    }
    conn.execute(SQL["record_rerun"], parameters)
