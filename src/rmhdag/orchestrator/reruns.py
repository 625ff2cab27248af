"""A rerun from both sides: the new job that somebody asks for, and what it brings along when it begins (SPEC E8)."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import orjson
import psycopg

from rmhdag.assets.revisions import check_free, params_digest_of
from rmhdag.engine.inputs import Output, ReusedNode, Start
from rmhdag.engine.plan import Plan
from rmhdag.engine.rerun import RerunScope, plan_rerun
from rmhdag.engine.waiting import child_job_id
from rmhdag.models.data_warnings import WarningSum
from rmhdag.models.references import hide_secrets
from rmhdag.models.states import JOB_TERMINAL, JobStatus, NodeStatus, NodeType
from rmhdag.orchestrator.definitions import definition_of
from rmhdag.orchestrator.requests import make_revision, state_of
from rmhdag.orchestrator.stored_outputs import read_output
from rmhdag.orchestrator.submissions import (
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
from rmhdag.store.asset_states import RevisionKey
from rmhdag.store.identity import new_id
from rmhdag.workflow.definition import WorkflowDefinition

Conn = psycopg.Connection[Any]


class UnknownJobError(Exception):
    """No such job."""


class JobNotFinishedError(Exception):
    """Only a finished job is rerun; in a running one a node is retried."""


class NothingToRerunError(Exception):
    """All is finished and nothing was asked for anew."""


@dataclass(slots=True, frozen=True)
class PlannedRerun:
    """A finished job, the parameters of its rerun, and what the rerun does again."""

    job: reruns.FinishedJob
    definition: WorkflowDefinition
    input_params: dict[str, Any]
    scope: RerunScope

    @property
    def shown_params(self) -> dict[str, Any]:
        """As people may see them."""
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
    """What `rerun_job` would do: nothing, if all went well and nothing else was asked for. Raises ChecksNeeded if
    `complete` asks for it.
    """
    job = reruns.read_job(conn, namespace, job_id)
    if job is None:
        raise UnknownJobError(f"there is no job {job_id}")
    if job.status not in JOB_TERMINAL:
        raise JobNotFinishedError(f"job {job_id} is {job.status}; only a finished job can be rerun")
    definition = definition_of(conn, namespace, job.workflow_id, job.workflow_version, job.workflow_hash)
    changed = check_inputs(changed_params or {})
    try:
        params = complete(definition, {**job.input_params, **changed}, with_references=True)
    except CheckNeeded as check:
        raise ChecksNeeded([check]) from None
    if job.status is JobStatus.COMPLETED and not from_nodes and not everything and params == job.input_params:
        return PlannedRerun(job, definition, params, RerunScope((), tuple(definition.nodes), ()))
    outcomes = reruns.node_outcomes(conn, job_id)
    # Queues are of no interest here, and perhaps not known.
    plan = Plan(definition, _AnyQueue())
    scope = plan_rerun(
        plan,
        {node_id: outcome.status for node_id, outcome in outcomes.items()},
        old_params=job.input_params,
        new_params=params,
        from_nodes=from_nodes,
        everything=everything,
    )
    return PlannedRerun(job, definition, params, scope)


def rerun_job(
    conn: Conn,
    planned: PlannedRerun,
    *,
    issued_by: str,
    idempotency_key: str | None = None,
    source_app: str = "cli",
) -> Submitted:
    """Create the new job; the same idempotency key returns the first one. Raises AssetConflict if the job's asset is
    being processed, or deleted."""
    old = planned.job
    if not planned.scope.again:
        raise NothingToRerunError(f"job {old.job_id} is {old.status} and nothing in it needs to run again")
    asked = {"rerun_of": old.job_id, "input_params": planned.shown_params, "again": planned.scope.again}
    digest = hashlib.sha256(orjson.dumps(asked, option=orjson.OPT_SORT_KEYS)).hexdigest()
    row = job_row(
        new_id(),
        workflows.WorkflowHead(old.workflow_id, old.workflow_version, old.workflow_hash),
        sealed_inputs(conn, old.namespace, planned.definition, planned.input_params),
        namespace=old.namespace,
        submitted_by=issued_by,
        priority=old.priority,
        fairness_key=old.fairness_key,
        root_job_id=old.root_job_id,
        metadata={
            "rerun": {"again": list(planned.scope.again), "keeps_children": list(planned.scope.keeps_children)},
            **({} if idempotency_key is None else {jobs.DIGEST: digest}),
        },
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
            raise UnknownJobError(f"job {old.job_id} was deleted by retention a moment ago")
        if _insert(conn, old, row, issued_by, source_app):
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


def _insert(conn: Conn, old: reruns.FinishedJob, row: dict[str, Any], issued_by: str, source_app: str) -> bool:
    """The job, and the next revision if it makes an asset; its requests follow. False: the key was used."""
    revision = None
    if old.asset_id is None:
        made = bool(jobs.insert_jobs(conn, [row], source_app))
    else:
        locked = assets.lock_asset(conn, old.namespace, old.asset_id)
        assert locked is not None, "assets are never removed"
        key = row["idempotency_key"]
        if key is not None and jobs.find_by_idempotency_keys(conn, old.namespace, [(issued_by, key)]):
            return False
        check_free(state_of(locked), "the job cannot be rerun now")
        revision = locked.latest_revision + 1
        made = make_revision(
            conn,
            RevisionKey(old.namespace, old.asset_id, revision),
            row,
            params_digest=params_digest_of(old.workflow_id, hide_secrets(row["input_params"])),
            created_by=issued_by,
            source_app=source_app,
        )
    if made:
        assets.move_requests(conn, old.namespace, old.job_id, row["job_id"], revision)
    return made


def start_of(conn: Conn, namespace: str, rerun_of: str, rerun: Mapping[str, Any], plan: Plan) -> Start:
    """What a rerun begins with. If the old job is gone by now, nothing can be taken over and everything runs."""
    outcomes = reruns.node_outcomes(conn, rerun_of)
    again = set(rerun["again"])
    kept = {
        node.node_id: outcomes[node.node_id]
        for node in plan.nodes
        if node.node_id not in again and node.node_id in outcomes
    }
    wanted = [
        outcome.task_id
        for node_id, outcome in kept.items()
        if outcome.task_id is not None and plan.by_id[node_id].type is NodeType.TASK and plan.by_id[node_id].reads
    ]
    results = jobs.load_outputs(conn, wanted)
    reused = {}
    for node_id, outcome in kept.items():
        value = results.get(outcome.task_id or "") if plan.by_id[node_id].type is NodeType.TASK else outcome.output
        output: Output | None = None
        if value is not None and outcome.status is NodeStatus.COMPLETED:
            output = read_output(conn, plan, namespace, node_id, value)
        reused[node_id] = ReusedNode(outcome.status, outcome.task_id, output)
    children = reruns.finished_children(conn, rerun_of, rerun["keeps_children"])
    return Start(reused, children, _reused_warnings(conn, rerun_of, kept, children, plan))


def _reused_warnings(
    conn: Conn,
    rerun_of: str,
    kept: Mapping[str, reruns.NodeOutcome],
    children: Mapping[str, Mapping[int, str]],
    plan: Plan,
) -> list[dict[str, Any]]:
    """Of all that is taken over; looked for only if the old job had any."""
    if not jobs.load_warnings(conn, rerun_of):
        return []
    by_type: dict[NodeType, list[reruns.NodeOutcome]] = {}
    for outcome in kept.values():
        if outcome.status is NodeStatus.COMPLETED:
            by_type.setdefault(plan.by_id[outcome.node_id].type, []).append(outcome)
    whole = [outcome.node_id for outcome in by_type.get(NodeType.FAN_OUT, ())]
    task_ids = [outcome.task_id for outcome in by_type.get(NodeType.TASK, ()) if outcome.task_id is not None]
    for found in (children, reruns.finished_children(conn, rerun_of, whole)):
        task_ids += [task_id for tasks in found.values() for task_id in tasks.values()]
    total = WarningSum(reruns.warnings_of_tasks(conn, task_ids))
    for outcome in by_type.get(NodeType.WORKFLOW, ()):
        if outcome.task_id is not None:
            total.add(jobs.load_warnings(conn, child_job_id(outcome.task_id)))
    return total.as_json()


class _AnyQueue(dict[str, str]):
    def get(self, key: str, default: Any = None) -> str:
        return "any"
