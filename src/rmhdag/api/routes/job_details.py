"""A job looked at closely: the children of a fan-out in columns, lines of logs by number, the definition it runs."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from rmhdag.api.context import ApiContext
from rmhdag.api.identity import Reader
from rmhdag.api.job_paths import check_job, check_node
from rmhdag.api.problems import Problem
from rmhdag.api.routes.jobs import JobId
from rmhdag.api.routes.nodes import NodeId
from rmhdag.models.api.children import MOST_CHILDREN, FanOutChildren
from rmhdag.models.api.log_lines import MOST_LINES, LogLevel, LogLines, LogMatches
from rmhdag.models.api.workflows import JobDefinition
from rmhdag.models.columns import Id
from rmhdag.models.states import NodeType
from rmhdag.store.connection import Conn
from rmhdag.views.children import read_children
from rmhdag.views.jobs import JobHead
from rmhdag.views.log_lines import Scope, make_filter, read_lines, search_lines
from rmhdag.views.nodes import kinds_of
from rmhdag.views.workflows import read_job_definition

router = APIRouter(prefix="/api/v1/jobs/{job_id}", tags=["nodes"])

NUMBER = 2**31 - 1
OneNode = Annotated[Id | None, Query(description="Only what this node wrote, or the children of this fan-out")]
Levels = Annotated[
    list[LogLevel] | None,
    Query(max_length=4, description="Only lines of these levels; a line that names none is `info`"),
]
SearchText = Annotated[str, Query(min_length=1, max_length=200, description="In any case of letters")]


@router.get("/nodes/{node_id}/children", summary="The children of a fan-out in columns")
def get_children(
    job_id: JobId,
    node_id: NodeId,
    caller: Reader,
    api: ApiContext,
    first: Annotated[int, Query(ge=0, le=NUMBER, description="Begin with the child of this index")] = 0,
    limit: Annotated[int, Query(ge=1, le=MOST_CHILDREN)] = 10_000,
    keys: Annotated[bool, Query(description="The key of each child's item, too")] = False,
    places: Annotated[bool, Query(description="Where each child lies, too, as far as its parameters say")] = False,
) -> FanOutChildren:
    """How each child stands, in columns: 10,000 of them are less than 300 KB. For all about a child, get its node."""
    with api.connection() as conn:
        job = check_job(conn, caller.namespace, job_id)
        node = check_node(conn, job, node_id)
        if kinds_of(conn, job).type_of(node_id, node.parent_node_id) is not NodeType.FAN_OUT:
            raise Problem(
                422,
                "not_a_fan_out",
                f"node {node_id} is not a fan-out, and has no children",
                remedy="`GET /api/v1/jobs/{job_id}/nodes` says of which type each node is.",
                pointer="/path/node_id",
            )
        return read_children(conn, job, node_id, first=first, limit=limit, with_keys=keys, with_places=places)


@router.get("/logs/lines", summary="Lines of a job's logs by number")
def get_log_lines(
    job_id: JobId,
    caller: Reader,
    api: ApiContext,
    first: Annotated[
        int, Query(ge=-NUMBER, le=NUMBER, description="From this line on, counted from 0; a negative one from the end")
    ] = 0,
    limit: Annotated[int, Query(ge=1, le=MOST_LINES)] = 500,
    node_id: OneNode = None,
    level: Levels = None,
    text: SearchText | None = None,
) -> LogLines:
    """What the tasks of a job wrote, by time; any line of a million is as near as the first."""
    with api.connection() as conn:
        scope = log_scope_of(conn, check_job(conn, caller.namespace, job_id), node_id)
        return read_lines(conn, scope, make_filter(level or (), text), first=first, limit=limit)


@router.get("/logs/matches", summary="Where a text stands in a job's logs")
def get_log_matches(
    job_id: JobId,
    caller: Reader,
    api: ApiContext,
    text: SearchText,
    node_id: OneNode = None,
    level: Levels = None,
) -> LogMatches:
    """The places of matching lines, and how many there are."""
    with api.connection() as conn:
        scope = log_scope_of(conn, check_job(conn, caller.namespace, job_id), node_id)
        return search_lines(conn, scope, level or (), text)


def log_scope_of(conn: Conn, job: JobHead, node_id: str | None) -> Scope:
    if node_id is None:
        return Scope(job.job_id, None, False)
    node = check_node(conn, job, node_id)
    kind = kinds_of(conn, job).type_of(node_id, node.parent_node_id)
    return Scope(job.job_id, node_id, kind is NodeType.FAN_OUT)


@router.get("/definition", summary="The definition that a job runs")
def get_job_definition(job_id: JobId, caller: Reader, api: ApiContext) -> JobDefinition:
    """As it was when the job was created; with the newest one, if that differs."""
    with api.connection() as conn:
        return read_job_definition(conn, check_job(conn, caller.namespace, job_id))
