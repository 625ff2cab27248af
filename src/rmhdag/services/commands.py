"""Commands for a running job. The job's owner decides; the caller waits a moment for the answer."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

from rmhdag.models.assets import Classification
from rmhdag.models.jobs import CommandKind, CommandOutcome
from rmhdag.models.states import JOB_TERMINAL, JobStatus
from rmhdag.services.reruns import UnknownJobError
from rmhdag.services.reviews import check_node_decision
from rmhdag.store.commands import Answer, Command, issue_command, read_answer
from rmhdag.store.connection import Conn
from rmhdag.store.identity import new_id

ANSWER_SECONDS = 2.0
LOOK_SECONDS = 0.02


class CommandAnswer(NamedTuple):
    """`outcome` is None if the command is accepted and the job's owner has not answered yet. `command_id` is empty if
    the job had ended before, so that no command was written.
    """

    command_id: str
    outcome: CommandOutcome | None
    reason: str


def cancel_job(
    conn: Conn,
    job_id: str,
    *,
    issued_by: str,
    reason: str | None = None,
    namespace: str = "default",
    answer_seconds: float = ANSWER_SECONDS,
) -> CommandAnswer:
    body = {} if reason is None else {"reason": reason}
    return _issue(conn, namespace, job_id, CommandKind.CANCEL, body, issued_by, answer_seconds)


def retry_node(
    conn: Conn,
    job_id: str,
    node_id: str,
    *,
    issued_by: str,
    namespace: str = "default",
    answer_seconds: float = ANSWER_SECONDS,
) -> CommandAnswer:
    """In a running job: skip the wait for a retry, or give a failed child one more attempt."""
    body = {"node_id": node_id}
    return _issue(conn, namespace, job_id, CommandKind.RETRY_NODE, body, issued_by, answer_seconds)


def decide(
    conn: Conn,
    job_id: str,
    node_id: str,
    *,
    approved: bool,
    issued_by: str,
    reason: str | None = None,
    clearance: Classification | None = None,
    namespace: str = "default",
    answer_seconds: float = ANSWER_SECONDS,
) -> CommandAnswer:
    """If the job makes a revision that is reviewed, the decision is about that, too."""
    level = clearance if approved else None
    check_node_decision(conn, namespace, job_id, approved=approved, issued_by=issued_by, reason=reason, clearance=level)
    body = {"node_id": node_id, "approved": approved, "reason": reason}
    if level is not None:
        body["clearance"] = level
    return _issue(conn, namespace, job_id, CommandKind.DECIDE, body, issued_by, answer_seconds)


def _issue(
    conn: Conn,
    namespace: str,
    job_id: str,
    kind: CommandKind,
    body: dict[str, Any],
    issued_by: str,
    answer_seconds: float,
) -> CommandAnswer:
    command = Command(
        command_id=new_id(), namespace=namespace, job_id=job_id, kind=kind, body=body, issued_by=issued_by
    )
    status = issue_command(conn, command)
    if status is None:
        raise UnknownJobError(job_id)
    if status in JOB_TERMINAL:
        return _too_late("", kind, status)
    return wait_for_answer(lambda: read_answer(conn, command.command_id), command.command_id, answer_seconds)


def wait_for_answer(look: Callable[[], Answer | None], command_id: str, answer_seconds: float) -> CommandAnswer:
    """Poll until the owner has answered, at least once."""
    deadline = time.monotonic() + answer_seconds
    while True:
        answer = read_as_answer(look(), command_id)
        if answer.outcome is not None or time.monotonic() >= deadline:
            return answer
        time.sleep(LOOK_SECONDS)


def read_as_answer(answer: Answer | None, command_id: str) -> CommandAnswer:
    """The current outcome of a command, from its rows."""
    if answer is not None and answer.outcome is not None:
        return CommandAnswer(command_id, answer.outcome, answer.reason or "")
    if answer is None:
        return CommandAnswer(command_id, CommandOutcome.REFUSED, "the job is gone")
    if answer.job_has_ended:
        return _too_late(command_id, answer.kind, answer.job_status)
    return CommandAnswer(command_id, None, "accepted; the job's owner has not answered yet")


def _too_late(command_id: str, kind: CommandKind, status: JobStatus) -> CommandAnswer:
    """The job has ended before. Who asked to cancel a job that is cancelled has what was wanted."""
    is_done = kind is CommandKind.CANCEL and status is JobStatus.CANCELLED
    outcome = CommandOutcome.APPLIED if is_done else CommandOutcome.REFUSED
    return CommandAnswer(command_id, outcome, f"the job is already {status}")
