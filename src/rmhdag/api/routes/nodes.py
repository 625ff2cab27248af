"""Nodes: of a job, one of them, across jobs; retry and decide; a job's graph and logs."""

from __future__ import annotations

from datetime import datetime
from hashlib import blake2b
from typing import Annotated, Any

import psycopg
from fastapi import APIRouter, Header, Path, Query, Response

from rmhdag.api.context import ApiContext
from rmhdag.api.identity import Operator, Reader
from rmhdag.api.pages import CursorParameter, read_cursor, write_cursor
from rmhdag.api.problems import Problem, not_found
from rmhdag.api.routes.jobs import COMMAND, JobId, command, find_job, is_id, moment, plain
from rmhdag.api.views.logs import last_place, read_logs, read_tail
from rmhdag.api.views.nodes import (
    NodePlace,
    kinds_of,
    list_nodes,
    nodes_across_jobs,
    read_graph,
    read_node,
    read_structure,
)
from rmhdag.models.api.jobs import CommandAnswerBody
from rmhdag.models.api.nodes import Decision, GraphStructure, JobGraph, LogPage, NodePage, NodeView
from rmhdag.models.columns import Id, Name, Timestamp
from rmhdag.models.states import NodeStatus, NodeType
from rmhdag.orchestrator.commands import CommandAnswer, decide, retry_node
from rmhdag.store import views
from rmhdag.store.log_pages import LogPlace
from rmhdag.workflow.problems import did_you_mean

router = APIRouter(prefix="/api/v1", tags=["nodes"])
Conn = psycopg.Connection[Any]
NodeId = Annotated[str, Path(description="A node of the workflow, or a child of a fan-out: `split__17`")]
Statuses = Annotated[list[NodeStatus] | None, Query(max_length=20, description="One or several")]
Known = Annotated[str | None, Header(alias="If-None-Match", max_length=1000)]
UNCHANGED: dict[int | str, dict[str, Any]] = {304: {"description": "Unchanged since the ETag that was given"}}
Tail = Annotated[int | None, Query(ge=1, le=10_000, description="The last lines, instead of pages")]
Since = Annotated[Timestamp | None, Query(description="Written then or later; for whoever follows a running job")]
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
        job = find_job(conn, caller, job_id)
        found = list_nodes(
            conn,
            job,
            statuses=status or (),
            parent=parent,
            with_children=children,
            after=after,
            limit=limit + 1,
        )
        if parent is not None and not found and after is None:
            require_node(conn, job, parent)
    shown = found[:limit]
    if len(found) <= limit:
        return NodePage(nodes=shown)
    last = shown[-1]
    return NodePage(nodes=shown, next_cursor=write_cursor(last.node_id if parent is None else last.fan_out_index))


@router.get("/jobs/{job_id}/nodes/{node_id}")
def get_node(job_id: JobId, node_id: NodeId, caller: Reader, api: ApiContext) -> NodeView:
    """A node or a child: parameters, output, and why it does not run."""
    with api.connection() as conn:
        job = find_job(conn, caller, job_id)
        found = read_node(conn, job, node_id, api.settings.orphan_seconds) if is_id(node_id) else None
        if found is None:
            raise no_node(conn, job, node_id)
    return found


@router.post("/jobs/{job_id}/nodes/{node_id}/retry", responses=COMMAND)
async def retry(
    job_id: JobId, node_id: NodeId, caller: Operator, api: ApiContext, response: Response
) -> CommandAnswerBody:
    """In a running job: skip the wait for a retry, or give a failed child one more attempt. 409 if neither is so."""

    def issue(conn: Conn) -> CommandAnswer:
        require_node(conn, find_job(conn, caller, job_id), node_id)
        return retry_node(conn, job_id, node_id, issued_by=caller.name, namespace=caller.namespace, answer_seconds=0)

    return await command(api, response, job_id, issue)


@router.post("/jobs/{job_id}/nodes/{node_id}/decide", responses=COMMAND)
async def decide_node(
    job_id: JobId, node_id: NodeId, body: Decision, caller: Operator, api: ApiContext, response: Response
) -> CommandAnswerBody:
    """Approve or reject what an approval waits for. 409 if it does not wait."""

    def issue(conn: Conn) -> CommandAnswer:
        require_node(conn, find_job(conn, caller, job_id), node_id)
        return decide(
            conn,
            job_id,
            node_id,
            approved=body.decision == "approve",
            issued_by=caller.name,
            reason=body.reason,
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
    known: Known = None,
) -> Response:
    """The picture of a job: where its nodes lie and how they stand; fan-outs as counts, however many children."""
    with api.connection() as conn:
        found = read_graph(conn, find_job(conn, caller, job_id), with_structure=structure)
    # Durations of what runs grow with every look, and are no news by themselves.
    steady = found.model_dump_json(exclude={"states": {"__all__": {"duration_seconds"}}})
    return _cached(found.model_dump_json(), f'W/"{blake2b(steady.encode(), digest_size=12).hexdigest()}"', known)


@router.get("/jobs/{job_id}/graph/structure", response_model=GraphStructure, responses=UNCHANGED)
def get_graph_structure(job_id: JobId, caller: Reader, api: ApiContext, known: Known = None) -> Response:
    """Only where the nodes lie: the same for all jobs of one content of a workflow, whose hash is the ETag."""
    with api.connection() as conn:
        job = find_job(conn, caller, job_id)
        tag = f'"{job["workflow_hash"]}"'
        text = "" if _is_known(tag, known) else read_structure(conn, job).model_dump_json()
    return _cached(text, tag, known)


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
    """What the tasks of a job wrote, every attempt of them, by time."""
    with api.connection() as conn:
        find_job(conn, caller, job_id)
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
    """What a node wrote, or the children of a fan-out."""
    with api.connection() as conn:
        job = find_job(conn, caller, job_id)
        node = require_node(conn, job, node_id)
        kind = kinds_of(conn, job).type_of(node_id, node["parent_node_id"])
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
        found, place = nodes_across_jobs(
            conn, caller.namespace, statuses=status or (), handler=handler, queue=queue, after=after, limit=limit
        )
    return NodePage(nodes=found, next_cursor=None if place is None else write_cursor(*place))


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


def require_node(conn: Conn, job: dict[str, Any], node_id: str) -> dict[str, Any]:
    found = views.node(conn, job["job_id"], node_id) if is_id(node_id) else None
    if found is None:
        raise no_node(conn, job, node_id)
    return found


def no_node(conn: Conn, job: dict[str, Any], node_id: str) -> Problem:
    known = kinds_of(conn, job).node_ids()
    return not_found(f"node {node_id!r} in job {job['job_id']}", remedy=did_you_mean(node_id, known))


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


def _is_known(tag: str, known: str | None) -> bool:
    opaque = tag.removeprefix("W/")
    return known is not None and any(
        one.strip() == "*" or one.strip().removeprefix("W/") == opaque for one in known.split(",")
    )


def _cached(text: str, tag: str, known: str | None) -> Response:
    headers = {"ETag": tag, "Cache-Control": "private, no-cache"}
    if _is_known(tag, known):
        return Response(status_code=304, headers=headers)
    return Response(text, headers=headers, media_type="application/json")
