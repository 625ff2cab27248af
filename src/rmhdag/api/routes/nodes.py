"""Nodes: of a job, one of them, across jobs; retry and decide; a job's graph and logs."""

from __future__ import annotations

from datetime import datetime
from hashlib import blake2b
from typing import Annotated, Any

from fastapi import APIRouter, Header, Path, Query, Response

from rmhdag.api.context import ApiContext
from rmhdag.api.identity import Operator, OperatorOrReviewer, Reader, check_scope
from rmhdag.api.job_paths import check_job, check_node, is_id, no_node
from rmhdag.api.pages import CursorParameter, read_cursor, write_cursor
from rmhdag.api.problems import Problem
from rmhdag.api.routes.jobs import COMMAND, JobId, command, moment, plain
from rmhdag.models.api.jobs import CommandAnswerBody
from rmhdag.models.api.nodes import Decision, GraphStructure, JobGraph, LogPage, NodePage, NodeView
from rmhdag.models.columns import Id, Name, Timestamp
from rmhdag.models.scopes import Scope
from rmhdag.models.states import NodeStatus, NodeType
from rmhdag.services.commands import CommandAnswer, decide, retry_node
from rmhdag.services.reviews import makes_reviewed_revision
from rmhdag.store.connection import Conn
from rmhdag.views.graphs import read_graph, read_structure
from rmhdag.views.logs import LogPlace, last_place, read_logs, read_tail
from rmhdag.views.nodes import (
    NodePlace,
    kinds_of,
    list_nodes,
    nodes_across_jobs,
    read_node,
)

router = APIRouter(prefix="/api/v1", tags=["nodes"])
NodeId = Annotated[str, Path(description="A node of the workflow, or a child of a fan-out: `split__17`")]
Statuses = Annotated[list[NodeStatus] | None, Query(max_length=20, description="One or several")]
Known = Annotated[str | None, Header(alias="If-None-Match", max_length=1000)]
UNCHANGED: dict[int | str, dict[str, Any]] = {304: {"description": "Unchanged since the ETag that was given"}}
Tail = Annotated[int | None, Query(ge=1, le=10_000, description="The last lines, instead of pages")]
Since = Annotated[Timestamp | None, Query(description="Written at this time or later; to follow a running job")]
Chunks = Annotated[int, Query(ge=1, le=1_000, description="Chunks; a page has about 1 MB at most")]


@router.get("/jobs/{job_id}/nodes")
def get_nodes(
    job_id: JobId,
    caller: Reader,
    api: ApiContext,
    status: Statuses = None,
    parent: Annotated[Id | None, Query(description="Only the children of this fan-out, by their index")] = None,
    children: Annotated[bool, Query(description="Children of fan-outs, too")] = False,
    cursor: CursorParameter = None,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 100,
) -> NodePage:
    """The nodes of a job; children of fan-outs only on request."""
    after: str | int | None = read_cursor(cursor, plain) if parent is None else read_cursor(cursor, child_index)
    with api.connection() as conn:
        job = check_job(conn, caller.namespace, job_id)
        lines = list_nodes(
            conn,
            job,
            statuses=status or (),
            parent=parent,
            with_children=children,
            after=after,
            limit=limit + 1,
        )
        if parent is not None and not lines and after is None:
            check_node(conn, job, parent)
    page = lines[:limit]
    if len(lines) <= limit:
        return NodePage(nodes=page)
    last = page[-1]
    return NodePage(nodes=page, next_cursor=write_cursor(last.node_id if parent is None else last.fan_out_index))


@router.get("/jobs/{job_id}/nodes/{node_id}")
def get_node(job_id: JobId, node_id: NodeId, caller: Reader, api: ApiContext) -> NodeView:
    """A node or a child: parameters, output, and why it does not run."""
    with api.connection() as conn:
        job = check_job(conn, caller.namespace, job_id)
        node = read_node(conn, job, node_id, api.settings.orphan_seconds) if is_id(node_id) else None
        if node is None:
            raise no_node(conn, job, node_id)
    return node


@router.post("/jobs/{job_id}/nodes/{node_id}/retry", responses=COMMAND)
async def retry(
    job_id: JobId, node_id: NodeId, caller: Operator, api: ApiContext, response: Response
) -> CommandAnswerBody:
    """In a running job: skip the wait for a retry, or give a failed child one more attempt. 409 if neither applies."""

    def issue(conn: Conn) -> CommandAnswer:
        check_node(conn, check_job(conn, caller.namespace, job_id), node_id)
        return retry_node(conn, job_id, node_id, issued_by=caller.name, namespace=caller.namespace, answer_seconds=0)

    return await command(api, response, job_id, issue)


@router.post("/jobs/{job_id}/nodes/{node_id}/decide", responses=COMMAND)
async def decide_node(
    job_id: JobId, node_id: NodeId, body: Decision, caller: OperatorOrReviewer, api: ApiContext, response: Response
) -> CommandAnswerBody:
    """Approve or reject a waiting approval. 409 if it does not wait, or others have to decide. If the job makes
    a revision that is reviewed, this decides about the revision too, and needs the scope `reviewer`.
    """

    def issue(conn: Conn) -> CommandAnswer:
        check_node(conn, check_job(conn, caller.namespace, job_id), node_id)
        if makes_reviewed_revision(conn, caller.namespace, job_id):
            check_scope(caller, Scope.REVIEWER)
        return decide(
            conn,
            job_id,
            node_id,
            approved=body.decision == "approve",
            issued_by=caller.name,
            reason=body.reason,
            clearance=body.clearance,
            namespace=caller.namespace,
            answer_seconds=0,
        )

    return await command(api, response, job_id, issue)


@router.get("/jobs/{job_id}/graph", response_model=JobGraph, responses=UNCHANGED)
def get_graph(
    job_id: JobId,
    caller: Reader,
    api: ApiContext,
    structure: Annotated[bool, Query(description="false: only how the nodes stand")] = True,
    tags: Known = None,
) -> Response:
    """The graph of a job: the positions and statuses of its nodes; fan-outs as counts, however many children."""
    with api.connection() as conn:
        graph = read_graph(conn, check_job(conn, caller.namespace, job_id), with_structure=structure)
    # Durations of what runs grow with every look, and are no news by themselves.
    steady = graph.model_dump_json(exclude={"states": {"__all__": {"duration_seconds"}}})
    return _cached(graph.model_dump_json(), f'W/"{blake2b(steady.encode(), digest_size=12).hexdigest()}"', tags)


@router.get("/jobs/{job_id}/graph/structure", response_model=GraphStructure, responses=UNCHANGED)
def get_graph_structure(job_id: JobId, caller: Reader, api: ApiContext, tags: Known = None) -> Response:
    """Only the positions of the nodes: the same for all jobs of one content of a workflow, whose hash is the ETag."""
    with api.connection() as conn:
        job = check_job(conn, caller.namespace, job_id)
        tag = f'"{job.workflow_hash}"'
        text = "" if _is_known(tag, tags) else read_structure(conn, job).model_dump_json()
    return _cached(text, tag, tags)


@router.get("/jobs/{job_id}/logs")
def get_job_logs(
    job_id: JobId,
    caller: Reader,
    api: ApiContext,
    tail: Tail = None,
    since: Since = None,
    cursor: CursorParameter = None,
    limit: Chunks = 200,
) -> LogPage:
    """The logs of a job's tasks, all attempts, by time."""
    with api.connection() as conn:
        check_job(conn, caller.namespace, job_id)
        return _logs(conn, job_id, None, False, tail, since, cursor, limit)


@router.get("/jobs/{job_id}/nodes/{node_id}/logs")
def get_node_logs(
    job_id: JobId,
    node_id: NodeId,
    caller: Reader,
    api: ApiContext,
    tail: Tail = None,
    since: Since = None,
    cursor: CursorParameter = None,
    limit: Chunks = 200,
) -> LogPage:
    """The logs of a node, or of the children of a fan-out."""
    with api.connection() as conn:
        job = check_job(conn, caller.namespace, job_id)
        node = check_node(conn, job, node_id)
        kind = kinds_of(conn, job).type_of(node_id, node.parent_node_id)
        return _logs(conn, job_id, node_id, kind is NodeType.FAN_OUT, tail, since, cursor, limit)


@router.get("/nodes")
def list_nodes_across_jobs(
    caller: Reader,
    api: ApiContext,
    status: Statuses = None,
    handler: Annotated[Name | None, Query()] = None,
    queue: Annotated[Name | None, Query()] = None,
    cursor: CursorParameter = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
) -> NodePage:
    """Nodes of all jobs, those of the newest jobs first, without the children of fan-outs."""
    after = read_cursor(cursor, node_place)
    with api.connection() as conn:
        lines, place = nodes_across_jobs(
            conn, caller.namespace, statuses=status or (), handler=handler, queue=queue, after=after, limit=limit
        )
    return NodePage(nodes=lines, next_cursor=None if place is None else write_cursor(*place))


def _logs(
    conn: Conn,
    job_id: str,
    node_id: str | None,
    is_fan_out: bool,
    tail: int | None,
    since: datetime | None,
    cursor: str | None,
    limit: int,
) -> LogPage:
    after = read_cursor(cursor, log_place)
    if after is None and since is not None:
        after = LogPlace(since, "", 0, 0)
    if tail is not None and after is not None:
        raise Problem(
            422, "tail_or_cursor", "the end, or what follows a place: give one of them", pointer="/query/tail"
        )
    more = False
    if tail is not None:
        chunks = read_tail(conn, job_id, node_id=node_id, is_fan_out=is_fan_out, lines=tail)
    else:
        chunks, more = read_logs(conn, job_id, node_id=node_id, is_fan_out=is_fan_out, after=after, limit=limit)
    last = last_place(chunks)
    written = cursor if last is None else write_cursor(*last)
    return LogPage(
        job_id=job_id, node_id=node_id, chunks=chunks, next_cursor=written if more else None, last_cursor=written
    )


def child_index(index: Any) -> int:
    if type(index) is not int or not 0 <= index < 2**31:
        raise ValueError(index)
    return index


def node_place(created_at: Any, job_id: Any, node_id: Any) -> NodePlace:
    return NodePlace(moment(created_at), plain(job_id), None if node_id is None else plain(node_id))


def log_place(created_at: Any, task_id: Any, lease_epoch: Any, chunk_index: Any) -> LogPlace:
    return LogPlace(moment(created_at), plain(task_id), number(lease_epoch), child_index(chunk_index))


def number(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 2**63:
        raise ValueError(value)
    return value


def _is_known(tag: str, tags: str | None) -> bool:
    opaque = tag.removeprefix("W/")
    return tags is not None and any(
        part.strip() == "*" or part.strip().removeprefix("W/") == opaque for part in tags.split(",")
    )


def _cached(text: str, tag: str, tags: str | None) -> Response:
    headers = {"ETag": tag, "Cache-Control": "private, no-cache"}
    if _is_known(tag, tags):
        return Response(status_code=304, headers=headers)
    return Response(text, headers=headers, media_type="application/json")
