"""A job with what belongs to it: all about it, and as people see it while they wait for it."""

from __future__ import annotations

from rmhdag.engine.explain import ReasonCode
from rmhdag.models.api.jobs import JobView, Reason
from rmhdag.models.api.overviews import JobOverview
from rmhdag.store.connection import Conn
from rmhdag.views.graphs import read_structure
from rmhdag.views.jobs import JobRow, find_job, reruns_of
from rmhdag.views.pictures import JobPicture, picture_of
from rmhdag.views.progress import job_progress
from rmhdag.views.reading import shown_as
from rmhdag.views.reasons import MOST_EXPLAINED_NODES, explain_nodes, most_telling, not_started

# A job is loaded for an explanation; so many nodes take ten milliseconds.
MOST_NODES_EXPLAINED_AT_ONCE = 500


def read_job(conn: Conn, namespace: str, job_id: str, alive_seconds: float) -> JobView | None:
    row = find_job(conn, namespace, job_id)
    if row is None:
        return None
    if row.started_at is None:
        picture = JobPicture(row, [], {})
    else:
        picture = picture_of(conn, row, alive_seconds=alive_seconds, most_loaded=MOST_NODES_EXPLAINED_AT_ONCE)
    return shown_as(
        JobView,
        row,
        node_counts=picture.node_counts,
        reruns=reruns_of(conn, row),
        reason=None if picture.has_ended else _explain_job(conn, picture, alive_seconds),
    )


def _explain_job(conn: Conn, picture: JobPicture, alive_seconds: float) -> Reason | None:
    """What the job as a whole waits for, if nothing in it runs."""
    job = picture.job
    if job.owner_id is None:
        return not_started(conn, alive_seconds)
    if job.ending is not None:
        text = f"The job is ending as {job.ending}; nothing new starts."
        return Reason(reason_code=ReasonCode.JOB_ENDING, reason_text=text)
    if not picture.waiting or picture.node_counts.total > MOST_NODES_EXPLAINED_AT_ONCE:
        return None
    return most_telling(explain_nodes(conn, picture, picture.waiting, alive_seconds).values())


def read_overview(
    conn: Conn,
    job: JobRow,
    *,
    alive_seconds: float,
    with_reasons: bool = False,
    with_progress: bool = False,
    with_structure: bool = False,
) -> JobOverview:
    most_loaded = MOST_EXPLAINED_NODES if with_reasons else 0
    picture = picture_of(conn, job, alive_seconds=alive_seconds, most_loaded=most_loaded)
    if with_reasons and not picture.has_ended and picture.node_counts.total <= MOST_EXPLAINED_NODES:
        reasons = explain_nodes(conn, picture, picture.waiting, alive_seconds)
        for node in picture.nodes:
            node.reason = reasons.get(node.node_id)
    return shown_as(
        JobOverview,
        job,
        node_counts=picture.node_counts,
        nodes=picture.nodes,
        reruns=reruns_of(conn, job),
        structure=read_structure(conn, job) if with_structure else None,
        progress=job_progress(conn, job) if with_progress and not picture.has_ended else None,
    )
