"""Jobs that a workflow node starts, on behalf of the submitter of their parent."""

from __future__ import annotations

from typing import Any

import psycopg
from pydantic import ValidationError

from rmhdag.engine.effects import ChildJobRequested
from rmhdag.models.limits import REASON_CHARACTERS
from rmhdag.orchestrator.large_values import payloads_of, shrink_inputs
from rmhdag.orchestrator.owned_jobs import OwnedJob
from rmhdag.services.submissions import complete_inputs, job_row
from rmhdag.store import workflows
from rmhdag.workflow import InvalidInputs
from rmhdag.workflow.definition import WorkflowDefinition

Conn = psycopg.Connection[Any]


class ChildJobRefused(Exception):
    """A child job that cannot be made; the reason is short enough for the inbox of its parent."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason[:REASON_CHARACTERS])


def child_job_row(conn: Conn, parent: OwnedJob, request: ChildJobRequested) -> dict[str, Any]:
    """The row of a child job, on behalf of the submitter of the parent. Raises ChildJobRefused."""
    stored = workflows.current_workflow(conn, parent.namespace, request.workflow_id, request.workflow_version)
    if stored is None:
        raise ChildJobRefused(f"there is no workflow {request.workflow_id!r} to run as a child job")
    try:
        definition = WorkflowDefinition.model_validate(stored.definition)
    except ValidationError as error:
        raise ChildJobRefused(
            f"workflow {request.workflow_id!r} version {stored.version} cannot be read by this orchestrator; "
            f"was it registered by a newer rmhdag? {error.errors()[0]['msg']}"
        ) from None
    try:
        params = complete_inputs(definition, request.input_params, with_references=True)
    except InvalidInputs as error:
        raise ChildJobRefused(str(error)) from None
    params = shrink_inputs(conn, parent, params)
    return job_row(
        request.child_job_id,
        stored,
        params,
        namespace=parent.namespace,
        submitted_by=parent.submitted_by,
        priority=parent.priority,
        fairness_key=parent.fairness_key,
        depth=request.depth,
        root_job_id=parent.root_job_id,
        parent=(parent.job_id, request.node_id),
        trace_parent=parent.trace_parent,
        payloads=payloads_of(params),
    )
