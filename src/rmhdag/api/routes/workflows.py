"""Workflows: what is registered, whether a file is right, and registering it."""

from __future__ import annotations

from importlib.resources import files
from typing import Annotated, Any, NamedTuple

import orjson
from fastapi import APIRouter, Depends, Path, Query, Request, Response

from rmhdag.api.context import Api, ApiContext, Conn
from rmhdag.api.identity import Operator, Reader
from rmhdag.api.pages import CursorParameter, read_cursor, write_cursor
from rmhdag.api.problems import Problem, not_found
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
from rmhdag.orchestrator.registrations import known_handlers, known_queues, register_definition, stored_form
from rmhdag.store import views, workflows
from rmhdag.store.workflows import OtherContentError
from rmhdag.workflow.checker import CheckedWorkflow, Surroundings, find_problems
from rmhdag.workflow.loader import make_definition
from rmhdag.workflow.problems import Problem as Fault

router = APIRouter(prefix="/api/v1/workflows", tags=["workflows"])

YAML_TYPES = ("application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml")
LARGEST_VERSION = 2**31 - 1

WorkflowName = Annotated[str, Path(pattern=r"^[a-z][a-z0-9_-]{0,63}$")]
VersionParameter = Annotated[int | None, Query(ge=1, le=LARGEST_VERSION, description="Not the newest version")]
LimitParameter = Annotated[int, Query(ge=1, le=500)]


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
def validate_workflow(caller: Reader, api: ApiContext, source: Source) -> WorkflowCheck:
    """All that is wrong with a workflow, each with its place and a remedy. Nothing is stored."""
    with api.connection() as conn:
        checked, faults = check(conn, api, caller.namespace, source)
    return WorkflowCheck(
        valid=not faults,
        workflow_id=checked.workflow_id if checked else None,
        version=checked.version if checked else None,
        node_count=checked.node_count if checked else None,
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
def register_workflow(caller: Operator, api: ApiContext, source: Source, response: Response) -> Registration:
    """Check a workflow and register it. Jobs under way keep the definition that they began with."""
    with api.connection() as conn:
        checked, faults = check(conn, api, caller.namespace, source)
        if checked is None:
            raise refusal(faults)
        definition = make_definition(checked).definition
        try:
            is_new = register_definition(
                conn, definition, caller.namespace, caller.name, development=api.settings.development
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
        workflow_id=definition.workflow_id,
        version=definition.version,
        hash=stored_form(definition).hash,
        node_count=checked.node_count,
        is_new=is_new,
    )


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


def check(conn: Conn, api: Api, namespace: str, source: WrittenSource) -> tuple[CheckedWorkflow | None, list[Fault]]:
    """By the same rules as `rmhdag validate`, with the queues and handlers that are there."""
    queues = known_queues(conn, namespace, api.settings.queues, api.settings.orphan_seconds)
    if not queues:
        raise Problem(
            409,
            "no_queues",
            "no queues are configured, so no workflow can be checked",
            remedy="Set DAG_WORKER_QUEUE and WORKER_QUEUE for the API, or start a worker.",
        )
    around = Surroundings(
        known_handlers(conn, namespace), queues, api.settings.template_names, api.settings.fallback_queue
    )
    return find_problems(source.content, around)


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
