"""Dead letters: tasks and messages that were given up, shown, requeued, discarded."""

from __future__ import annotations

import time
from typing import Annotated

from fastapi import APIRouter, Path, Query

from rmhdag.api.context import ApiContext
from rmhdag.api.identity import Caller, Operator, Reader
from rmhdag.api.pages import CursorParameter, read_cursor, write_cursor
from rmhdag.api.problems import not_found
from rmhdag.models.api.queues import (
    DeadLetterDetail,
    DeadLetterPage,
    DeadLetterSummary,
    Discarded,
    NotRequeued,
    Requeued,
    RequeueOutcome,
    RequeueRequest,
)
from rmhdag.models.refusals import Kind, Refusal
from rmhdag.services import dead_letters as chances
from rmhdag.store import dead_letters as store
from rmhdag.store.connection import Conn

router = APIRouter(prefix="/api/v1/dead-letters", tags=["dead letters"])

LetterId = Annotated[str, Path(min_length=1, max_length=64, description="As `GET /api/v1/dead-letters` shows it")]
FilterParameter = Annotated[str | None, Query(min_length=1, max_length=64)]
# Each letter of a running job may wait two seconds for its owner; a request for many letters must not take minutes.
REQUEUE_SECONDS = 8.0


@router.get("")
def list_dead_letters(
    caller: Reader,
    api: ApiContext,
    queue: FilterParameter = None,
    reason: FilterParameter = None,
    job_id: FilterParameter = None,
    settled_too: Annotated[bool, Query(description="Also those that were requeued or discarded")] = False,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
    cursor: CursorParameter = None,
) -> DeadLetterPage:
    """Open dead letters, oldest first."""
    with api.connection() as conn:
        lines = store.dead_letters(
            conn,
            caller.namespace,
            settled_too=settled_too,
            queue=queue,
            reason=reason,
            job_id=job_id,
            after=read_cursor(cursor, read_place),
            limit=limit + 1,
        )
    page = lines[:limit]
    return DeadLetterPage(
        dead_letters=page,
        next_cursor=write_cursor("dead_letter", page[-1].dead_letter_id) if len(lines) > limit else None,
    )


def read_place(kind: str, dead_letter_id: str) -> str:
    if kind != "dead_letter" or not isinstance(dead_letter_id, str):
        raise ValueError(kind)
    return dead_letter_id


@router.post("/requeue")
def requeue_dead_letters(caller: Operator, api: ApiContext, body: RequeueRequest) -> RequeueOutcome:
    """Run the tasks of open dead letters again; several letters of one ended job make one new job."""
    outcome = RequeueOutcome(requeued=[], refused=[], complete=True)
    deadline = time.monotonic() + REQUEUE_SECONDS
    with api.connection() as conn:
        lines = store.dead_letters(
            conn,
            caller.namespace,
            queue=body.queue,
            reason=body.reason,
            job_id=body.job_id,
            limit=body.limit + 1,
        )
        outcome.complete = len(lines) <= body.limit
        for line in lines[: body.limit]:
            if time.monotonic() > deadline:
                outcome.complete = False
                break
            try:
                outcome.requeued.append(requeue(conn, caller, line))
            except chances.NotRequeuedError as error:
                outcome.refused.append(NotRequeued(dead_letter_id=line.dead_letter_id, reason=str(error)))
    return outcome


@router.get("/{dead_letter_id}")
def get_dead_letter(caller: Reader, api: ApiContext, dead_letter_id: LetterId) -> DeadLetterDetail:
    """One dead letter, with all that is kept of it."""
    with api.connection() as conn:
        row = store.read_dead_letter(conn, caller.namespace, dead_letter_id)
    if row is None:
        raise no_letter()
    return DeadLetterDetail(**row)


@router.post("/{dead_letter_id}/requeue")
def requeue_dead_letter(caller: Operator, api: ApiContext, dead_letter_id: LetterId) -> Requeued:
    """Run its task again: in its job if that still runs, otherwise in a new job that reuses finished results."""
    with api.connection() as conn:
        return requeue(conn, caller, find(conn, caller, dead_letter_id))


@router.post("/{dead_letter_id}/discard")
def discard_dead_letter(caller: Operator, api: ApiContext, dead_letter_id: LetterId) -> Discarded:
    """Discard it: it is kept, but no longer shown as open."""
    with api.connection() as conn:
        line = find(conn, caller, dead_letter_id)
        if not store.settle_dead_letter(conn, caller.namespace, line.dead_letter_id, caller.name, "discarded"):
            line = find(conn, caller, dead_letter_id)
            if line.settled_as != "discarded":
                raise Refusal(Kind.CONFLICT, "settled_otherwise", f"it was {line.settled_as} by {line.settled_by}")
    return Discarded(dead_letter_id=line.dead_letter_id, settled_as="discarded")


def find(conn: Conn, caller: Caller, dead_letter_id: str) -> DeadLetterSummary:
    letter = store.find_dead_letter(conn, caller.namespace, dead_letter_id)
    if letter is None:
        raise no_letter()
    return letter


def requeue(conn: Conn, caller: Caller, line: DeadLetterSummary) -> Requeued:
    done = chances.requeue(conn, caller.namespace, line, issued_by=caller.name)
    return Requeued(dead_letter_id=line.dead_letter_id, job_id=done.job_id, is_new_job=done.is_new)


def no_letter() -> Refusal:
    return not_found("such dead letter", "`GET /api/v1/dead-letters?settled_too=true` lists all.")
