"""Workers without a database, as the store knows them: a call is heard only with the key that registered the worker.

What is written goes through the same guarded statements as the writes of workers that have the database.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, TypeVar

import orjson
import psycopg

from rmhdag.api.context import Api
from rmhdag.api.identity import Caller
from rmhdag.api.problems import Problem, not_found
from rmhdag.models.api.worker_calls import (
    LeasedTask,
    ReportedTask,
    SentPayload,
    TaskOutcome,
    TaskOutcomes,
    Verdict,
)
from rmhdag.models.leases import Pair, TaskReport
from rmhdag.models.limits import INLINE_BYTES
from rmhdag.models.records import RecordsTooLargeError, encode_records
from rmhdag.models.references import Reference
from rmhdag.models.refusals import Refusal
from rmhdag.store import payloads, tasks, workers
from rmhdag.store.connection import Conn

T = TypeVar("T")
NOT_YOURS = "the lease is not this worker's, or not any more"


def holder_of(caller: Caller) -> str:
    """Whose a worker is: of a key, or of somebody whom an issuer vouches for."""
    return caller.key_id or f"{caller.namespace}/{caller.name}"[:128]


class Seat(NamedTuple):
    """A worker's place at the desk, for one call."""

    conn: Conn
    worker_id: str
    slots: int
    queues: list[str]
    # Those that it registered; None if it registered none, and is offered everything.
    handlers: frozenset[str] | None


@contextmanager
def seat(api: Api, caller: Caller, worker_id: str) -> Iterator[Seat | None]:
    """None if there is no such worker, if it was declared dead, or if another key registered it: all the same."""
    with api.worker_pool.connection() as conn:
        registration = workers.registration(conn, worker_id)
        is_theirs = registration is not None and registration.registered_by == holder_of(caller)
        if registration is None or not is_theirs:
            yield None
        else:
            handlers = None if registration.handlers is None else frozenset(registration.handlers)
            yield Seat(conn, worker_id, registration.slots, registration.queues, handlers)


def unknown_worker() -> Refusal:
    return not_found("worker of that id", remedy="It was declared dead, or never registered: register it again.")


def answer(items: Sequence[LeasedTask], accepted: set[str]) -> TaskOutcomes:
    """Accepted where the lease matched; a lease stands once in a batch, so its task's id is enough."""
    return TaskOutcomes(
        outcomes=[outcome(item, Verdict.ACCEPTED if item.task_id in accepted else Verdict.STALE) for item in items]
    )


def outcome(item: LeasedTask, verdict: Verdict, reason: str | None = None) -> TaskOutcome:
    return TaskOutcome(
        task_id=item.task_id,
        lease_epoch=item.lease_epoch,
        outcome=verdict,
        reason=NOT_YOURS if verdict is Verdict.STALE and reason is None else reason,
    )


def refuse_twins(items: Sequence[LeasedTask], field: str) -> None:
    """Which of two is meant cannot be known."""
    task_ids: set[str] = set()
    for index, item in enumerate(items):
        if item.task_id in task_ids:
            raise Problem(
                422,
                "task_given_twice",
                f"the task {item.task_id!r} is given twice",
                pointer=f"/{field}/{index}/task_id",
            )
        task_ids.add(item.task_id)


def record_results(at: Seat, namespace: str, items: Sequence[ReportedTask]) -> TaskOutcomes:
    """All in one statement; those that the database refuses for their data are found by halving."""
    refusals: dict[Pair, str] = {}
    reports: list[TaskReport] = []
    used: list[tuple[str, str]] = []
    for item in items:
        try:
            reports.append(_as_report(at.conn, namespace, item, used))
        except RefusedResult as error:
            refusals[item.pair] = str(error)
    # Before the reports: with them the rows go that say whose the tasks are.
    payloads.use_reported(at.conn, namespace, used)
    accepted = _record(at, reports, refusals)
    missed = [item.pair for item in items if item.task_id not in accepted and item.pair not in refusals]
    repeated = tasks.recorded_leases(at.conn, at.worker_id, missed) if missed else set()

    def verdict(item: ReportedTask) -> TaskOutcome:
        if item.pair in refusals:
            return outcome(item, Verdict.REFUSED, refusals[item.pair])
        is_accepted = item.task_id in accepted or item.pair in repeated
        return outcome(item, Verdict.ACCEPTED if is_accepted else Verdict.STALE)

    return TaskOutcomes(outcomes=[verdict(item) for item in items])


class RefusedResult(Exception):
    """Why one of many cannot be recorded."""


def _as_report(conn: Conn, namespace: str, item: ReportedTask, used: list[tuple[str, str]]) -> TaskReport:
    """The payloads that it refers to are added to those that are `used`, by task and hash."""

    def stored(field: str, payload: SentPayload | None, text: bytes | None) -> bytes | None:
        if payload is not None:
            reference = _require_payload(conn, namespace, field, payload)
        elif text is None or len(text) <= INLINE_BYTES:
            return text
        else:
            reference = payloads.write_json(conn, namespace, None, text)
        used.append((item.task_id, reference.sha256))
        return orjson.dumps(reference.as_json())

    return TaskReport(
        item.task_id,
        item.lease_epoch,
        item.status,
        item.error_kind,
        item.error_message,
        item.duration_ms,
        stored("stored_output", item.stored_output, None if item.output is None else orjson.dumps(item.output)),
        item.metrics,
        item.started_ms_ago,
        stored("stored_records", item.stored_records, _encoded_records(item)),
        None if item.error is None else orjson.dumps(item.error.model_dump(mode="json")),
        orjson.dumps([warning.model_dump() for warning in item.warnings]) if item.warnings else None,
    )


def _encoded_records(item: ReportedTask) -> bytes | None:
    try:
        return encode_records(tuple(item.records)) if item.records else None
    except RecordsTooLargeError as error:
        raise RefusedResult(f"records: {error}") from None


def _require_payload(conn: Conn, namespace: str, field: str, payload: SentPayload) -> Reference:
    stored = payloads.keep_payload(conn, namespace, payload.sha256)
    if stored is None or stored.size_bytes != payload.size_bytes:
        raise RefusedResult(f"{field}: it refers to a payload that is not there: send that first")
    return Reference(stored.sha256, stored.size_bytes)


def _record(at: Seat, reports: Sequence[TaskReport], refusals: dict[Pair, str]) -> set[str]:
    if not reports:
        return set()
    answer = attempt(lambda: tasks.report_tasks(at.conn, at.worker_id, reports))
    if isinstance(answer, set):
        return answer
    if len(reports) == 1:
        refusals[reports[0].task_id, reports[0].lease_epoch] = answer
        return set()
    middle = len(reports) // 2
    return _record(at, reports[:middle], refusals) | _record(at, reports[middle:], refusals)


def attempt(write: Callable[[], T]) -> T | str:
    """What it returns, or why the database refuses the data."""
    try:
        return write()
    except psycopg.DataError as error:
        return f"it cannot be stored: {error.diag.message_primary}"
    except psycopg.IntegrityError:  # whose message names tables and constraints
        return "it cannot be stored: a value is out of its range"
