"""Workflows: what is registered, whether a file is right, and registering it."""

from __future__ import annotations

import re
from importlib.resources import files
from typing import Annotated, Any, NamedTuple

import orjson
from fastapi import APIRouter, Depends, Header, Path, Query, Request, Response

from rmhdag.api.check_pool import CPU_SECONDS, MOST_CPU_SECONDS, CheckTooExpensive
from rmhdag.api.check_process import WORKFLOW
from rmhdag.api.context import Api, ApiContext
from rmhdag.api.identity import Operator, Reader
from rmhdag.api.pages import CursorParameter, read_cursor, write_cursor
from rmhdag.api.problems import not_found
from rmhdag.api.quotas import quota_exceeded
from rmhdag.api.strict_requests import check_media_type
from rmhdag.models.api.workflows import (
    Registration,
    VersionPage,
    WorkflowCheck,
    WorkflowDetail,
    WorkflowPage,
    WorkflowProblem,
    WorkflowSummary,
)
from rmhdag.models.refusals import Kind, Place, Refusal
from rmhdag.services.registrations import known_handlers, known_queues
from rmhdag.store import quotas, workflows
from rmhdag.store.connection import Conn
from rmhdag.views import workflows as views
from rmhdag.workflow import shipped_handlers
from rmhdag.workflow.problems import Problem as Fault

router = APIRouter(prefix="/api/v1/workflows", tags=["workflows"])

YAML_TYPES = ("application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml")
LARGEST_VERSION = 2**31 - 1
# Per byte of JSON.
READING_SECONDS = 70e-9
LEAST_CPU_SECONDS = 0.2

WorkflowName = Annotated[str, Path(pattern=r"^[a-z][a-z0-9_-]{0,63}$")]
VersionParameter = Annotated[int | None, Query(ge=1, le=LARGEST_VERSION, description="Not the newest version")]
LimitParameter = Annotated[int, Query(ge=1, le=500)]
PreferHeader = Annotated[
    str | None,
    Header(
        max_length=200,
        description=f"`wait=N`: a check may take N seconds of processor time, at most {MOST_CPU_SECONDS:g}; "
        f"else it has {CPU_SECONDS:g}",
    ),
]
WAIT = re.compile(r"(?:^|[,; ])wait=(\d{1,4})(?![\d.])", re.ASCII)


class WrittenSource(NamedTuple):
    """As it came: a text with positions, or JSON."""

    content: bytes | dict[str, Any]


async def read_source(request: Request) -> WrittenSource:
    media_type = check_media_type(request, (*YAML_TYPES, "application/json"))
    if media_type in YAML_TYPES:
        return WrittenSource(await request.body())
    content = await request.json()
    if not isinstance(content, dict):
        raise Refusal(Kind.INVALID, "invalid_workflow", "a workflow is an object", pointer="")
    return WrittenSource(content)


Source = Annotated[WrittenSource, Depends(read_source)]
LANGUAGE: dict[str, Any] = orjson.loads(files("rmhdag.workflow").joinpath("workflow.schema.json").read_bytes())
# The whole language is at /workflows/schema; here it would only make this document long.
WRITTEN = {"type": "object", "description": "A workflow as `GET /api/v1/workflows/schema` describes it"}
TAKES_A_WORKFLOW = {
    "requestBody": {
        "required": True,
        "content": {
            "application/yaml": {"schema": {"description": "The same as a text: problems then have lines and columns"}},
            "application/json": {"schema": WRITTEN},
        },
    }
}


@router.get("")
def list_workflows(
    caller: Reader,
    api: ApiContext,
    text: Annotated[str | None, Query(min_length=1, max_length=64, description="In the id or the name")] = None,
    retired_too: Annotated[bool, Query(description="Also those that were retired")] = False,
    limit: LimitParameter = 50,
    cursor: CursorParameter = None,
) -> WorkflowPage:
    """Registered workflows by id, each with its newest version."""
    with api.connection() as conn:
        after = read_cursor(cursor, read_workflow_place)
        lines = views.list_workflows(
            conn, caller.namespace, after=after, text=text, retired_too=retired_too, limit=limit + 1
        )
    page = lines[:limit]
    more = write_cursor("workflow", page[-1].workflow_id) if len(lines) > limit else None
    return WorkflowPage(workflows=page, next_cursor=more)


def read_workflow_place(kind: str, workflow_id: str) -> str:
    if kind != "workflow" or not isinstance(workflow_id, str):
        raise ValueError(kind)
    return workflow_id


@router.get("/schema")
def workflow_schema(caller: Reader) -> dict[str, Any]:
    """The JSON Schema of workflow files, for editors and other checkers."""
    return LANGUAGE


@router.post("/validate", openapi_extra=TAKES_A_WORKFLOW)
def validate_workflow(caller: Reader, api: ApiContext, source: Source, prefer: PreferHeader = None) -> WorkflowCheck:
    """All problems of a workflow, each with its place and a remedy. Nothing is stored."""
    result = check(api, caller.namespace, source, cpu_seconds(prefer), is_stored=False)
    faults = faults_in(result)
    return WorkflowCheck(
        valid=not faults,
        workflow_id=result.get("workflow_id"),
        version=result.get("version"),
        node_count=result.get("node_count"),
        problems=[
            WorkflowProblem(
                pointer=fault.pointer,
                line=fault.line or None,
                column=fault.column or None,
                code=fault.code,
                message=fault.message,
                remedy=fault.remedy,
            )
            for fault in faults
        ],
    )


@router.post(
    "",
    status_code=201,
    openapi_extra=TAKES_A_WORKFLOW,
    responses={200: {"model": Registration, "description": "This very content was registered already"}},
)
def register_workflow(
    caller: Operator, api: ApiContext, source: Source, response: Response, prefer: PreferHeader = None
) -> Registration:
    """Check a workflow and register it. Running jobs keep the definition that they started with."""
    result = check(api, caller.namespace, source, cpu_seconds(prefer), is_stored=True)
    faults = faults_in(result)
    if faults:
        raise refusal(faults)
    stored = workflows.StoredWorkflow(result["workflow_id"], result["version"], result["hash"], result["definition"])
    most = api.quotas.limits(caller.namespace).workflows
    with api.connection() as conn, conn.transaction():
        quotas.hold_additions(conn, caller.namespace)
        check_quota(conn, caller.namespace, stored.workflow_id, most)
        is_new = workflows.register_workflow(
            conn, caller.namespace, stored, caller.name, result["layout"], development=api.settings.development
        )
    response.status_code = 201 if is_new else 200
    return Registration(
        workflow_id=stored.workflow_id,
        version=stored.version,
        hash=stored.hash,
        node_count=result["node_count"],
        is_new=is_new,
    )


def check_quota(conn: Conn, namespace: str, workflow_id: str, most: int) -> None:
    """A version more of a workflow that is there is not counted."""
    used = quotas.count_workflows(conn, namespace)
    if used >= most and views.find_workflow(conn, namespace, workflow_id, None) is None:
        raise quota_exceeded("workflows", most, used)


@router.get("/{workflow_id}")
def get_workflow(
    caller: Reader, api: ApiContext, workflow_id: WorkflowName, version: VersionParameter = None
) -> WorkflowDetail:
    """One workflow, with its definition and where its graph is drawn."""
    with api.connection() as conn:
        workflow = views.find_workflow(conn, caller.namespace, workflow_id, version)
    if workflow is None:
        raise not_found("such workflow", "`GET /api/v1/workflows` lists them.")
    return workflow


@router.post("/{workflow_id}/retire")
def retire_workflow(caller: Operator, api: ApiContext, workflow_id: WorkflowName) -> WorkflowSummary:
    """Accept no new jobs of it. Running jobs go on, with their child jobs and retries; it is no longer listed."""
    with api.connection() as conn:
        workflows.retire_workflow(conn, caller.namespace, workflow_id, caller.name)
        return newest_version(conn, caller.namespace, workflow_id)


@router.post("/{workflow_id}/restore")
def restore_workflow(caller: Operator, api: ApiContext, workflow_id: WorkflowName) -> WorkflowSummary:
    """Accept jobs of a retired workflow again."""
    with api.connection() as conn:
        workflows.restore_workflow(conn, caller.namespace, workflow_id, caller.name)
        return newest_version(conn, caller.namespace, workflow_id)


def newest_version(conn: Conn, namespace: str, workflow_id: str) -> WorkflowSummary:
    lines = views.list_versions(conn, namespace, workflow_id, limit=1)
    if not lines:
        raise not_found("such workflow", "`GET /api/v1/workflows?retired_too=true` lists them.")
    return lines[0]


@router.get("/{workflow_id}/versions")
def list_versions(
    caller: Reader,
    api: ApiContext,
    workflow_id: WorkflowName,
    limit: LimitParameter = 50,
    cursor: CursorParameter = None,
) -> VersionPage:
    """The versions of a workflow, newest first."""
    with api.connection() as conn:
        before = read_cursor(cursor, read_version_place)
        lines = views.list_versions(conn, caller.namespace, workflow_id, before=before, limit=limit + 1)
    if not lines and before is None:
        raise not_found("such workflow", "`GET /api/v1/workflows` lists them.")
    page = lines[:limit]
    more = write_cursor("version", page[-1].version) if len(lines) > limit else None
    return VersionPage(versions=page, next_cursor=more)


def read_version_place(kind: str, version: int) -> int:
    if kind != "version" or type(version) is not int or not 1 <= version <= LARGEST_VERSION:
        raise ValueError(kind)
    return version


def cpu_seconds(prefer: str | None) -> float:
    """How long a check may take: longer for a caller that is willing to wait."""
    match = WAIT.search(prefer or "")
    return CPU_SECONDS if match is None else min(max(CPU_SECONDS, float(match[1])), MOST_CPU_SECONDS)


def left_for_check(json_bytes: int) -> float:
    """JSON has been read here already, unlike a text, and that took time: 70 ms a megabyte at most."""
    return max(LEAST_CPU_SECONDS, CPU_SECONDS - json_bytes * READING_SECONDS)


def check(api: Api, namespace: str, source: WrittenSource, seconds: float, *, is_stored: bool) -> dict[str, Any]:
    """By the same rules as `rmhdag validate`, with the queues and handlers that are there; what `check_process` says.

    The connection is given back before the work begins.
    """
    with api.connection() as conn:
        queues = known_queues(conn, namespace, api.settings.queues, api.settings.orphan_seconds)
        handlers = known_handlers(conn, namespace).with_entries(api.settings.own_handlers())
    if not queues:
        raise Refusal(
            Kind.UNUSABLE,
            "no_queues",
            "no queues are configured, so no workflow can be checked",
            remedy="Set DAG_WORKER_QUEUE and WORKER_QUEUE for the API, or start a worker.",
        )
    context = {
        "handlers": [
            (entry.name, entry.aliases, entry.queue, dict(entry.params_schema), dict(entry.output_schema))
            for entry in handlers.entries()
            if shipped_handlers().find(entry.name) is not entry
        ],
        "queues": sorted(queues),
        "env_names": sorted(api.settings.template_names),
        "fallback_queue": api.settings.fallback_queue,
        "is_stored": is_stored,
    }
    text, data = (source.content, b"") if isinstance(source.content, bytes) else (b"", orjson.dumps(source.content))
    if seconds <= CPU_SECONDS:
        seconds = left_for_check(len(data))
    try:
        result: dict[str, Any] = api.checks.check(
            namespace, WORKFLOW, orjson.dumps(context), text, data, cpu_seconds=seconds
        )
    except CheckTooExpensive as error:
        raise Refusal(
            Kind.INVALID,
            "check_too_expensive",
            f"the workflow cannot be checked: {error}",
            remedy=f"Make it smaller, or send `Prefer: wait={MOST_CPU_SECONDS:g}` if you can wait so many seconds.",
            pointer="",
        ) from None
    return result


def faults_in(result: dict[str, Any]) -> list[Fault]:
    return [Fault(*fault) for fault in result["faults"]]


def refusal(faults: list[Fault]) -> Refusal:
    many = "1 problem" if len(faults) == 1 else f"{len(faults)} problems"
    return Refusal(
        Kind.INVALID,
        "invalid_workflow",
        f"nothing was registered: the workflow has {many}",
        places=[
            Place(fault.pointer, f"{fault.message}. {fault.remedy}", fault.line or None, fault.column or None)
            for fault in faults
        ],
    )
