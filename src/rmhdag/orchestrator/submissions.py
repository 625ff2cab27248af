"""How a job comes to be: parameters checked against the pinned definition, one row, one event."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import psycopg

from rmhdag.engine.effects import ChildJobRequested
from rmhdag.engine.outputs import summarise
from rmhdag.models.columns import INPUT_BYTES
from rmhdag.models.json_values import check_json
from rmhdag.orchestrator.owned_jobs import OwnedJob
from rmhdag.store import jobs, workflows
from rmhdag.store.identity import new_id
from rmhdag.workflow import validate_inputs
from rmhdag.workflow.definition import WorkflowDefinition

Conn = psycopg.Connection[Any]


class UnknownWorkflowError(Exception):
    """No such workflow, or not that version."""


class OtherSubmissionError(Exception):
    """The idempotency key was used for something else."""


def submit(
    conn: Conn,
    workflow_id: str,
    input_params: Mapping[str, Any],
    *,
    submitted_by: str,
    namespace: str = "default",
    version: int | None = None,
    priority: int = 0,
    fairness_key: str | None = None,
    idempotency_key: str | None = None,
    correlation_id: str | None = None,
    callback_url: str | None = None,
    source_app: str = "cli",
) -> str:
    """Create a job and return its id; the same idempotency key with the same content returns the first one's."""
    stored = workflows.current_workflow(conn, namespace, workflow_id, version)
    if stored is None:
        wanted = workflow_id if version is None else f"{workflow_id} version {version}"
        raise UnknownWorkflowError(f"there is no workflow {wanted!r}; `rmhdag workflows` lists them")
    params = validate_inputs(WorkflowDefinition.model_validate(stored.definition), dict(input_params))
    row = job_row(
        new_id(),
        stored,
        params,
        namespace=namespace,
        submitted_by=submitted_by,
        priority=priority,
        fairness_key=fairness_key,
    )
    row |= {
        "idempotency_key": idempotency_key,
        "correlation_id": correlation_id,
        "callback_url": callback_url,
    }
    with conn.transaction():
        if jobs.insert_jobs(conn, [row], source_app):
            return str(row["job_id"])
    assert idempotency_key is not None
    there = jobs.find_by_idempotency_key(conn, namespace, submitted_by, idempotency_key)
    if there is None or there[1] != workflow_id or there[2] != params:
        raise OtherSubmissionError(
            f"idempotency key {idempotency_key!r} was used for another submission; choose a new key"
        )
    return there[0]


def child_job_row(conn: Conn, parent: OwnedJob, wanted: ChildJobRequested) -> dict[str, Any]:
    """The row of a child job, in the name of whoever submitted the parent."""
    stored = workflows.current_workflow(conn, parent.namespace, wanted.workflow_id, wanted.workflow_version)
    if stored is None:
        raise UnknownWorkflowError(f"there is no workflow {wanted.workflow_id!r} to run as a child job")
    params = validate_inputs(WorkflowDefinition.model_validate(stored.definition), wanted.input_params)
    return job_row(
        wanted.child_job_id,
        stored,
        params,
        namespace=parent.namespace,
        submitted_by=parent.submitted_by,
        priority=parent.priority,
        fairness_key=parent.fairness_key,
        depth=wanted.depth,
        root_job_id=parent.root_job_id,
        parent=(parent.job_id, wanted.node_id),
    )


def job_row(
    job_id: str,
    stored: workflows.StoredWorkflow,
    params: dict[str, Any],
    *,
    namespace: str,
    submitted_by: str,
    priority: int = 0,
    fairness_key: str | None = None,
    depth: int = 0,
    root_job_id: str | None = None,
    parent: tuple[str, str] | None = None,
    metadata: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """A row of `insert_jobs`."""
    check_json(params, max_bytes=INPUT_BYTES)
    return {
        "job_id": job_id,
        "namespace": namespace,
        "workflow_id": stored.workflow_id,
        "workflow_version": stored.version,
        "workflow_hash": stored.hash,
        "priority": priority,
        "depth": depth,
        "fairness_key": fairness_key or submitted_by,
        "submitted_by": submitted_by,
        "parent_job_id": parent[0] if parent else None,
        "parent_node_id": parent[1] if parent else None,
        "root_job_id": root_job_id or job_id,
        "input_params": params,
        "metadata": metadata or {},
        "shown_params": _shown(params),
    }


def _shown(params: dict[str, Any]) -> dict[str, Any]:
    """What the audit trail says of parameters: never a secret, never much."""
    return summarise(params)
