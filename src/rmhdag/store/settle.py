"""The one guarded transaction in which jobs advance: lock, consume the inbox, write everything, commit.

Rows travel as one JSON text per statement: against arrays of columns that took a quarter of the time for 200 rows and a
twentieth of the client's (docs/performance.md).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import orjson
import psycopg

from rmhdag.store import callbacks, jobs
from rmhdag.store.asset_states import RevisionOfJob, follow_jobs
from rmhdag.store.crash_points import SITES, reach
from rmhdag.store.publishing import Publication, TakeOver, publish, take_over
from rmhdag.store.queries import load_queries
from rmhdag.store.revision_items import CompletedRevision, show_current

SQL = load_queries(__file__)
JOBS_SQL = load_queries(jobs.__file__)
CALLBACKS_SQL = load_queries(callbacks.__file__)
SOURCE_APP = "orchestrator"
SITES.add("settle")


@dataclass(slots=True)
class Writes:
    """What a batch of jobs wants written; each list is the rows of one statement, in the order its SQL names."""

    child_jobs: list[dict[str, Any]] = field(default_factory=list)
    new_nodes: list[list[Any]] = field(default_factory=list)
    nodes: list[list[Any]] = field(default_factory=list)
    cancelled_children: list[list[Any]] = field(default_factory=list)
    tasks: list[list[Any]] = field(default_factory=list)
    tasks_from_nodes: list[list[Any]] = field(default_factory=list)
    requeued: list[list[Any]] = field(default_factory=list)
    revoked: list[str] = field(default_factory=list)
    withdrawn_jobs: list[str] = field(default_factory=list)
    dead_letters: list[list[Any]] = field(default_factory=list)
    events: list[list[Any]] = field(default_factory=list)
    started_jobs: list[list[Any]] = field(default_factory=list)
    jobs: list[list[Any]] = field(default_factory=list)
    revisions: list[RevisionOfJob] = field(default_factory=list)
    completed_revisions: list[CompletedRevision] = field(default_factory=list)
    callbacks: list[list[Any]] = field(default_factory=list)
    parents: list[list[Any]] = field(default_factory=list)
    cancelled_child_jobs: list[list[Any]] = field(default_factory=list)
    answers: list[list[Any]] = field(default_factory=list)
    taken_over: list[TakeOver] = field(default_factory=list)
    publications: list[Publication] = field(default_factory=list)
    channels: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Settled:
    """`lost` jobs belong to somebody else now; `torn` ones had an inbox row that was already consumed."""

    committed: bool
    lost: set[str] = field(default_factory=set)
    torn: set[str] = field(default_factory=set)


def settle(
    conn: psycopg.Connection[Any],
    me: str,
    held: Sequence[tuple[str, int]],
    inbox: Sequence[tuple[int, str]],
    now: datetime,
    writes: Callable[[set[str]], Writes],
) -> Settled:
    """Write one batch. Jobs that are no longer mine drop out and the rest goes on; a torn inbox writes nothing.

    Raises PublishFailed, with nothing written, if that is why it cannot be. The connection is in autocommit mode. Two
    round trips: the fence must have answered before anything is written.
    """
    settled: Settled | None = None
    try:
        with conn.pipeline() as pipeline:
            conn.execute("BEGIN")
            ids = {"me": me, "held": orjson.dumps(held).decode()}
            locking = conn.execute(SQL["lock_jobs"], ids, prepare=True)
            pipeline.sync()
            locked = {row[0] for row in locking.fetchall()}
            mine = [(number, job) for number, job in inbox if job in locked]
            consuming = conn.execute(SQL["consume_inbox"], {"me": me, "inbox": [n for n, _ in mine]}, prepare=True)
            pipeline.sync()
            consumed = {row[0] for row in consuming.fetchall()}
            torn = {job for number, job in mine if number not in consumed}
            lost = {job for job, _ in held} - locked
            settled = Settled(not torn and bool(locked), lost, torn)
            if settled.committed:
                _write(conn, me, now, writes(locked))
                reach("settle.before_commit")
                conn.execute("COMMIT")
                pipeline.sync()
        if settled.committed:
            reach("settle.after_commit")
        return settled
    finally:
        # Outside the pipeline: inside, the driver would drop its prepared statements out of step with the server.
        if not conn.closed and conn.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
            conn.rollback()


def _write(conn: psycopg.Connection[Any], me: str, now: datetime, writes: Writes) -> None:
    """What is published, updates, then inserts, then what ends a job; a statement without rows is not sent.

    Publishing comes first: what fails there cannot be the fault of anything else.
    """

    def send(query: bytes, rows: Sequence[Any], name: str, **more: Any) -> None:
        if rows:
            text = orjson.dumps(rows, default=str).decode()
            conn.execute(query, {name: text, "now": now, **more}, prepare=True)

    if writes.publications:
        publish(conn, writes.publications)
    for begun in writes.taken_over:
        take_over(conn, begun)
    send(SQL["update_jobs"], writes.started_jobs, "jobs")
    send(SQL["update_jobs"], writes.jobs, "jobs")
    if writes.revoked:
        conn.execute(SQL["revoke_tasks"], {"tasks": writes.revoked}, prepare=True)
        conn.execute(SQL["end_revoked_leases"], {"tasks": writes.revoked}, prepare=True)
    send(SQL["requeue_tasks"], writes.requeued, "tasks")
    send(SQL["update_nodes"], writes.nodes, "nodes")
    send(JOBS_SQL["insert_jobs"], writes.child_jobs, "jobs")
    send(SQL["insert_nodes"], writes.new_nodes, "nodes")
    send(SQL["insert_tasks"], writes.tasks, "tasks")
    send(SQL["insert_tasks_from_nodes"], writes.tasks_from_nodes, "tasks")
    # After the inserts: what the same batch created and queued before its job was ended has to go as well.
    send(SQL["cancel_children"], writes.cancelled_children, "ranges")
    if writes.withdrawn_jobs:
        withdrawn = {"me": me, "jobs": writes.withdrawn_jobs}
        conn.execute(SQL["tell_tasks_to_stop"], withdrawn, prepare=True)
        conn.execute(SQL["withdraw_unclaimed_tasks"], withdrawn, prepare=True)
    send(SQL["insert_events"], writes.events, "events", source_app=SOURCE_APP)
    send(SQL["insert_dead_letters"], writes.dead_letters, "letters")
    # After all that they publish, and before callbacks: requests may still join a job while its asset is not locked.
    if writes.revisions:
        follow_jobs(conn, writes.revisions)
    if writes.completed_revisions:
        show_current(conn, writes.completed_revisions)
    send(CALLBACKS_SQL["insert_callbacks"], writes.callbacks, "callbacks")
    send(SQL["notify_parents"], writes.parents, "parents")
    send(SQL["cancel_child_jobs"], writes.cancelled_child_jobs, "children")
    send(SQL["answer_commands"], writes.answers, "answers")
    for channel in sorted(writes.channels):
        conn.execute("SELECT pg_notify(%(channel)s, '')", {"channel": channel}, prepare=True)
