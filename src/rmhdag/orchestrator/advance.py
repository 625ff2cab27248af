"""The one way in which jobs advance: inbox rows of jobs I own → engine → one guarded transaction for a batch of jobs."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Collection
from datetime import datetime
from random import Random
from typing import Any, NamedTuple

import psycopg

from rmhdag.engine.effects import AggregationRequested
from rmhdag.engine.inputs import Continue, Input, Start, Timer, TimerDue
from rmhdag.engine.loading import resume
from rmhdag.orchestrator.batch import Batch
from rmhdag.orchestrator.owned_jobs import OwnedJob, OwnedJobs
from rmhdag.orchestrator.readings import read_entry
from rmhdag.orchestrator.turns import Turns
from rmhdag.store import inbox, jobs
from rmhdag.store.inbox import InboxEntry
from rmhdag.store.settle import settle

Conn = psycopg.Connection[Any]
BATCH = 500


class LocalInput(NamedTuple):
    """An input that needs no row: it is made again after a crash, because the rows show that it is owed."""

    job_id: str
    given: Input


class Advance:
    """One connection, one batch at a time. Whatever goes wrong, the aggregates concerned are loaded again."""

    def __init__(self, conn: Conn, me: str, owned: OwnedJobs, turns: Turns, crash_point: Callable[[str], None]) -> None:
        self._conn = conn
        self._me = me
        self._owned = owned
        self._turns = turns
        self._crash_point = crash_point
        self._jitter = Random()
        self._mark = 0
        self.local: deque[LocalInput] = deque()
        self.aggregations: deque[tuple[str, AggregationRequested]] = deque()
        self.results = 0
        self.dispatched = 0

    def start_jobs(self, claimed: Collection[str]) -> None:
        self.local.extend(LocalInput(job_id, Start()) for job_id in claimed)

    def run_once(self, *, whole_inbox: bool = False) -> bool:
        """Handle one batch; False if there was nothing to do. `whole_inbox` reads below the mark too."""
        now, entries = inbox.read_inbox(self._conn, self._me, 0 if whole_inbox else self._mark, BATCH)
        local = [self.local.popleft() for _ in range(min(len(self.local), 100))]
        if not entries and not local:
            return False
        by_job: dict[str, list[InboxEntry | LocalInput]] = defaultdict(list)
        for entry in entries:
            by_job[entry.job_id].append(entry)
        for item in local:
            by_job[item.job_id].append(item)
        self._handle(now, by_job, entries)
        return True

    def _handle(
        self, now: datetime, by_job: dict[str, list[InboxEntry | LocalInput]], entries: list[InboxEntry]
    ) -> None:
        foreign = self._owned.load(self._conn, by_job.keys())
        batch = Batch(self._turns)
        consumed: list[tuple[int, str]] = []
        held: list[tuple[str, int]] = []
        large = self._large_outputs(entries)
        for job_id, items in by_job.items():
            job = self._owned.get(job_id)
            if job is None or job_id in foreign:
                continue
            held.append((job_id, job.owner_epoch))
            self._decide(job, items, now, batch, large)
            consumed += [(item.inbox_id, job_id) for item in items if isinstance(item, InboxEntry)]
        if not held:
            return
        try:
            settled = settle(self._conn, self._me, held, consumed, now, batch.merged, self._crash_point)
        except psycopg.Error:
            self._owned.drop([job_id for job_id, _ in held])
            raise
        self._owned.drop(settled.lost | settled.torn)
        if not settled.committed:
            self._owned.drop([job_id for job_id, _ in held])
            return
        if entries:
            self._mark = max(self._mark, entries[-1].inbox_id)
        self.results += len(consumed)
        self._after_commit(batch, settled.lost, [job_id for job_id, _ in held])

    def _decide(
        self,
        job: OwnedJob,
        items: list[InboxEntry | LocalInput],
        now: datetime,
        batch: Batch,
        large: dict[str, Any],
    ) -> None:
        if job.is_new:
            job.is_new = False
            batch.take(job, resume(job.run, now))
        for item in items:
            if isinstance(item, LocalInput):
                batch.take(job, job.run.apply(item.given, now, self._jitter.random()))
            else:
                given = read_entry(self._conn, job, item, large)
                effects = job.run.apply(given, now, self._jitter.random())
                batch.take(job, effects, item.payload.get("command_id"))

    def _large_outputs(self, entries: list[InboxEntry]) -> dict[str, Any]:
        tasks = [
            str(entry.task_id)
            for entry in entries
            if entry.kind == "task_reported" and entry.payload["ok"] and "out" not in entry.payload
        ]
        return jobs.load_outputs(self._conn, tasks)

    def _after_commit(self, batch: Batch, lost: set[str], busy: list[str]) -> None:
        for job_id, node_id in batch.continues:
            if job_id not in lost:
                self.local.append(LocalInput(job_id, Continue(node_id)))
        self.aggregations.extend(item for item in batch.aggregations if item[0] not in lost)
        for job_id in batch.ended:
            job = self._owned.get(job_id)
            if job is not None:
                self._turns.forget(job_id, job.fairness_key, list(job.run.lanes))
        self._owned.drop(batch.ended)
        self._owned.trim(busy)

    def fire_timers(self) -> int:
        """Due retries and time-outs of my jobs."""
        due = inbox.due_timers(self._conn, self._me, BATCH)
        self.local.extend(
            LocalInput(job_id, TimerDue(node_id, attempt, Timer(timer))) for job_id, node_id, attempt, timer in due
        )
        return len(due)
