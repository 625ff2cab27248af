"""Jobs as they are shown: one with its counts and what it waits for, and pages of many."""

from __future__ import annotations

from typing import Any

import psycopg

from rmhdag.api.views.pictures import ENDED, JobPicture, order_of, picture_of
from rmhdag.api.views.reasons import explain_nodes, most_telling, not_started, with_last_errors
from rmhdag.engine.explain import ReasonCode
from rmhdag.models.api.jobs import JobReference, JobSummary, JobView, NodeCounts, Reason
from rmhdag.models.states import JobStatus
from rmhdag.store import views
from rmhdag.store.job_lists import JobFilters, list_jobs

Conn = psycopg.Connection[Any]
# A job is loaded for an explanation; so many nodes take ten milliseconds.
MOST_NODES_EXPLAINED_AT_ONCE = 500
FIELDS = frozenset(JobView.model_fields) - {"node_counts", "reruns", "reason"}


def read_job(conn: Conn, namespace: str, job_id: str, alive_seconds: float) -> JobView | None:
    row = views.job(conn, namespace, job_id)
    if row is None:
        return None
    picture = JobPicture(row, []) if row["started_at"] is None else picture_of(conn, row, order_of(conn, row))
    reruns = views.reruns_of(conn, job_id, row["root_job_id"]) if picture.has_ended else []
    return view_of(
        row,
        NodeCounts.model_validate(picture.node_counts),
        [JobReference(job_id=other, status=JobStatus(status)) for other, status in reruns],
        None if picture.has_ended else explain_job(conn, picture, alive_seconds),
    )


def read_new_job(conn: Conn, namespace: str, job_id: str) -> JobView:
    """Right after its submission: it has no nodes yet, and what it waits for is known."""
    row = views.job(conn, namespace, job_id)
    assert row is not None
    return view_of(row, NodeCounts(), [], None)


def view_of(row: dict[str, Any], counts: NodeCounts, reruns: list[JobReference], reason: Reason | None) -> JobView:
    shown = {name: row[name] for name in FIELDS}
    return JobView(**shown, node_counts=counts, reruns=reruns, reason=reason)


def explain_job(conn: Conn, picture: JobPicture, alive_seconds: float) -> Reason | None:
    """What the job as a whole waits for, if nothing in it runs."""
    job = picture.job
    if job["owner_id"] is None:
        return not_started(conn, alive_seconds)
    if job["ending"] is not None:
        text = f"The job is ending as {job['ending']}; nothing new starts."
        return Reason(reason_code=ReasonCode.JOB_ENDING, reason_text=text)
    waiting = [node.node_id for node in picture.nodes if not node.is_settled]
    counts = picture.node_counts
    if not waiting or counts["total"] > MOST_NODES_EXPLAINED_AT_ONCE:
        return None
    reasons = explain_nodes(conn, job, waiting, alive_seconds)
    return most_telling(with_last_errors(reasons, {node.node_id: node.line for node in picture.nodes}).values())


def page_of_jobs(conn: Conn, namespace: str, filters: JobFilters) -> list[JobSummary]:
    return [JobSummary.model_validate(line._asdict()) for line in list_jobs(conn, namespace, filters)]


def has_ended(job: dict[str, Any]) -> bool:
    return job["status"] in ENDED
