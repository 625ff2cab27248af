"""Reruns: a new job for a finished one, and the nodes that it runs again (SPEC E8)."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from rmhdag.assets.revisions import check_files_kept, check_free, params_digest_of
from rmhdag.engine.rerun import RerunError, RerunScope, plan_rerun
from rmhdag.models.columns import HIGHEST_PRIORITY
from rmhdag.models.references import hide_secrets
from rmhdag.models.refusals import Kind, Refusal
from rmhdag.models.states import JOB_TERMINAL, JobStatus
from rmhdag.services.plans import definition_of, plan_of
from rmhdag.services.requests import make_revision, state_of
from rmhdag.services.submissions import (
    CheckNeeded,
    ChecksNeeded,
    Completion,
    OtherSubmissionError,
    Submitted,
    check_inputs,
    complete_inputs,
    job_row,
    sealed_inputs,
    shown_inputs,
)
from rmhdag.store import assets, jobs, payloads, reruns, workflows
from rmhdag.store.batch_rows import RevisionKey
from rmhdag.store.connection import Conn
from rmhdag.store.identity import new_id
from rmhdag.store.job_labels import labels_of
from rmhdag.workflow.definition import WorkflowDefinition


class UnknownJobError(Refusal):
    """No such job."""

    def __init__(self, job_id: str) -> None:
        super().__init__(
            Kind.NOT_FOUND, "not_found", f"there is no job {job_id!r}", remedy="`GET /api/v1/jobs` lists them."
        )


class JobNotFinishedError(Refusal):
    """Only finished jobs can be rerun; in a running job, retry a node instead."""

    def __init__(self, message: str) -> None:
        remedy = "Wait for its end, cancel it, or retry one node of it."
        super().__init__(Kind.CONFLICT, "job_not_finished", message, remedy=remedy)


class NothingToRerunError(Refusal):
    """All nodes have succeeded and no node was selected."""

    def __init__(self, message: str) -> None:
        remedy = "Rerun it with `everything` or `from_nodes`."
        super().__init__(Kind.CONFLICT, "nothing_to_rerun", message, remedy=remedy)


class UnknownNodeError(Refusal):
    """The rerun should begin at a node that the workflow does not have."""

    def __init__(self, message: str) -> None:
        super().__init__(Kind.UNKNOWN_NAME, "unknown_node", message, pointer="/from_nodes")


@dataclass(slots=True, frozen=True)
class PlannedRerun:
    """A finished job, the parameters of its rerun, and the nodes that run again."""

    job: reruns.FinishedJob
    definition: WorkflowDefinition
    input_params: dict[str, Any]
    scope: RerunScope

    @property
    def shown_params(self) -> dict[str, Any]:
        """The parameters as people may see them."""
        return shown_inputs(self.definition, self.input_params)


def plan_rerun_of(
    conn: Conn,
    job_id: str,
    *,
    namespace: str = "default",
    changed_params: Mapping[str, Any] | None = None,
    from_nodes: Collection[str] = (),
    everything: bool = False,
    complete: Completion = complete_inputs,
) -> PlannedRerun:
    """What `rerun_job` would do: nothing, if all nodes succeeded and none was selected. Raises ChecksNeeded if
    `complete` does.
    """
    job = reruns.read_job(conn, namespace, job_id)
    if job is None:
        raise UnknownJobError(job_id)
    if job.status not in JOB_TERMINAL:
        raise JobNotFinishedError(f"job {job_id} is {job.status}; only a finished job can be rerun")
    key = (namespace, job.workflow_id, job.workflow_version, job.workflow_hash)
    definition = definition_of(conn, *key)
    changed = check_inputs(changed_params or {})
    try:
        params = complete(definition, {**job.input_params, **changed}, with_references=True)
    except CheckNeeded as check:
        raise ChecksNeeded([check]) from None
    if job.status is JobStatus.COMPLETED and not from_nodes and not everything and params == job.input_params:
        return PlannedRerun(job, definition, params, RerunScope((), tuple(definition.nodes), ()))
    outcomes = reruns.node_outcomes(conn, job_id)
    # Queues are not needed here, and may be unknown.
    plan = plan_of(conn, *key, lambda _: "any")
    try:
        scope = plan_rerun(
            plan,
            {node_id: outcome.status for node_id, outcome in outcomes.items()},
            old_params=job.input_params,
            new_params=params,
            from_nodes=from_nodes,
            everything=everything,
        )
    except RerunError as error:
        raise UnknownNodeError(str(error)) from None
    return PlannedRerun(job, definition, params, scope)


def rerun_job(
    conn: Conn,
    planned: PlannedRerun,
    *,
    issued_by: str,
    idempotency_key: str | None = None,
    source_app: str = "cli",
    most_priority: int = HIGHEST_PRIORITY,
) -> Submitted:
    """Create the new job; the same idempotency key returns the first one. Its priority is lowered to the highest that
    the caller may use. Raises AssetConflict if the job's asset is being processed, or deleted.
    """
    old = planned.job
    if not planned.scope.again:
        raise NothingToRerunError(f"job {old.job_id} is {old.status} and nothing in it needs to run again")
    content = {"rerun_of": old.job_id, "input_params": planned.shown_params, "again": planned.scope.again}
    digest = hashlib.sha256(orjson.dumps(content, option=orjson.OPT_SORT_KEYS)).hexdigest()
    row = job_row(
        new_id(),
        workflows.WorkflowHead(old.workflow_id, old.workflow_version, old.workflow_hash),
        sealed_inputs(conn, old.namespace, planned.definition, planned.input_params),
        namespace=old.namespace,
        submitted_by=issued_by,
        priority=min(old.priority, most_priority),
        fairness_key=old.fairness_key,
        root_job_id=old.root_job_id,
        metadata={
            "rerun": {"again": list(planned.scope.again), "keeps_children": list(planned.scope.keeps_children)},
            **({} if idempotency_key is None else {jobs.DIGEST: digest}),
        },
        labels=labels_of(conn, old.namespace, old.job_id),
    )
    row |= {
        "rerun_of": old.job_id,
        "idempotency_key": idempotency_key,
        "correlation_id": old.correlation_id,
        "callback_url": old.callback_url,
        "request_id": old.request_id,
    }
    with conn.transaction():
        if not reruns.lock_reruns(conn, old.job_id):
            raise UnknownJobError(old.job_id)
        unpublished = assets.unpublished_revision_of(conn, old.job_id)
        if unpublished is not None and old.asset_id is not None:
            is_reused = bool(planned.scope.reused or planned.scope.keeps_children)
            refusal = "results that refer to them cannot be reused"
            check_files_kept(old.asset_id, unpublished, is_unpublished=is_reused, what=refusal)
        if _insert(conn, planned, row, issued_by, source_app):
            payloads.copy_uses(conn, old.namespace, old.job_id, row["job_id"])
            reruns.record_rerun(
                conn,
                old.namespace,
                old.job_id,
                new_job_id=row["job_id"],
                issued_by=issued_by,
                source_app=source_app,
            )
            return Submitted(row["job_id"])
    assert idempotency_key is not None
    key = (issued_by, idempotency_key)
    there = jobs.find_by_idempotency_keys(conn, old.namespace, [key]).get(key)
    if there is None or there.digest != digest:
        raise OtherSubmissionError(
            f"idempotency key {idempotency_key!r} was used for another submission; choose a new key"
        )
    return Submitted(there.job_id, True)


def _insert(conn: Conn, planned: PlannedRerun, row: dict[str, Any], issued_by: str, source_app: str) -> bool:
    """Insert the job, and the next revision if it creates an asset; its requests follow. False if the key was used."""
    old = planned.job
    revision = None
    if old.asset_id is None:
        is_new = bool(jobs.insert_jobs(conn, [row], source_app))
    else:
        locked = assets.lock_asset(conn, old.namespace, old.asset_id)
        assert locked is not None, "assets are never removed"
        key = row["idempotency_key"]
        if key is not None and jobs.find_by_idempotency_keys(conn, old.namespace, [(issued_by, key)]):
            return False
        check_free(state_of(locked), "the job cannot be rerun now")
        revision = locked.latest_revision + 1
        assert old.revision is not None, "a job with an asset makes a revision"
        label = assets.version_label_of(conn, RevisionKey(old.namespace, old.asset_id, old.revision))
        is_new = make_revision(
            conn,
            RevisionKey(old.namespace, old.asset_id, revision),
            row,
            planned.definition,
            params_digest=params_digest_of(old.workflow_id, hide_secrets(row["input_params"]), label),
            version_label=label,
            created_by=issued_by,
            source_app=source_app,
        )
    if is_new:
        assets.move_requests(conn, old.namespace, old.job_id, row["job_id"], revision)
    return is_new
