"""Workflows: what is registered, whether a file is right, and registering it."""

from __future__ import annotations

import re
from importlib.resources import files
from typing import Annotated, Any, NamedTuple

import orjson
from fastapi import APIRouter, Depends, Header, Path, Query, Request, Response

from rmhdag.api.check_pool import CPU_SECONDS, MOST_CPU_SECONDS, CheckTooExpensive
from rmhdag.api.check_process import WORKFLOW
from rmhdag.api.context import Api, ApiContext, Conn
from rmhdag.api.identity import Operator, Reader
from rmhdag.api.pages import CursorParameter, read_cursor, write_cursor
from rmhdag.api.problems import Problem, not_found
from rmhdag.api.quotas import quota_exceeded
from rmhdag.api.strict_requests import check_media_type
from rmhdag.models.api.problems import ProblemPlace
from rmhdag.models.api.workflows import (
    Registration,
    VersionPage,
    WorkflowCheck,
    WorkflowDetail,
    WorkflowPage,
    WorkflowProblem,
    WorkflowSummary,
)
from rmhdag.orchestrator.registrations import known_handlers, known_queues
from rmhdag.store import quotas, views, workflows
from rmhdag.store.workflows import OtherContentError
from rmhdag.workflow import shipped_handlers
from rmhdag.workflow.problems import Problem as Fault

router = APIRouter(prefix="/api/v1/workflows", tags=["workflows"])

YAML_TYPES = ("application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml")
LARGEST_VERSION = 2**31 - 1

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
        raise Problem(422, "invalid_workflow", "a workflow is an object", pointer="")
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
        lines = views.workflows(
            conn, caller.namespace, after=after, text=text, retired_too=retired_too, limit=limit + 1
        )
    shown = [WorkflowSummary(**line._asdict()) for line in lines[:limit]]
    more = write_cursor("workflow", shown[-1].workflow_id) if len(lines) > limit else None
    return WorkflowPage(workflows=shown, next_cursor=more)


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
    """All that is wrong with a workflow, each with its place and a remedy. Nothing is stored."""
    found = check(api, caller.namespace, source, cpu_seconds(prefer), is_stored=False)
    faults = faults_in(found)
    return WorkflowCheck(
        valid=not faults,
        workflow_id=found.get("workflow_id"),
        version=found.get("version"),
        node_count=found.get("node_count"),
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
    """Check a workflow and register it. Jobs under way keep the definition that they began with."""
    found = check(api, caller.namespace, source, cpu_seconds(prefer), is_stored=True)
    faults = faults_in(found)
    if faults:
        raise refusal(faults)
    stored = workflows.StoredWorkflow(found["workflow_id"], found["version"], found["hash"], found["definition"])
    try:
        with api.connection() as conn:
            check_quota(conn, api, caller.namespace, stored.workflow_id)
            is_new = workflows.register_workflow(
                conn, caller.namespace, stored, caller.name, found["layout"], development=api.settings.development
            )
    except OtherContentError as error:
        raise Problem(
            409,
            "other_content",
            str(error),
            remedy="Raise `version`; in development mode (RMHDAG_DEVELOPMENT=1) the new content takes its place.",
            pointer="/version",
        ) from None
    response.status_code = 201 if is_new else 200
    return Registration(
        workflow_id=stored.workflow_id,
        version=stored.version,
        hash=stored.hash,
        node_count=found["node_count"],
        is_new=is_new,
    )


def check_quota(conn: Conn, api: Api, namespace: str, workflow_id: str) -> None:
    """A version more of a workflow that is there is not counted."""
    most = api.quotas.limits(namespace).workflows
    used = quotas.count_workflows(conn, namespace)
    if used >= most and views.workflow(conn, namespace, workflow_id, None) is None:
        raise quota_exceeded("workflows", most, used)


@router.get("/{workflow_id}")
def get_workflow(
    caller: Reader, api: ApiContext, workflow_id: WorkflowName, version: VersionParameter = None
) -> WorkflowDetail:
    """One workflow, with its definition and where its graph is drawn."""
    with api.connection() as conn:
        found = views.workflow(conn, caller.namespace, workflow_id, version)
    if found is None:
        raise not_found("such workflow", "`GET /api/v1/workflows` lists them.")
    return WorkflowDetail(**found)


@router.post("/{workflow_id}/retire")
def retire_workflow(caller: Operator, api: ApiContext, workflow_id: WorkflowName) -> WorkflowSummary:
    """Take no new jobs of it. Jobs under way go on, with their child jobs and retries; it is no longer listed."""
    with api.connection() as conn:
        workflows.retire_workflow(conn, caller.namespace, workflow_id, caller.name)
        return newest_version(conn, caller.namespace, workflow_id)


@router.post("/{workflow_id}/restore")
def restore_workflow(caller: Operator, api: ApiContext, workflow_id: WorkflowName) -> WorkflowSummary:
    """Take jobs of a retired workflow again."""
    with api.connection() as conn:
        workflows.restore_workflow(conn, caller.namespace, workflow_id, caller.name)
        return newest_version(conn, caller.namespace, workflow_id)


def newest_version(conn: Conn, namespace: str, workflow_id: str) -> WorkflowSummary:
    lines = views.workflow_versions(conn, namespace, workflow_id, limit=1)
    if not lines:
        raise not_found("such workflow", "`GET /api/v1/workflows?retired_too=true` lists them.")
    return WorkflowSummary(**lines[0]._asdict())


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
        lines = views.workflow_versions(conn, caller.namespace, workflow_id, before=before, limit=limit + 1)
    if not lines and before is None:
        raise not_found("such workflow", "`GET /api/v1/workflows` lists them.")
    shown = [WorkflowSummary(**line._asdict()) for line in lines[:limit]]
    more = write_cursor("version", shown[-1].version) if len(lines) > limit else None
    return VersionPage(versions=shown, next_cursor=more)


def read_version_place(kind: str, version: int) -> int:
    if kind != "version" or type(version) is not int or not 1 <= version <= LARGEST_VERSION:
        raise ValueError(kind)
    return version


def cpu_seconds(prefer: str | None) -> float:
    """What a check may take: more for whoever is willing to wait."""
    found = WAIT.search(prefer or "")
    return CPU_SECONDS if found is None else min(max(CPU_SECONDS, float(found[1])), MOST_CPU_SECONDS)


def check(api: Api, namespace: str, source: WrittenSource, seconds: float, *, is_stored: bool) -> dict[str, Any]:
    """By the same rules as `rmhdag validate`, with the queues and handlers that are there; what `check_process` says.

    The connection is given back before the work begins.
    """
    with api.connection() as conn:
        queues = known_queues(conn, namespace, api.settings.queues, api.settings.orphan_seconds)
        handlers = known_handlers(conn, namespace)
    if not queues:
        raise Problem(
            409,
            "no_queues",
            "no queues are configured, so no workflow can be checked",
            remedy="Set DAG_WORKER_QUEUE and WORKER_QUEUE for the API, or start a worker.",
        )
    told = {
        "handlers": [
            (one.name, one.aliases, one.queue, dict(one.params_schema), dict(one.output_schema))
            for one in handlers.entries()
            if shipped_handlers().find(one.name) is not one
        ],
        "queues": sorted(queues),
        "env_names": sorted(api.settings.template_names),
        "fallback_queue": api.settings.fallback_queue,
        "is_stored": is_stored,
    }
    text, data = (source.content, b"") if isinstance(source.content, bytes) else (b"", orjson.dumps(source.content))
    try:
        found: dict[str, Any] = api.checks.check(
            namespace, WORKFLOW, orjson.dumps(told), text, data, cpu_seconds=seconds
        )
    except CheckTooExpensive as error:
        raise Problem(
            422,
            "check_too_expensive",
            f"the workflow cannot be checked: {error}",
            remedy=f"Make it smaller, or send `Prefer: wait={MOST_CPU_SECONDS:g}` if you can wait so many seconds.",
            pointer="",
        ) from None
    return found


def faults_in(found: dict[str, Any]) -> list[Fault]:
    return [Fault(*fault) for fault in found["faults"]]


def refusal(faults: list[Fault]) -> Problem:
    many = "1 problem" if len(faults) == 1 else f"{len(faults)} problems"
    return Problem(
        422,
        "invalid_workflow",
        f"nothing was registered: the workflow has {many}",
        places=[
            ProblemPlace(
                pointer=fault.pointer,
                detail=f"{fault.message}. {fault.remedy}",
                line=fault.line or None,
                column=fault.column or None,
            )
            for fault in faults
        ],
    )
