"""What was given up and waits for a person: shown, requeued, laid aside."""

from __future__ import annotations

import time
from typing import Annotated

from fastapi import APIRouter, Path, Query

from rmhdag.api.context import ApiContext, Conn
from rmhdag.api.identity import Caller, Operator, Reader
from rmhdag.api.pages import CursorParameter, read_cursor, write_cursor
from rmhdag.api.problems import Problem, not_found
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
from rmhdag.orchestrator import dead_letters as chances
from rmhdag.orchestrator.reruns import UnknownJobError
from rmhdag.store import dead_letters as store

router = APIRouter(prefix="/api/v1/dead-letters", tags=["dead letters"])

LetterId = Annotated[str, Path(min_length=1, max_length=64, description="As `GET /api/v1/dead-letters` shows it")]
FilterParameter = Annotated[str | None, Query(min_length=1, max_length=64)]
# Each letter of a running job may wait two seconds for its owner; whoever asked for many is not kept for minutes.
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
    shown = [DeadLetterSummary(**line._asdict()) for line in lines[:limit]]
    return DeadLetterPage(
        dead_letters=shown,
        next_cursor=write_cursor("dead_letter", shown[-1].dead_letter_id) if len(lines) > limit else None,
    )


def read_place(kind: str, dead_letter_id: str) -> str:
    if kind != "dead_letter" or not isinstance(dead_letter_id, str):
        raise ValueError(kind)
    return dead_letter_id


@router.post("/requeue")
def requeue_dead_letters(caller: Operator, api: ApiContext, wanted: RequeueRequest) -> RequeueOutcome:
    """Give the tasks of open dead letters another chance; several letters of one ended job make one new job."""
    outcome = RequeueOutcome(requeued=[], refused=[], complete=True)
    deadline = time.monotonic() + REQUEUE_SECONDS
    with api.connection() as conn:
        lines = store.dead_letters(
            conn,
            caller.namespace,
            queue=wanted.queue,
            reason=wanted.reason,
            job_id=wanted.job_id,
            limit=wanted.limit + 1,
        )
        outcome.complete = len(lines) <= wanted.limit
        for line in lines[: wanted.limit]:
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
        found = store.read_dead_letter(conn, caller.namespace, dead_letter_id)
    if found is None:
        raise no_letter()
    return DeadLetterDetail(**found)


@router.post("/{dead_letter_id}/requeue")
def requeue_dead_letter(caller: Operator, api: ApiContext, dead_letter_id: LetterId) -> Requeued:
    """Give its task another chance: in its job, if that still runs, else in a new job that reuses what is finished."""
    with api.connection() as conn:
        line = find(conn, caller, dead_letter_id)
        try:
            return requeue(conn, caller, line)
        except chances.NotRequeuedError as error:
            raise Problem(409, "not_requeued", str(error)) from None


@router.post("/{dead_letter_id}/discard")
def discard_dead_letter(caller: Operator, api: ApiContext, dead_letter_id: LetterId) -> Discarded:
    """Lay it aside: it is kept, and no longer shown as open."""
    with api.connection() as conn:
        line = find(conn, caller, dead_letter_id)
        if not store.settle_dead_letter(conn, caller.namespace, line.dead_letter_id, caller.name, "discarded"):
            line = find(conn, caller, dead_letter_id)
            if line.settled_as != "discarded":
                raise Problem(409, "settled_otherwise", f"it was {line.settled_as} by {line.settled_by}")
    return Discarded(dead_letter_id=line.dead_letter_id, settled_as="discarded")


def find(conn: Conn, caller: Caller, dead_letter_id: str) -> store.DeadLetterLine:
    found = store.read_dead_letter(conn, caller.namespace, dead_letter_id)
    if found is None:
        raise no_letter()
    return store.DeadLetterLine(**{name: found[name] for name in store.DeadLetterLine._fields})


def requeue(conn: Conn, caller: Caller, line: store.DeadLetterLine) -> Requeued:
    try:
        done = chances.requeue(conn, caller.namespace, line, issued_by=caller.name)
    except UnknownJobError:
        raise chances.NotRequeuedError("its job is no longer there") from None
    return Requeued(dead_letter_id=line.dead_letter_id, job_id=done.job_id, is_new_job=done.is_new)


def no_letter() -> Problem:
    return not_found("such dead letter", "`GET /api/v1/dead-letters?settled_too=true` lists all.")
