"""Requeues dead letters: retries the task in a running job, or reruns the job as a new one."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from rmhdag.models.api.queues import DeadLetterSummary
from rmhdag.models.jobs import CommandOutcome
from rmhdag.models.refusals import Kind, Refusal
from rmhdag.services.commands import retry_node
from rmhdag.services.reruns import JobNotFinishedError, UnknownJobError, plan_rerun_of, rerun_job
from rmhdag.store import catalogue_entries, file_deletions, service_calls
from rmhdag.store.connection import Conn
from rmhdag.store.dead_letters import read_dead_letter, settle_dead_letter


class NotRequeuedError(Refusal):
    """The letter stays open; the message says why."""

    def __init__(self, message: str) -> None:
        super().__init__(Kind.CONFLICT, "not_requeued", message)


class Requeued(NamedTuple):
    """`is_new` if the job had ended; `job_id` is then the job that reruns it."""

    job_id: str
    is_new: bool


def requeue(conn: Conn, namespace: str, letter: DeadLetterSummary, *, issued_by: str) -> Requeued:
    """Once per letter: a second call finds it settled."""
    if letter.settled_at is not None:
        raise NotRequeuedError(f"it was {letter.settled_as} by {letter.settled_by}")
    if letter.reason == catalogue_entries.REASON:
        return _tell_catalogue_again(conn, namespace, letter, issued_by)
    if letter.reason in _REVIVALS:
        return _revive(conn, namespace, letter, issued_by)
    if letter.job_id is None:
        raise NotRequeuedError("it belongs to no job; its sender must send it again")
    try:
        planned = plan_rerun_of(conn, letter.job_id, namespace=namespace)
    except JobNotFinishedError:
        return _retry_in_place(conn, namespace, letter, letter.job_id, issued_by)
    except UnknownJobError:
        raise NotRequeuedError("its job no longer exists") from None
    if not planned.scope.again:
        raise NotRequeuedError(f"job {letter.job_id} is {planned.job.status}, and nothing in it needs to run again")
    with conn.transaction():
        # One rerun per job, however many letters it has.
        new_id = rerun_job(
            conn, planned, issued_by=issued_by, idempotency_key=f"dead-letters-of-{letter.job_id}"
        ).job_id
        if not settle_dead_letter(conn, namespace, letter.dead_letter_id, issued_by, "requeued", {"job_id": new_id}):
            raise NotRequeuedError("another caller was first")
    return Requeued(new_id, True)


def _tell_catalogue_again(conn: Conn, namespace: str, letter: DeadLetterSummary, issued_by: str) -> Requeued:
    record = read_dead_letter(conn, namespace, letter.dead_letter_id)
    body = None if record is None else record["body"]
    with conn.transaction():
        if body is None or not catalogue_entries.revive_entry(conn, namespace, body["collection_id"], body["item_id"]):
            raise NotRequeuedError("the catalogue has a newer entry in its place")
        if not settle_dead_letter(conn, namespace, letter.dead_letter_id, issued_by, "requeued", {}):
            raise NotRequeuedError("another caller was first")
    return Requeued(letter.job_id or "", False)


def _revive(conn: Conn, namespace: str, letter: DeadLetterSummary, issued_by: str) -> Requeued:
    revive, key, otherwise = _REVIVALS[letter.reason]
    record = read_dead_letter(conn, namespace, letter.dead_letter_id)
    body = None if record is None else record["body"]
    with conn.transaction():
        if body is None or not revive(conn, namespace, body[key]):
            raise NotRequeuedError(otherwise)
        if not settle_dead_letter(conn, namespace, letter.dead_letter_id, issued_by, "requeued", {}):
            raise NotRequeuedError("another caller was first")
    return Requeued("", False)


# By the reason of the letter: what gives it another chance, by which part of its body, and what stands in the way.
_REVIVALS: dict[str, tuple[Callable[[Conn, str, str], bool], str, str]] = {
    service_calls.REASON: (
        service_calls.retry_call,
        "call_id",
        "the call was retried or deleted meanwhile, or what it announces was withdrawn",
    ),
    file_deletions.REASON: (file_deletions.revive_deletion, "file_id", "the file is no longer to be deleted"),
}


def _retry_in_place(conn: Conn, namespace: str, letter: DeadLetterSummary, job_id: str, issued_by: str) -> Requeued:
    if letter.node_id is None:
        raise NotRequeuedError(f"it names no node of job {job_id}, which still runs")
    try:
        answer = retry_node(conn, job_id, letter.node_id, issued_by=issued_by, namespace=namespace)
    except UnknownJobError:
        raise NotRequeuedError("its job no longer exists") from None
    if answer.outcome is not CommandOutcome.APPLIED:
        raise NotRequeuedError(answer.reason or "the job's owner has not answered; try again")
    settle_dead_letter(conn, namespace, letter.dead_letter_id, issued_by, "requeued", {"job_id": job_id})
    return Requeued(job_id, False)
