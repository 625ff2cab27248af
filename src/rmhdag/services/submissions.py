"""How a job is created: its parameters are checked against the pinned definition; one row, one event."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple, Protocol

import orjson

from rmhdag.engine.outputs import summarise
from rmhdag.models.references import HIDDEN, is_secret, references_in
from rmhdag.models.refusals import Kind, Refusal
from rmhdag.observability.traces import current_trace_parent
from rmhdag.services.callbacks.destinations import PUBLIC_ONLY, Rules, check_callback_url
from rmhdag.services.fitness import refuse_unfit
from rmhdag.services.plans import definition_of
from rmhdag.store import jobs, workflows
from rmhdag.store.connection import Conn
from rmhdag.store.identity import new_id
from rmhdag.store.secret_inputs import seal_inputs
from rmhdag.workflow.definition import WorkflowDefinition
from rmhdag.workflow.inputs import complete_declared, declared_inputs, limit_inputs
from rmhdag.workflow.problems import did_you_mean


class UnknownWorkflowError(Refusal):
    """No such workflow or version. `versions` are the newest versions of all workflows."""

    def __init__(self, workflow_id: str, version: int | None, versions: Mapping[str, int]) -> None:
        newest = versions.get(workflow_id)
        message, remedy = f"there is no workflow {workflow_id!r}", None
        if newest is not None:
            message, remedy = f"{message} version {version}", f"The newest version is {newest}."
        elif versions:
            remedy = did_you_mean(workflow_id, versions)
        pointer = "/workflow_id" if newest is None else "/version"
        super().__init__(Kind.NOT_FOUND, "unknown_workflow", message, remedy=remedy, pointer=pointer)


class RetiredWorkflowError(Refusal):
    """The workflow accepts no new jobs."""

    def __init__(self, workflow_id: str) -> None:
        super().__init__(
            Kind.CONFLICT,
            "workflow_retired",
            f"workflow {workflow_id!r} is retired and accepts no new jobs",
            remedy="`POST /api/v1/workflows/{workflow_id}/restore` brings it back; a newer version can be registered.",
            pointer="/workflow_id",
        )


class OtherSubmissionError(Refusal):
    """The idempotency key was used for something else."""

    def __init__(self, message: str) -> None:
        super().__init__(Kind.REUSED, "idempotency_key_reused", message, pointer="/idempotency_key")


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A job to create. `submitted_by` is the person on whose behalf it is submitted."""

    workflow_id: str
    input_params: Mapping[str, Any]
    submitted_by: str
    version: int | None = None
    priority: int = 0
    fairness_key: str | None = None
    idempotency_key: str | None = None
    correlation_id: str | None = None
    callback_url: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)

    def digest(self) -> str:
        """Digest of the whole submission: a repeated key must come with the same content."""
        content = {name: getattr(self, name) for name in self.__slots__}
        if not self.labels:
            # As versions of rmhdag that knew no labels made it.
            del content["labels"]
        return hashlib.sha256(orjson.dumps(content, option=orjson.OPT_SORT_KEYS)).hexdigest()


# Columns of the job that are what the submission says.
STORED_AS_GIVEN = ("idempotency_key", "correlation_id")


class Submitted(NamedTuple):
    """`is_repeat`: a job with the same idempotency key existed already."""

    job_id: str
    is_repeat: bool = False


def complete_inputs(
    definition: WorkflowDefinition, params: Mapping[str, Any], *, with_references: bool = False
) -> dict[str, Any]:
    """The parameters of a job: declared, with defaults, and within the size limit.

    The only check for submitted jobs, reruns and child jobs. Raises InvalidInputs.
    """
    return complete_declared(declared_inputs(definition), dict(params), with_references=with_references)


class Completion(Protocol):
    """`complete_inputs`, or a function that checks in another process and raises CheckNeeded until that is done."""

    def __call__(
        self, definition: WorkflowDefinition, params: Mapping[str, Any], *, with_references: bool = False
    ) -> dict[str, Any]: ...


class CheckNeeded(Exception):
    """The parameters take too long to check in this process; `what` tells the checking process what to do."""

    def __init__(self, what: Any) -> None:
        super().__init__("parameters have to be checked first")
        self.what = what


class ChecksNeeded(Exception):
    """Nothing was done: these checks must come first."""

    def __init__(self, checks: Sequence[CheckNeeded]) -> None:
        super().__init__(f"{len(checks)} parameters have to be checked first")
        self.checks = checks


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
    submission = Submission(workflow_id=workflow_id, input_params=input_params, submitted_by=submitted_by, **more)
    answer = submit_many(conn, [submission], namespace=namespace, callback_rules=callback_rules, source_app=source_app)[
        0
    ]
    if not isinstance(answer, Submitted):
        raise answer
    return answer.job_id


def submit_many(
    conn: Conn,
    submissions: Sequence[Submission],
    *,
    namespace: str = "default",
    callback_rules: Rules = PUBLIC_ONLY,
    source_app: str = "api",
    complete: Completion = complete_inputs,
) -> list[Submitted | Refusal]:
    """One answer per submission, in order; one statement in one transaction creates all valid jobs.

    Raises ChecksNeeded before anything is created if `complete` requires it.
    A repetition is recognised before it is checked: it returns the first job even if the workflow has changed.
    """
    answers: list[Submitted | Refusal | None] = list(_repeats(conn, namespace, submissions))
    open_places = [place for place, answer in enumerate(answers) if answer is None]
    stored = _current(conn, namespace, [submissions[place] for place in open_places])
    newest = _newest_versions(conn, namespace)
    rows: dict[int, dict[str, Any]] = {}
    needed: list[CheckNeeded] = []
    for place in open_places:
        try:
            rows[place] = _row_of(conn, namespace, submissions[place], stored, newest, callback_rules, complete)
        # Without tracebacks, whose frames hold this list: a cycle would keep megabytes of parameters in memory.
        except CheckNeeded as check:
            needed.append(check.with_traceback(None))
        except Refusal as refusal:
            answers[place] = refusal.with_traceback(None)
    if needed:
        raise ChecksNeeded(needed)
    inserted = jobs.insert_jobs(conn, list(rows.values()), source_app) if rows else set()
    beaten = []
    for place, row in rows.items():
        if row["job_id"] in inserted:
            answers[place] = Submitted(row["job_id"])
        else:
            beaten.append(place)
    # Another caller used the key meanwhile, or it occurs twice in this call.
    if beaten:
        for place, answer in zip(
            beaten, _repeats(conn, namespace, [submissions[place] for place in beaten]), strict=True
        ):
            answers[place] = answer or _other(submissions[place])
    return [answer for answer in answers if answer is not None]


def _repeats(
    conn: Conn, namespace: str, submissions: Sequence[Submission]
) -> list[Submitted | OtherSubmissionError | None]:
    """The earlier job of each submission, found by its idempotency key."""
    keys = [
        (submission.submitted_by, submission.idempotency_key)
        for submission in submissions
        if submission.idempotency_key is not None
    ]
    there = jobs.find_by_idempotency_keys(conn, namespace, keys)
    answers: list[Submitted | OtherSubmissionError | None] = []
    for submission in submissions:
        earlier = (
            None
            if submission.idempotency_key is None
            else there.get((submission.submitted_by, submission.idempotency_key))
        )
        if earlier is None:
            answers.append(None)
        else:
            answers.append(
                Submitted(earlier.job_id, True) if earlier.digest == submission.digest() else _other(submission)
            )
    return answers


def _other(submission: Submission) -> OtherSubmissionError:
    return OtherSubmissionError(
        f"idempotency key {submission.idempotency_key!r} was used for another submission; choose a new key"
    )


Wanted = tuple[str, int | None]


def _current(conn: Conn, namespace: str, submissions: Sequence[Submission]) -> dict[Wanted, workflows.WorkflowHead]:
    return workflows.current_heads(
        conn, namespace, {(submission.workflow_id, submission.version) for submission in submissions}
    )


def _newest_versions(conn: Conn, namespace: str) -> Callable[[], Mapping[str, int]]:
    """The newest version of each workflow; read once, on first use."""
    return cache(lambda: workflows.newest_versions(conn, namespace))


def new_job_row(
    conn: Conn, namespace: str, submission: Submission, rules: Rules, complete: Completion = complete_inputs
) -> dict[str, Any]:
    """The row of a job that is inserted together with other rows. Raises a Refusal, or ChecksNeeded."""
    try:
        current, newest = _current(conn, namespace, [submission]), _newest_versions(conn, namespace)
        return _row_of(conn, namespace, submission, current, newest, rules, complete)
    except CheckNeeded as check:
        raise ChecksNeeded([check]) from None


def find_repeat(conn: Conn, namespace: str, submission: Submission) -> Submitted | OtherSubmissionError | None:
    """The job that an earlier submission with the same idempotency key has created."""
    return _repeats(conn, namespace, [submission])[0]


def find_definition(conn: Conn, namespace: str, workflow_id: str, version: int | None) -> WorkflowDefinition:
    """The definition that a submission would run. Raises a Refusal."""
    name = (workflow_id, version)
    head = _usable(workflows.current_heads(conn, namespace, {name}), name, _newest_versions(conn, namespace))
    definition = definition_of(conn, namespace, head.workflow_id, head.version, head.hash)
    refuse_unfit(conn, namespace, head, definition)
    return definition


def _usable(
    stored: Mapping[Wanted, workflows.WorkflowHead], name: Wanted, newest: Callable[[], Mapping[str, int]]
) -> workflows.WorkflowHead:
    head = stored.get(name)
    if head is None:
        raise UnknownWorkflowError(*name, newest())
    if head.retired_at is not None:
        raise RetiredWorkflowError(head.workflow_id)
    return head


def _row_of(
    conn: Conn,
    namespace: str,
    submission: Submission,
    stored: Mapping[Wanted, workflows.WorkflowHead],
    newest: Callable[[], Mapping[str, int]],
    rules: Rules,
    complete: Completion,
) -> dict[str, Any]:
    head = _usable(stored, (submission.workflow_id, submission.version), newest)
    definition = definition_of(conn, namespace, head.workflow_id, head.version, head.hash)
    refuse_unfit(conn, namespace, head, definition)
    params = complete(definition, submission.input_params)
    row = job_row(
        new_id(),
        head,
        sealed_inputs(conn, namespace, definition, params),
        namespace=namespace,
        submitted_by=submission.submitted_by,
        priority=submission.priority,
        fairness_key=submission.fairness_key,
        metadata=None if submission.idempotency_key is None else {jobs.DIGEST: submission.digest()},
        labels=submission.labels,
    )
    return row | {
        **{name: getattr(submission, name) for name in STORED_AS_GIVEN},
        "callback_url": None
        if submission.callback_url is None
        else check_callback_url(submission.callback_url, rules.for_namespace(namespace)),
    }


def secret_inputs(definition: WorkflowDefinition) -> list[str]:
    return [name for name, declared in definition.inputs.items() if declared.secret]


def sealed_inputs(conn: Conn, namespace: str, definition: WorkflowDefinition, params: dict[str, Any]) -> dict[str, Any]:
    """The parameters as stored in the row of a job."""
    names = secret_inputs(definition)
    return seal_inputs(conn, namespace, names, params) if names else params


def shown_inputs(definition: WorkflowDefinition, params: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters as people may see them, encrypted or not."""
    names = secret_inputs(definition)
    return {name: HIDDEN if name in names and value is not None else value for name, value in params.items()}


def check_inputs(params: Mapping[str, Any]) -> dict[str, Any]:
    """Check parameters from outside: JSON without references, within the size limit. Raises InvalidInputs."""
    return limit_inputs(dict(params))


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
    payloads: Sequence[str] = (),
    labels: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """A row for `insert_jobs`. It belongs to the current trace, unless another one is named. `payloads` are the hashes
    of what it needs besides its secrets."""
    trace_parent = trace_parent or current_trace_parent()
    secrets = [reference.sha256 for value in params.values() if is_secret(value) for reference in references_in(value)]
    needed = [*secrets, *payloads]
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
        # Parameters in the audit trail: without secrets, and short.
        "shown_params": summarise(params),
        **({"payloads": needed} if needed else {}),
        **({"labels": dict(labels)} if labels else {}),
    }
