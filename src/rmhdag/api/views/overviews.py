"""A job as people see it while they wait for it: one reading for the API and the command line."""

from __future__ import annotations

from typing import Any

import psycopg

from rmhdag.api.views.nodes import children_counts
from rmhdag.api.views.pictures import JobOrder, JobPicture, NodePicture, order_of, picture_of
from rmhdag.api.views.reasons import MOST_EXPLAINED_NODES, explain_nodes, with_last_errors
from rmhdag.models.api.jobs import JobReference, NodeCounts, Reason
from rmhdag.models.api.overviews import JobOverview, NodeOverview
from rmhdag.models.api.progress import TaskProgress
from rmhdag.models.states import JobStatus, NodeStatus, NodeType
from rmhdag.store import views

Conn = psycopg.Connection[Any]
OF_THE_ROW = frozenset(JobOverview.model_fields) - {"node_counts", "nodes", "reruns"}


def read_overview(
    conn: Conn, job: dict[str, Any], *, alive_seconds: float, with_reasons: bool = False, order: JobOrder | None = None
) -> JobOverview:
    """`job` is a row of the views; `order` spares whoever looks often the reading of the definition."""
    picture = picture_of(conn, job, order or order_of(conn, job))
    reasons = _reasons(conn, picture, alive_seconds) if with_reasons else {}
    reruns = views.reruns_of(conn, job["job_id"], job["root_job_id"]) if picture.has_ended else []
    return JobOverview(
        **{name: job[name] for name in OF_THE_ROW},
        node_counts=NodeCounts.model_validate(picture.node_counts),
        nodes=[_node(node, reasons.get(node.node_id)) for node in picture.nodes],
        reruns=[JobReference(job_id=other, status=JobStatus(status)) for other, status in reruns],
    )


def _reasons(conn: Conn, picture: JobPicture, alive_seconds: float) -> dict[str, Reason]:
    """Why nodes that could run do not, by node."""
    waiting = [node.node_id for node in picture.nodes if not node.is_settled]
    if picture.has_ended or not waiting or picture.node_counts["total"] > MOST_EXPLAINED_NODES:
        return {}
    reasons = explain_nodes(conn, picture.job, waiting, alive_seconds)
    return with_last_errors(reasons, {node.node_id: node.line for node in picture.nodes})


def _node(node: NodePicture, reason: Reason | None) -> NodeOverview:
    line = {name: value for name, value in node.line._asdict().items() if name not in ("status", "total")}
    told = node.progress
    has_begun = node.type == NodeType.FAN_OUT and node.total is not None
    return NodeOverview(
        **line,
        type=NodeType(node.type),
        status=NodeStatus(node.status),
        taken_over=node.taken_over,
        child_job_id=node.child_job_id,
        children=children_counts(node.counts, node.total) if has_begun else None,
        progress=None if told is None else TaskProgress(task_id=node.line.task_id or "", **told._asdict()),
        reason=reason,
    )
