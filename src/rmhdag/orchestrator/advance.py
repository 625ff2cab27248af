"""The one way in which jobs advance: inbox rows of my jobs → engine → one guarded transaction for a batch of jobs."""

from __future__ import annotations

import logging
import os
import threading
from collections import Counter, defaultdict, deque
from collections.abc import Collection, Mapping
from contextlib import suppress
from datetime import datetime
from functools import partial
from random import Random
from typing import Any, NamedTuple

import psycopg

from rmhdag.engine.effects import AggregationRequested
from rmhdag.engine.inputs import Continue, Input, SetWindow, Start, TimerDue
from rmhdag.engine.loading import resume
from rmhdag.engine.plan import Plan
from rmhdag.models.catalogue import CatalogueKind
from rmhdag.models.events import EventStatus, EventType
from rmhdag.models.states import JobStatus
from rmhdag.observability.logs import get_logger
from rmhdag.orchestrator.batch import Batch
from rmhdag.orchestrator.figures import Figures, in_short
from rmhdag.orchestrator.job_spans import record_job
from rmhdag.orchestrator.large_values import store_large_objects
from rmhdag.orchestrator.owned_jobs import OwnedJob, OwnedJobs, Unloadable
from rmhdag.orchestrator.readings import read_entry, unpublished
from rmhdag.orchestrator.reruns import start_of
from rmhdag.orchestrator.submissions import UnknownWorkflowError, child_job_row
from rmhdag.orchestrator.turns import Turns
from rmhdag.orchestrator.waiting_entries import WaitingEntries
from rmhdag.store import inbox, jobs, poison, tasks
from rmhdag.store.channels import NEW_JOBS
from rmhdag.store.inbox import InboxEntry
from rmhdag.store.publishing import PublishFailed
from rmhdag.store.settle import settle
from rmhdag.store.tasks import PUBLISHES
from rmhdag.workflow import InvalidInputs

log = get_logger(__name__)

Conn = psycopg.Connection[Any]
# Small enough that a job which has just come need not wait long for the one before it.
BATCH = 64
LOCAL_BATCH = 100
OF_A_LEASE = ("task_started", "task_snoozed")
POISON_AFTER = 3
MOST_HANDLED_JOBS = 10_000
# What the data itself is to blame for; everything else is worth another try.
DATA_ERRORS = (psycopg.DataError, psycopg.IntegrityError, psycopg.ProgrammingError, psycopg.NotSupportedError)


class LocalInput(NamedTuple):
    """An input that needs no row: after a crash it is made again, because the rows show that it is owed."""

    job_id: str
    given: Input


Item = InboxEntry | LocalInput


class Advance:
    """One connection, one batch at a time. Whatever goes wrong, the aggregates concerned are loaded again."""

    def __init__(self, conn: Conn, me: str, owned: OwnedJobs, catalogue: CatalogueKind = CatalogueKind.STATIC) -> None:
        self._conn = conn
        self._me = me
        self.owned = owned
        self._catalogue = catalogue
        self._turns = Turns(lambda queue, after: tasks.first_waiting(self._conn, queue, after))
        self._jitter = Random()
        self._waiting = WaitingEntries()
        self._local: deque[LocalInput] = deque()
        self._reclaimed: dict[str, dict[str, Any]] = {}
        self._failures: Counter[str] = Counter()
        self._bell_out, self._bell_in = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.aggregations: deque[tuple[str, Plan, str, AggregationRequested]] = deque()
        self.aggregation_wanted = threading.Event()
        self.callbacks_written = threading.Event()
        self.catalogue_written = threading.Event()
        self.windows: dict[str, int] = {}
        self.figures = Figures()
        # Jobs with results that their rows do not yet show as processed.
        self.handled_jobs: set[str] = set()

    def use(self, conn: Conn) -> None:
        """Instead of a connection that broke."""
        self._conn = conn

    @property
    def whole_read_seconds(self) -> float:
        """How long the last read of the whole inbox took."""
        return self._waiting.whole_read_seconds

    # -- from other threads ------------------------------------------------------------------------------------

    def give(self, items: Collection[LocalInput]) -> None:
        self._local.extend(items)
        self.wake()

    def take_over(self, job_ids: Collection[str]) -> None:
        """Jobs that became mine: those that never began begin, the others go on where their rows say."""
        self.give([LocalInput(job_id, Start()) for job_id in job_ids])

    def note_reclaimed(self, job_id: str, from_owner: str, silent_seconds: float) -> None:
        self._reclaimed[job_id] = {"from": from_owner, "to": self._me, "silent_seconds": round(silent_seconds, 1)}

    def set_window(self, queue: str, limit: int) -> None:
        """Backpressure, for the jobs in memory now and for those that come."""
        self.windows[queue] = limit
        self.give([LocalInput(job_id, SetWindow(queue, limit)) for job_id in self.owned.cached_ids()])

    def wake(self) -> None:
        with suppress(BlockingIOError):  # it rings already
            os.write(self._bell_in, b"!")

    def fileno(self) -> int:
        """Readable when another thread has left something to do."""
        return self._bell_out

    def close(self) -> None:
        os.close(self._bell_in)
        os.close(self._bell_out)

    # -- the turn --------------------------------------------------------------------------------------------------

    def run_once(self, *, whole_inbox: bool = False) -> bool:
        """Handle one batch; False if there was nothing to do. `whole_inbox` reads below the mark too."""
        with suppress(BlockingIOError):
            os.read(self._bell_out, 4096)
        began = self.figures.begin_cycle()
        now = self._waiting.read(self._conn, self._me, whole=whole_inbox)
        local = [self._local.popleft() for _ in range(min(len(self._local), LOCAL_BATCH))]
        # A result that is waiting makes the timer of its task stale.
        due = {(item.job_id, item.given.node_id) for item in local if isinstance(item.given, TimerDue)}
        entries = self._waiting.take(BATCH, due)
        if whole_inbox:
            self._turns.look_at_queues()
        if not entries and not local:
            self.figures.phase = "idle"
            return False
        items: dict[str, list[Item]] = defaultdict(list)
        publishing: set[str] = set()
        # Timers come after the inbox.
        for entry in self._without_late_news(entries):
            items[entry.job_id].append(entry)
            if "order_key" in entry.payload:
                self._turns.queue_is_at(entry.payload["queue"], entry.payload["order_key"])
                if PUBLISHES in entry.payload:
                    publishing.add(entry.job_id)
        for item in local:
            items[item.job_id].append(item)
        large = self._large_outputs(entries)
        # A job that has spoilt a batch goes alone until it is well or buried: the others have been halved once for it.
        # One that publishes goes alone as well: what the catalogue takes, or refuses, is not the others' affair.
        apart = [job_id for job_id in items if job_id in self._failures or job_id in publishing]
        alone = [{job_id: items.pop(job_id)} for job_id in apart]
        try:
            for part in (items, *alone):
                if part:
                    self._handle(now, part, large)
        except psycopg.Error:
            # Inbox rows are still there; what lives only in memory must not be lost with the failed batch.
            self._local.extendleft(reversed(local))
            self._waiting.read_again()
            raise
        self.figures.end_cycle(began, len(self._waiting) + len(self._local))
        return True

    def _handle(self, now: datetime, items: Mapping[str, list[Item]], large: dict[str, Any]) -> None:
        """Decide and write; a batch that the data spoils is halved until the job to blame stands alone."""
        self.figures.phase = "deciding"
        for unloadable in self.owned.load(self._conn, items.keys()):
            self._blame(unloadable, unloadable.error)
        batch = Batch(self._turns, self._catalogue, partial(store_large_objects, self._conn))
        held: dict[str, OwnedJob] = {}
        for job_id, todo in items.items():
            job = self.owned.get(job_id)
            if job is not None and self._decide(job, todo, now, batch, large):
                held[job_id] = job
        if not held:
            return
        try:
            self._write(now, items, batch, held)
        except PublishFailed as error:
            self.owned.drop(held)
            self._unpublish(now, items, large, error)
        except DATA_ERRORS as error:
            self.owned.drop(held)
            if len(held) == 1:
                self._blame(next(iter(held.values())), error)
                return
            names = list(held)
            for half in (names[: len(names) // 2], names[len(names) // 2 :]):
                self._handle(now, {job_id: items[job_id] for job_id in half}, large)
        except psycopg.Error:
            self.owned.drop(held)
            raise

    def _unpublish(
        self, now: datetime, items: Mapping[str, list[Item]], large: dict[str, Any], error: PublishFailed
    ) -> None:
        """Nothing was written. One by one, until the report whose records are refused stands alone: it has failed."""
        for job_id, todo in items.items():
            for item in todo:
                if len(items) == len(todo) == 1 and isinstance(item, InboxEntry) and PUBLISHES in item.payload:
                    log.warning("records_refused", job_id=job_id, node_id=item.node_id, error=str(error))
                    item = unpublished(item, str(error))
                self._handle(now, {job_id: [item]}, large)

    def _decide(self, job: OwnedJob, todo: list[Item], now: datetime, batch: Batch, large: dict[str, Any]) -> bool:
        try:
            if job.is_new:
                job.is_new = False
                for queue, limit in self.windows.items():
                    batch.take(job, job.run.apply(SetWindow(queue, limit), now))
                effects = resume(job.run, now)
                self._tell_reclaim(job)
                batch.take(job, effects)
            for item in todo:
                if isinstance(item, LocalInput):
                    local = self._start_of(job) if isinstance(item.given, Start) else item.given
                    batch.take(job, job.run.apply(local, now, self._jitter.random()))
                    if isinstance(local, Start):
                        batch.take_over(job.job_id, local)
                else:
                    given = read_entry(self._conn, job, item, large)
                    effects = job.run.apply(given, now, self._jitter.random())
                    batch.take(job, effects, item.payload.get("command_id"))
        except psycopg.Error:
            raise
        except Exception as error:
            batch.forget(job.job_id)
            self.owned.drop([job.job_id])
            self._blame(job, error)
            return False
        return True

    def _start_of(self, job: OwnedJob) -> Start:
        """A rerun that has not begun brings along what is finished."""
        if job.rerun_of is None or job.rerun is None or job.run.status is not JobStatus.PENDING:
            return Start()
        return start_of(self._conn, job.namespace, job.rerun_of, job.rerun, job.run.plan)

    def _tell_reclaim(self, job: OwnedJob) -> None:
        told = self._reclaimed.pop(job.job_id, None)
        if told is not None and not job.run.is_terminal:
            job.run.record(EventType.JOB_RECLAIMED, EventStatus.WARNING, None, told)

    def _write(
        self, now: datetime, items: Mapping[str, list[Item]], batch: Batch, held: Mapping[str, OwnedJob]
    ) -> None:
        self.figures.phase = "writing"
        inbox_ids = [
            (item.inbox_id, job_id) for job_id in held for item in items[job_id] if isinstance(item, InboxEntry)
        ]
        self._resolve_child_jobs(batch, held)
        epochs = [(job_id, job.owner_epoch) for job_id, job in held.items()]
        settled = settle(self._conn, self._me, epochs, inbox_ids, now, batch.merged)
        if not settled.committed:
            # Somebody else owns them, or an earlier commit went through although it seemed to fail: look again.
            self.owned.drop(held)
            self._waiting.read_again()
            return
        self.owned.drop(settled.lost)
        # Only these: a job that spoils its batches must not be forgiven because the others went through.
        for job_id in held:
            self._failures.pop(job_id, None)
        if len(self.handled_jobs) < MOST_HANDLED_JOBS:
            self.handled_jobs.update(held)
        self.figures.counts["results_processed"] += len(inbox_ids)
        self.figures.counts["tasks_dispatched"] += batch.count_tasks(settled.lost)
        self._after_commit(batch, settled.lost, held)

    def _resolve_child_jobs(self, batch: Batch, held: Mapping[str, OwnedJob]) -> None:
        """A child job that cannot be made has failed before it began: its parent hears so like of any other end."""
        for job_id, wanted in batch.child_requests:
            parent, writes = held[job_id], batch.jobs[job_id].rare
            try:
                writes.child_jobs.append(child_job_row(self._conn, parent, wanted))
            except (UnknownWorkflowError, InvalidInputs) as error:
                told = {"child_job_id": wanted.child_job_id, "status": "failed", "error_message": str(error)}
                writes.parents.append([job_id, wanted.node_id, told])
            writes.channels.add(NEW_JOBS)

    def _after_commit(self, batch: Batch, lost: set[str], held: Mapping[str, OwnedJob]) -> None:
        self._local.extend(
            LocalInput(job_id, Continue(node_id)) for job_id, node_id in batch.continues if job_id not in lost
        )
        for job_id, wanted in batch.aggregations:
            if job_id not in lost:
                self.aggregations.append((job_id, held[job_id].run.plan, held[job_id].namespace, wanted))
                self.aggregation_wanted.set()
        if batch.publishes:
            self.catalogue_written.set()
        if any(held[job_id].tells_end for job_id in batch.ended):
            self.callbacks_written.set()
        for job_id in batch.ended:
            self._tell_end(held[job_id], job_id in lost)
            self._turns.forget(job_id, held[job_id].fairness_key, list(held[job_id].run.lanes))
        self.owned.drop(batch.ended)
        self.owned.trim(held.keys())
        self.figures.counts["jobs_ended"] += len(batch.ended)

    def _tell_end(self, job: OwnedJob, lost: bool) -> None:
        if lost:
            return
        record_job(job)
        status = job.run.status
        if status is not JobStatus.COMPLETED:
            log.info("job_ended", job_id=job.job_id, status=status, error=job.run.error_message)
        elif log.is_enabled_for(logging.DEBUG):
            log.debug("job_ended", job_id=job.job_id, status=status)

    def _blame(self, job: OwnedJob | Unloadable, error: Exception) -> None:
        """An exception of one job: try it again from its rows, and after three times let it fail by itself."""
        self._failures[job.job_id] += 1
        log.error("job_cannot_advance", job_id=job.job_id, times=self._failures[job.job_id], error=in_short(error))
        self.figures.note_error(error)
        if self._failures[job.job_id] >= POISON_AFTER:
            message = f"engine_error: {in_short(error)}"
            poison.bury_job(self._conn, self._me, job.job_id, job.owner_epoch, job.namespace, message)
            del self._failures[job.job_id]
            if isinstance(job, OwnedJob):
                record_job(job, JobStatus.FAILED)
            self.figures.counts["jobs_poisoned"] += 1
        else:
            # Its inbox rows are read again; what came without a row is owed by its rows and found by loading them.
            self._waiting.read_again()
            self.take_over([job.job_id])

    def _without_late_news(self, entries: list[InboxEntry]) -> list[InboxEntry]:
        """Starts and the like of a lease that is over would make a task look alive that waits in its queue again."""
        news = [entry.task_id for entry in entries if entry.kind in OF_A_LEASE and entry.task_id is not None]
        if not news:
            return entries
        current = tasks.current_leases(self._conn, news)
        late = {
            entry.inbox_id
            for entry in entries
            if entry.kind in OF_A_LEASE and current.get(str(entry.task_id)) != entry.lease_epoch
        }
        if late:
            inbox.discard(self._conn, self._me, late)
        return [entry for entry in entries if entry.inbox_id not in late]

    def _large_outputs(self, entries: list[InboxEntry]) -> dict[str, Any]:
        """For the whole batch; a row that makes no sense is left for its job to stumble over."""
        finished = [
            str(entry.task_id)
            for entry in entries
            if entry.kind == "task_reported" and entry.payload.get("ok") and "out" not in entry.payload
        ]
        children = [
            entry.payload["child_job_id"]
            for entry in entries
            if entry.kind == "child_job_ended" and "child_job_id" in entry.payload
        ]
        return jobs.load_outputs(self._conn, finished) | jobs.load_results(self._conn, children)
