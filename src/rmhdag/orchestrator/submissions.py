"""How a job comes to be: parameters checked against the pinned definition, one row, one event."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import orjson
import psycopg
from pydantic import ValidationError

from rmhdag.engine.effects import ChildJobRequested
from rmhdag.engine.outputs import summarise
from rmhdag.models.limits import REASON_CHARACTERS
from rmhdag.models.references import HIDDEN, is_secret, references_in
from rmhdag.observability.traces import current_trace_parent
from rmhdag.orchestrator.callbacks.destinations import PUBLIC_ONLY, CallbackRefused, Rules, check_callback_url
from rmhdag.orchestrator.definitions import definition_of
from rmhdag.orchestrator.fitness import UnfitWorkflowError, refuse_unfit
from rmhdag.orchestrator.large_values import shrink_inputs
from rmhdag.orchestrator.owned_jobs import OwnedJob
from rmhdag.store import jobs, workflows
from rmhdag.store.identity import new_id
from rmhdag.store.secret_inputs import seal_inputs
from rmhdag.workflow import InvalidInputs
from rmhdag.workflow.definition import WorkflowDefinition
from rmhdag.workflow.inputs import complete_declared, declared_inputs, limit_inputs
from rmhdag.workflow.patterns import MAX_WORK

Conn = psycopg.Connection[Any]


class UnknownWorkflowError(Exception):
    """No such workflow, or not that version."""


class RetiredWorkflowError(Exception):
    """It takes no new jobs."""

    def __init__(self, workflow_id: str) -> None:
        super().__init__(f"workflow {workflow_id!r} is retired and takes no new jobs")


class ChildJobRefused(UnknownWorkflowError):
    """A child job that cannot be made; the reason is short enough for the inbox of its parent."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason[:REASON_CHARACTERS])


class OtherSubmissionError(Exception):
    """The idempotency key was used for something else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """What somebody wants to run. `submitted_by` is in whose name."""

    workflow_id: str
    input_params: Mapping[str, Any]
    submitted_by: str
    version: int | None = None
    priority: int = 0
    fairness_key: str | None = None
    idempotency_key: str | None = None
    correlation_id: str | None = None
    callback_url: str | None = None

    def digest(self) -> str:
        """Of everything that was asked for: whoever repeats a key must ask for the same again."""
        asked = {name: getattr(self, name) for name in self.__slots__}
        return hashlib.sha256(orjson.dumps(asked, option=orjson.OPT_SORT_KEYS)).hexdigest()


class Submitted(NamedTuple):
    """`is_repeat`: the job was there already, by the same idempotency key."""

    job_id: str
    is_repeat: bool = False


def complete_inputs(
    definition: WorkflowDefinition,
    params: Mapping[str, Any],
    *,
    with_references: bool = False,
    pattern_work: int = MAX_WORK,
) -> dict[str, Any]:
    """The parameters that a job gets: declared, with defaults, and with these no larger than a job may be given.

    The one check for jobs of people, reruns and child jobs. Raises InvalidInputs.
    """
    return complete_declared(
        declared_inputs(definition), dict(params), with_references=with_references, pattern_work=pattern_work
    )


class Completion(Protocol):
    """`complete_inputs`, or what does the same elsewhere and raises CheckNeeded until it was done there."""

    def __call__(
        self, definition: WorkflowDefinition, params: Mapping[str, Any], *, with_references: bool = False
    ) -> dict[str, Any]: ...


class CheckNeeded(Exception):
    """Parameters that take too long to be checked here and now; `what` is for whoever checks them."""

    def __init__(self, what: Any) -> None:
        super().__init__("parameters have to be checked first")
        self.what = what


class ChecksNeeded(Exception):
    """Nothing was done: these come first."""

    def __init__(self, checks: Sequence[CheckNeeded]) -> None:
        super().__init__(f"{len(checks)} parameters have to be checked first")
        self.checks = checks


Refusal = (
    UnknownWorkflowError
    | RetiredWorkflowError
    | UnfitWorkflowError
    | OtherSubmissionError
    | InvalidInputs
    | CallbackRefused
)


def submit(
    conn: Conn,
    workflow_id: str,
    input_params: Mapping[str, Any],
    *,
    submitted_by: str,
    namespace: str = "default",
    callback_rules: Rules = PUBLIC_ONLY,
    source_app: str = "cli",
    **more: Any,
) -> str:
    """Create a job and return its id; the same idempotency key with the same content returns the first one's.

    `more` are the other fields of a `Submission`.
    """
    wanted = Submission(workflow_id=workflow_id, input_params=input_params, submitted_by=submitted_by, **more)
    answer = submit_many(conn, [wanted], namespace=namespace, callback_rules=callback_rules, source_app=source_app)[0]
    if not isinstance(answer, Submitted):
        raise answer
    return answer.job_id


def submit_many(
    conn: Conn,
    wanted: Sequence[Submission],
    *,
    namespace: str = "default",
    callback_rules: Rules = PUBLIC_ONLY,
    source_app: str = "api",
    complete: Completion = complete_inputs,
) -> list[Submitted | Refusal]:
    """One answer per submission, in their order; all jobs that can be are made by one statement of one transaction.

    Raises ChecksNeeded, before anything is made, if `complete` asks for it.
    A repeat is recognised before it is checked: the first one's job is the answer even if the workflow has changed.
    """
    answers: list[Submitted | Refusal | None] = list(_repeats(conn, namespace, wanted))
    open_places = [place for place, answer in enumerate(answers) if answer is None]
    stored = _current(conn, namespace, [wanted[place] for place in open_places])
    rows: dict[int, dict[str, Any]] = {}
    needed: list[CheckNeeded] = []
    for place in open_places:
        try:
            rows[place] = _row_of(conn, namespace, wanted[place], stored, callback_rules, complete)
        except CheckNeeded as check:
            needed.append(check)
        except (
            UnknownWorkflowError,
            RetiredWorkflowError,
            UnfitWorkflowError,
            InvalidInputs,
            CallbackRefused,
        ) as refusal:
            answers[place] = refusal
    if needed:
        raise ChecksNeeded(needed)
    inserted = jobs.insert_jobs(conn, list(rows.values()), source_app) if rows else set()
    beaten = []
    for place, row in rows.items():
        if row["job_id"] in inserted:
            answers[place] = Submitted(row["job_id"])
        else:
            beaten.append(place)
    # Somebody else used the key in between, or it stands twice in this very call.
    if beaten:
        for place, answer in zip(beaten, _repeats(conn, namespace, [wanted[place] for place in beaten]), strict=True):
            answers[place] = answer or _other(wanted[place])
    return [answer for answer in answers if answer is not None]


def _repeats(conn: Conn, namespace: str, wanted: Sequence[Submission]) -> list[Submitted | OtherSubmissionError | None]:
    """What is known of each by its idempotency key."""
    keys = [(one.submitted_by, one.idempotency_key) for one in wanted if one.idempotency_key is not None]
    there = jobs.find_by_idempotency_keys(conn, namespace, keys)
    found: list[Submitted | OtherSubmissionError | None] = []
    for one in wanted:
        earlier = None if one.idempotency_key is None else there.get((one.submitted_by, one.idempotency_key))
        if earlier is None:
            found.append(None)
        else:
            found.append(Submitted(earlier.job_id, True) if earlier.digest == one.digest() else _other(one))
    return found


def _other(wanted: Submission) -> OtherSubmissionError:
    return OtherSubmissionError(
        f"idempotency key {wanted.idempotency_key!r} was used for another submission; choose a new key"
    )


Wanted = tuple[str, int | None]


def _current(conn: Conn, namespace: str, wanted: Sequence[Submission]) -> dict[Wanted, workflows.WorkflowHead]:
    return workflows.current_heads(conn, namespace, {(one.workflow_id, one.version) for one in wanted})


def new_job_row(
    conn: Conn, namespace: str, wanted: Submission, rules: Rules, complete: Completion = complete_inputs
) -> dict[str, Any]:
    """The row of a job that is inserted together with other things. Raises a Refusal, or ChecksNeeded."""
    try:
        return _row_of(conn, namespace, wanted, _current(conn, namespace, [wanted]), rules, complete)
    except CheckNeeded as check:
        raise ChecksNeeded([check]) from None


def _row_of(
    conn: Conn,
    namespace: str,
    wanted: Submission,
    stored: Mapping[Wanted, workflows.WorkflowHead],
    rules: Rules,
    complete: Completion,
) -> dict[str, Any]:
    head = stored.get((wanted.workflow_id, wanted.version))
    if head is None:
        named = wanted.workflow_id if wanted.version is None else f"{wanted.workflow_id} version {wanted.version}"
        raise UnknownWorkflowError(f"there is no workflow {named!r}; `rmhdag workflows` lists them")
    if head.retired_at is not None:
        raise RetiredWorkflowError(head.workflow_id)
    definition = definition_of(conn, namespace, head.workflow_id, head.version, head.hash)
    refuse_unfit(conn, namespace, head, definition)
    params = complete(definition, wanted.input_params)
    row = job_row(
        new_id(),
        head,
        sealed_inputs(conn, namespace, definition, params),
        namespace=namespace,
        submitted_by=wanted.submitted_by,
        priority=wanted.priority,
        fairness_key=wanted.fairness_key,
        metadata=None if wanted.idempotency_key is None else {jobs.DIGEST: wanted.digest()},
    )
    return row | {
        "idempotency_key": wanted.idempotency_key,
        "correlation_id": wanted.correlation_id,
        "callback_url": None
        if wanted.callback_url is None
        else check_callback_url(wanted.callback_url, rules.for_namespace(namespace)),
    }


def secret_inputs(definition: WorkflowDefinition) -> list[str]:
    return [name for name, declared in definition.inputs.items() if declared.secret]


def sealed_inputs(conn: Conn, namespace: str, definition: WorkflowDefinition, params: dict[str, Any]) -> dict[str, Any]:
    """As the row of a job holds them."""
    names = secret_inputs(definition)
    return seal_inputs(conn, namespace, names, params) if names else params


def shown_inputs(definition: WorkflowDefinition, params: Mapping[str, Any]) -> dict[str, Any]:
    """As people may see them, sealed or not."""
    names = secret_inputs(definition)
    return {name: HIDDEN if name in names and value is not None else value for name, value in params.items()}


def check_inputs(params: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters from outside: JSON without references, no larger than a job may be given. Raises InvalidInputs."""
    return limit_inputs(dict(params))


def child_job_row(conn: Conn, parent: OwnedJob, wanted: ChildJobRequested) -> dict[str, Any]:
    """The row of a child job, on behalf of the submitter of the parent. Raises ChildJobRefused."""
    stored = workflows.current_workflow(conn, parent.namespace, wanted.workflow_id, wanted.workflow_version)
    if stored is None:
        raise ChildJobRefused(f"there is no workflow {wanted.workflow_id!r} to run as a child job")
    try:
        definition = WorkflowDefinition.model_validate(stored.definition)
    except ValidationError as error:
        raise ChildJobRefused(
            f"workflow {wanted.workflow_id!r} version {stored.version} cannot be read by this orchestrator; "
            f"was it registered by a newer rmhdag? {error.errors()[0]['msg']}"
        ) from None
    try:
        params = complete_inputs(definition, wanted.input_params, with_references=True)
    except InvalidInputs as error:
        raise ChildJobRefused(str(error)) from None
    return job_row(
        wanted.child_job_id,
        stored,
        shrink_inputs(conn, parent.namespace, wanted.child_job_id, params),
        namespace=parent.namespace,
        submitted_by=parent.submitted_by,
        priority=parent.priority,
        fairness_key=parent.fairness_key,
        depth=wanted.depth,
        root_job_id=parent.root_job_id,
        parent=(parent.job_id, wanted.node_id),
        trace_parent=parent.trace_parent,
    )


def job_row(
    job_id: str,
    stored: workflows.WorkflowHead | workflows.StoredWorkflow,
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
    trace_parent: str | None = None,
) -> dict[str, Any]:
    """A row of `insert_jobs`. It belongs to the trace of whoever makes it, unless another one is named."""
    trace_parent = trace_parent or current_trace_parent()
    secret = [reference.sha256 for value in params.values() if is_secret(value) for reference in references_in(value)]
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
        "metadata": (metadata or {}) | ({"trace_parent": trace_parent} if trace_parent else {}),
        # What the audit trail says of parameters: never a secret, never much.
        "shown_params": summarise(params),
        **({"secrets": secret} if secret else {}),
    }
