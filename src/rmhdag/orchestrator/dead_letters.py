"""A dead letter gets another chance: its task in a job that still runs, or its job as a new one."""

from __future__ import annotations

from typing import Any, NamedTuple

import psycopg

from rmhdag.models.jobs import CommandOutcome
from rmhdag.orchestrator.commands import retry_node
from rmhdag.orchestrator.reruns import JobNotFinishedError, plan_rerun_of, rerun_job
from rmhdag.store import catalogue_entries
from rmhdag.store.dead_letters import DeadLetterLine, read_dead_letter, settle_dead_letter

Conn = psycopg.Connection[Any]


class NotRequeuedError(Exception):
    """The letter stays open, and this says why."""


class Requeued(NamedTuple):
    """`is_new` if the job had ended, and `job_id` is the one that reruns it."""

    job_id: str
    is_new: bool


def requeue(conn: Conn, namespace: str, letter: DeadLetterLine, *, issued_by: str) -> Requeued:
    """Once per letter: whoever is second finds it settled."""
    if letter.settled_at is not None:
        raise NotRequeuedError(f"it was {letter.settled_as} by {letter.settled_by}")
    if letter.reason == catalogue_entries.REASON:
        return _tell_catalogue_again(conn, namespace, letter, issued_by)
    if letter.job_id is None:
        raise NotRequeuedError("it belongs to no job; whoever sent it has to send it again")
    try:
        planned = plan_rerun_of(conn, letter.job_id, namespace=namespace)
    except JobNotFinishedError:
        return _retry_in_place(conn, namespace, letter, letter.job_id, issued_by)
    if not planned.scope.again:
        raise NotRequeuedError(f"job {letter.job_id} is {planned.job.status}, and nothing in it needs to run again")
    with conn.transaction():
        # One rerun per job, however many letters it has left.
        new_id = rerun_job(
            conn, planned, issued_by=issued_by, idempotency_key=f"dead-letters-of-{letter.job_id}"
        ).job_id
        if not settle_dead_letter(conn, namespace, letter.dead_letter_id, issued_by, "requeued", {"job_id": new_id}):
            raise NotRequeuedError("somebody else was first")
    return Requeued(new_id, True)


def _tell_catalogue_again(conn: Conn, namespace: str, letter: DeadLetterLine, issued_by: str) -> Requeued:
    found = read_dead_letter(conn, namespace, letter.dead_letter_id)
    body = None if found is None else found["body"]
    with conn.transaction():
        if body is None or not catalogue_entries.revive_entry(conn, namespace, body["collection_id"], body["item_id"]):
            raise NotRequeuedError("the catalogue has a newer entry in its place")
        if not settle_dead_letter(conn, namespace, letter.dead_letter_id, issued_by, "requeued", {}):
            raise NotRequeuedError("somebody else was first")
    return Requeued(letter.job_id or "", False)


def _retry_in_place(conn: Conn, namespace: str, letter: DeadLetterLine, job_id: str, issued_by: str) -> Requeued:
    if letter.node_id is None:
        raise NotRequeuedError(f"it names no node of job {job_id}, which still runs")
    answer = retry_node(conn, job_id, letter.node_id, issued_by=issued_by, namespace=namespace)
    if answer.outcome is not CommandOutcome.APPLIED:
        raise NotRequeuedError(answer.reason or "the job's owner has not answered; try again")
    settle_dead_letter(conn, namespace, letter.dead_letter_id, issued_by, "requeued", {"job_id": job_id})
    return Requeued(job_id, False)
