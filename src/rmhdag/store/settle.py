"""The one guarded transaction in which jobs advance: lock, consume the inbox, write everything, commit.

Rows travel as one JSON text per statement: against arrays of columns that took a quarter of the time for 200 rows and a
twentieth of the client's (docs/performance.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

import orjson
import psycopg

from rmhdag.models.limits import MESSAGE_CHARACTERS
from rmhdag.store import approvals, callbacks, jobs
from rmhdag.store.asset_states import RevisionOfJob, follow_jobs, lock_assets
from rmhdag.store.batch_rows import (
    ApprovalRequest,
    ChildCancellation,
    CommandAnswer,
    DeadLetterRow,
    HeldJob,
    JobCallback,
    JobChange,
    JobEventRow,
    JobWarnings,
    NewNode,
    NodeChange,
    NodeOfJob,
    ParentNotice,
    PieceOfFanOut,
    QueuedTaskRow,
    RequeuedTask,
    RevisionKey,
    encode_rows,
)
from rmhdag.store.connection import Conn
from rmhdag.store.crash_points import SITES, reach
from rmhdag.store.publishing import Publication, TakeOver, publish, take_over
from rmhdag.store.queries import load_queries
from rmhdag.store.reviews import open_review
from rmhdag.store.revision_items import CompletedRevision, show_current

SQL = load_queries(__file__)
APPROVALS_SQL = load_queries(approvals.__file__)
JOBS_SQL = load_queries(jobs.__file__)
CALLBACKS_SQL = load_queries(callbacks.__file__)
SOURCE_APP = "orchestrator"
# psycopg's pipeline may wait for ever for the answer to what it has not sent: it flushes once after the last command,
# and a large text may not fit into the socket then. Larger batches go without a pipeline, in statements of this size.
PIPELINE_BYTES = 256 * 1024
STATEMENT_BYTES = 1024 * 1024
SITES.add("settle")


class RevokedTask(NamedTuple):
    """A task that its job gives up on; with a lease epoch, only as long as it is held under that lease."""

    task_id: str
    job_id: str
    lease_epoch: int | None = None


class OpenedReview(NamedTuple):
    """A job waits for a person, who decides about the revision that it makes as well."""

    key: RevisionKey
    message: str | None


class NodeDecision(NamedTuple):
    """A person has decided about the revision; `decide` writes what follows, under the asset's lock."""

    key: RevisionKey
    decide: Callable[[Conn, RevisionKey], None]


@dataclass(slots=True)
class Writes:
    """What a batch of jobs wants written; each list is the rows of one statement."""

    child_jobs: list[dict[str, Any]] = field(default_factory=list)
    new_nodes: list[NewNode] = field(default_factory=list)
    nodes: list[NodeChange] = field(default_factory=list)
    cancelled_children: list[PieceOfFanOut] = field(default_factory=list)
    tasks: list[QueuedTaskRow] = field(default_factory=list)
    tasks_from_nodes: list[QueuedTaskRow] = field(default_factory=list)
    requeued: list[RequeuedTask] = field(default_factory=list)
    revoked: list[RevokedTask] = field(default_factory=list)
    withdrawn_jobs: list[str] = field(default_factory=list)
    dead_letters: list[DeadLetterRow] = field(default_factory=list)
    closed_approvals: list[NodeOfJob] = field(default_factory=list)
    approvals: list[ApprovalRequest] = field(default_factory=list)
    events: list[JobEventRow] = field(default_factory=list)
    started_jobs: list[JobChange] = field(default_factory=list)
    job_warnings: list[JobWarnings] = field(default_factory=list)
    jobs: list[JobChange] = field(default_factory=list)
    opened_reviews: list[OpenedReview] = field(default_factory=list)
    decisions: list[NodeDecision] = field(default_factory=list)
    revisions: list[RevisionOfJob] = field(default_factory=list)
    completed_revisions: list[CompletedRevision] = field(default_factory=list)
    start_callbacks: list[JobCallback] = field(default_factory=list)
    callbacks: list[JobCallback] = field(default_factory=list)
    parents: list[ParentNotice] = field(default_factory=list)
    cancelled_child_jobs: list[ChildCancellation] = field(default_factory=list)
    answers: list[CommandAnswer] = field(default_factory=list)
    taken_over: list[TakeOver] = field(default_factory=list)
    publications: list[Publication] = field(default_factory=list)
    channels: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Settled:
    """Jobs that dropped out: `lost` ones belong to somebody else or have moved on, `torn` ones were overtaken.

    Of a torn job an inbox row was already consumed, or a task that it gave up on has reported.
    """

    written: set[str] = field(default_factory=set)
    lost: set[str] = field(default_factory=set)
    torn: set[str] = field(default_factory=set)

    @property
    def dropped(self) -> set[str]:
        return self.lost | self.torn


def settle(
    conn: Conn,
    me: str,
    held: Sequence[HeldJob],
    inbox: Sequence[tuple[int, str]],
    now: datetime,
    writes: Callable[[set[str]], Writes],
) -> Settled:
    """Write one batch. Jobs that are no longer mine, or were overtaken, drop out; the rest is committed.

    Raises PublishFailed, with nothing written, if that is why it cannot be. The connection is in autocommit mode. Two
    round trips: the fence must have answered before anything is written.
    """
    settled = Settled()
    while held:
        lost, torn = _attempt(conn, me, held, inbox, now, writes)
        settled.lost |= lost
        settled.torn |= torn
        if not torn:
            settled.written = {job.job_id for job in held} - lost
            break
        # Nothing was written, because the rows of the torn jobs must stay in the inbox. This is rare.
        held = [job for job in held if job.job_id not in settled.dropped]
        inbox = [(number, job_id) for number, job_id in inbox if job_id not in settled.dropped]
    return settled


def _attempt(
    conn: Conn,
    me: str,
    held: Sequence[HeldJob],
    inbox: Sequence[tuple[int, str]],
    now: datetime,
    writes: Callable[[set[str]], Writes],
) -> tuple[set[str], set[str]]:
    """Which jobs are lost and which are torn; everything is committed unless one is torn."""
    large: _Encoded | None = None
    try:
        with conn.pipeline() as pipeline:
            conn.execute("BEGIN")
            fence = {
                "me": me,
                "held": encode_rows(held),
                "inbox": f"{{{','.join([str(number) for number, _ in inbox])}}}",
            }
            answer = conn.execute(SQL["lock_jobs_and_inbox"], fence, prepare=True)
            pipeline.sync()
            locked, consumed = _read_fence(answer.fetchone())
            lost = {job.job_id for job in held} - locked
            batch = writes(locked)
            torn = {job_id for number, job_id in inbox if job_id in locked and str(number) not in consumed}
            if batch.revoked:
                torn |= _overtaken(conn, batch.revoked, set(consumed.values()))
            if torn or not locked:
                return lost, torn
            encoded = _Encoded(batch)
            changes_assets = batch.publications or batch.revisions or batch.opened_reviews or batch.decisions
            if encoded.size_bytes > PIPELINE_BYTES or changes_assets:
                large = encoded
            else:
                _write(conn, me, now, batch, encoded)
                reach("settle.before_commit")
                conn.execute("COMMIT")
                pipeline.sync()
        if large is not None:
            _write(conn, me, now, batch, large)
            reach("settle.before_commit")
            conn.execute("COMMIT")
        reach("settle.after_commit")
        return lost, torn
    finally:
        # Outside the pipeline: inside, the driver would drop its prepared statements out of step with the server.
        if not conn.closed and conn.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
            conn.rollback()


def _read_fence(row: tuple[str | None, str | None] | None) -> tuple[set[str], dict[str, str]]:
    """The locked jobs, and the consumed inbox rows by number, each with its task if it has one."""
    assert row is not None
    jobs, entries = row
    return set((jobs or "").split()), dict([entry.split(":", 1) for entry in (entries or "").split()])


def _overtaken(conn: Conn, revoked: Sequence[RevokedTask], consumed: set[str]) -> set[str]:
    """Jobs that gave up on a task too early: it has reported, unheard so far, or runs under a newer lease.

    Two statements: the first waits for a report under way, and only the snapshot of the second shows what it wrote.
    """
    tasks = {"tasks": [task.task_id for task in revoked]}
    leases = conn.execute(SQL["lock_tasks"], tasks, prepare=True)
    reports = conn.execute(SQL["reported_tasks"], tasks, prepare=True)
    current = dict(leases.fetchall())
    reported = {row[0] for row in reports.fetchall()} - consumed
    return {
        task.job_id
        for task in revoked
        if task.task_id in reported
        or (task.lease_epoch is not None and current.get(task.task_id, task.lease_epoch) != task.lease_epoch)
    }


class _Encoded:
    """The rows of a batch as JSON texts, none larger than a statement may be, unless one row alone is."""

    def __init__(self, writes: Writes) -> None:
        self._texts: dict[str, list[str]] = {}
        self.size_bytes = 0
        for name in _SENT:
            rows = getattr(writes, name)
            if rows:
                # Jobs are objects; all others are rows of `batch_rows`, which orjson writes only as plain tuples.
                self._texts[name] = texts = _encode(rows if name == "child_jobs" else [*map(tuple, rows)])
                self.size_bytes += sum(map(len, texts))

    def texts(self, name: str) -> Iterable[str]:
        return self._texts.get(name, ())


_SENT = (
    "started_jobs",
    "job_warnings",
    "jobs",
    "requeued",
    "nodes",
    "child_jobs",
    "new_nodes",
    "tasks",
    "tasks_from_nodes",
    "cancelled_children",
    "events",
    "dead_letters",
    "closed_approvals",
    "approvals",
    "start_callbacks",
    "callbacks",
    "parents",
    "cancelled_child_jobs",
    "answers",
)


def _encode(rows: Sequence[Any]) -> list[str]:
    text = orjson.dumps(rows, default=str)
    if len(text) <= STATEMENT_BYTES:
        return [text.decode()]
    texts: list[str] = []
    piece: list[str] = []
    size = 0
    for row in rows:
        encoded = orjson.dumps(row, default=str).decode()
        if piece and size + len(encoded) > STATEMENT_BYTES:
            texts.append(f"[{','.join(piece)}]")
            piece, size = [], 0
        piece.append(encoded)
        size += len(encoded)
    texts.append(f"[{','.join(piece)}]")
    return texts


def _write(conn: Conn, me: str, now: datetime, writes: Writes, encoded: _Encoded) -> None:
    """What is published, updates, then inserts, then what ends a job; a statement without rows is not sent.

    Publishing comes first: what fails there cannot be the fault of anything else.
    """

    def send(query: bytes, rows: str, name: str, **more: Any) -> None:
        for text in encoded.texts(rows):
            conn.execute(query, {name: text, "now": now, **more}, prepare=True)

    if writes.publications:
        publish(conn, writes.publications)
    for begun in writes.taken_over:
        take_over(conn, begun)
    send(SQL["update_jobs"], "started_jobs", "jobs")
    send(SQL["update_job_warnings"], "job_warnings", "jobs")
    send(SQL["update_jobs"], "jobs", "jobs")
    if writes.revoked:
        revoked = {"tasks": [task.task_id for task in writes.revoked]}
        conn.execute(SQL["revoke_tasks"], revoked, prepare=True)
        conn.execute(SQL["end_revoked_leases"], revoked, prepare=True)
    send(SQL["requeue_tasks"], "requeued", "tasks")
    send(SQL["update_nodes"], "nodes", "nodes")
    send(JOBS_SQL["insert_jobs"], "child_jobs", "jobs")
    jobs.use_payloads(conn, writes.child_jobs)
    send(SQL["insert_nodes"], "new_nodes", "nodes")
    send(SQL["insert_tasks"], "tasks", "tasks")
    send(SQL["insert_tasks_from_nodes"], "tasks_from_nodes", "tasks")
    # After the inserts: what the same batch created and queued before its job was ended has to go as well.
    send(SQL["cancel_children"], "cancelled_children", "ranges")
    if writes.withdrawn_jobs:
        withdrawn = {"me": me, "jobs": writes.withdrawn_jobs}
        conn.execute(SQL["tell_tasks_to_stop"], withdrawn, prepare=True)
        conn.execute(SQL["withdraw_unclaimed_tasks"], withdrawn, prepare=True)
    send(SQL["insert_events"], "events", "events", source_app=SOURCE_APP)
    send(SQL["insert_dead_letters"], "dead_letters", "letters")
    send(APPROVALS_SQL["delete_closed"], "closed_approvals", "approvals")
    send(APPROVALS_SQL["insert_waiting"], "approvals", "approvals")
    # After all that they publish, and before callbacks: requests may still join a job while its asset is not locked.
    if writes.opened_reviews or writes.decisions:
        _review(conn, writes)
    if writes.revisions:
        follow_jobs(conn, writes.revisions)
    if writes.completed_revisions:
        show_current(conn, writes.completed_revisions)
    send(CALLBACKS_SQL["insert_start_callbacks"], "start_callbacks", "callbacks")
    send(CALLBACKS_SQL["insert_callbacks"], "callbacks", "callbacks")
    send(SQL["notify_parents"], "parents", "parents")
    send(SQL["cancel_child_jobs"], "cancelled_child_jobs", "children")
    send(SQL["answer_commands"], "answers", "answers")
    for channel in sorted(writes.channels):
        conn.execute("SELECT pg_notify(%(channel)s, '')", {"channel": channel}, prepare=True)


def _review(conn: Conn, writes: Writes) -> None:
    """Before their revisions follow the jobs: what was decided is compared with what the jobs have made in the end.

    All assets are locked at once, in their order, those of the jobs too.
    """
    touched = {review.key for review in writes.opened_reviews} | {decision.key for decision in writes.decisions}
    lock_assets(conn, touched | {revision.key for revision in writes.revisions})
    for opened in writes.opened_reviews:
        message = None if opened.message is None else opened.message[:MESSAGE_CHARACTERS]
        open_review(conn, opened.key, message=message)
    for decision in writes.decisions:
        decision.decide(conn, decision.key)
