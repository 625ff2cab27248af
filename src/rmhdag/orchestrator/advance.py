"""The one way in which jobs advance: inbox rows of my jobs → engine → one guarded transaction for a batch of jobs.

Containment is here and nowhere else. Whatever one job's data does, in a query, in the engine or in the transaction, the
batch is split until that job stands alone, and it alone is tried again, later, and buried in the end. What a job that
dropped out of a batch was owed is given again: its aggregate is loaded anew from its rows.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter, defaultdict, deque
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from functools import partial
from time import monotonic
from typing import Any

import psycopg

from rmhdag.engine.inputs import Continue, SetWindow, TimerDue
from rmhdag.models.catalogue import CatalogueKind
from rmhdag.models.states import JobStatus
from rmhdag.observability.logs import get_logger
from rmhdag.orchestrator.batch import Batch
from rmhdag.orchestrator.decisions import TURN_WORK, Decided, Decisions, Item, Part
from rmhdag.orchestrator.fan_in_line import FanInLine, FanInRequest
from rmhdag.orchestrator.figures import Figures, in_short
from rmhdag.orchestrator.job_spans import record_job
from rmhdag.orchestrator.large_values import store_large_objects
from rmhdag.orchestrator.local_inputs import LocalInput
from rmhdag.orchestrator.loop_requests import LoopRequests
from rmhdag.orchestrator.own_files import OwnFiles
from rmhdag.orchestrator.owned_jobs import OwnedJob, OwnedJobs
from rmhdag.orchestrator.readings import discard_late_news, load_large_outputs, unpublished
from rmhdag.orchestrator.suspects import MOST_FAILURES, Suspects
from rmhdag.orchestrator.turns import Turns
from rmhdag.orchestrator.waiting_entries import WaitingEntries
from rmhdag.storage.settings import StorageSettings
from rmhdag.store import jobs, poison, tasks
from rmhdag.store.batch_rows import HeldJob
from rmhdag.store.connection import Conn
from rmhdag.store.inbox import InboxEntry
from rmhdag.store.publishing import PublishFailed
from rmhdag.store.settle import settle
from rmhdag.store.tasks import PUBLISHES
from rmhdag.store.verdicts import Verdict, judge

log = get_logger(__name__)

# Small enough that a job which has just come need not wait long for the one before it.
BATCH = 64
SMALLEST_BATCH = 8
LOCAL_BATCH = 100
CROWDED_SHARE = 20
CROWDED_SECONDS = 0.3
# What one transaction writes of values that may be large; a job that alone has more goes alone.
BATCH_BYTES = 4 * 1024 * 1024
MOST_HANDLED_JOBS = 10_000
MEASURED_EVERY = 8


class Advance(LoopRequests):
    """One connection, one batch at a time. Whatever goes wrong, the aggregates concerned are loaded again."""

    def __init__(
        self,
        conn: Conn,
        me: str,
        owned: OwnedJobs,
        catalogue: CatalogueKind = CatalogueKind.STATIC,
        storage: StorageSettings | None = None,
    ) -> None:
        super().__init__()
        self._conn = conn
        self._me = me
        self.owned = owned
        self._catalogue = catalogue
        self._own_files = OwnFiles(storage or StorageSettings())
        self._turns = Turns(lambda queue, after: tasks.first_waiting(self._conn, queue, after))
        self._waiting = WaitingEntries(self._namespace_of)
        self._suspects = Suspects()
        self._decisions = Decisions(self._put_back)
        self._batch_size = BATCH
        self._crowded_until = 0.0
        # What the expressions of each namespace took in this turn; the jobs that therefore wait for the next one.
        self._spent: Counter[str] = Counter()
        self._put_off: set[str] = set()
        # Jobs of a transaction of which nobody knows whether it was committed.
        self._in_doubt: set[str] = set()
        self.fan_ins = FanInLine()
        self.callbacks_written = threading.Event()
        self.catalogue_written = threading.Event()
        self.figures = Figures()
        # Jobs with results that their rows do not yet show as processed.
        self.handled_jobs: set[str] = set()

    def use(self, conn: Conn) -> None:
        """Instead of a connection that broke. Only the batch under way is in doubt; all other aggregates stay."""
        self._conn = conn
        self._waiting.read_again()

    @property
    def whole_read_seconds(self) -> float:
        """How long the last read of the whole inbox took."""
        return self._waiting.whole_read_seconds

    def sizes(self) -> dict[str, int]:
        """How much is held of everything that could grow."""
        return {
            **self.local.lengths(),
            "waiting_entries": len(self._waiting),
            "suspects": len(self._suspects),
            "in_doubt": len(self._in_doubt),
            "known_jobs": len(self._known),
            "namespaces": len(self._namespaces),
            "reclaimed": len(self._decisions.reclaimed),
            "turns": len(self._turns),
            "fan_ins": len(self.fan_ins),
            "handled_jobs": len(self.handled_jobs),
            "put_off": len(self._put_off),
            "aggregates": len(self.owned),
        }

    # -- from other threads ------------------------------------------------------------------------------------

    def unknown(self, job_ids: Iterable[str]) -> list[str]:
        """Which of these this process has never heard of: their claim was committed and its answer lost."""
        return [job_id for job_id in job_ids if job_id not in self._known and not self.attends_to(job_id)]

    def attends_to(self, job_id: str) -> bool:
        """Whether the job is in line, or put off for a reason."""
        return self.local.holds_start_of(job_id) or job_id in self._suspects or job_id in self._in_doubt

    def note_reclaimed(self, job_id: str, from_owner: str, silent_seconds: float) -> None:
        data = {"from": from_owner, "to": self._me, "silent_seconds": round(silent_seconds, 1)}
        self._decisions.reclaimed[job_id] = data

    @property
    def windows(self) -> dict[str, int]:
        """Limits of tasks in each queue."""
        return self._decisions.windows

    def set_window(self, queue: str, limit: int) -> None:
        """Backpressure, for the jobs in memory now and for those that come."""
        self.windows[queue] = limit
        self.give([LocalInput(job_id, SetWindow(queue, limit)) for job_id in self.owned.cached_ids()])

    # -- the turn --------------------------------------------------------------------------------------------------

    def run_once(self, *, whole_inbox: bool = False) -> bool:
        """Handle one batch; False if there was nothing to do. `whole_inbox` reads below the mark too."""
        self._bell.take()
        began = self.figures.begin_cycle()
        self._hear_others()
        self._resolve_doubts()
        now = self._waiting.read(self._conn, self._me, whole=whole_inbox)
        if whole_inbox:
            self._turns.look_at_queues()
        # From here on what was taken is either handled or put back.
        local = self.local.take(max(1, LOCAL_BATCH * self._batch_size // BATCH))
        # A result that is waiting makes the timer of its task stale.
        due = {(item.job_id, item.given.node_id) for item in local if isinstance(item.given, TimerDue)}
        # While several jobs are served, none fills a turn: a small one waits for turns, and they should be short.
        most = CROWDED_SHARE if monotonic() < self._crowded_until else None
        entries = self._waiting.take(self._batch_size, due, most)
        if not entries and not local:
            self.figures.phase = "idle"
            return False
        items: Part = defaultdict(list)
        # Timers come after the inbox.
        batch: list[Item] = [*entries, *local]
        for item in batch:
            items[item.job_id].append(item)
        if len(items) > 1:
            self._crowded_until = monotonic() + CROWDED_SECONDS
        self._spent.clear()
        if self._put_off:
            items = defaultdict(list, sorted(items.items(), key=lambda pair: pair[0] not in self._put_off))
            self._put_off.clear()
        work = deque([items])
        try:
            work = deque(self._parts(items))
            has_work = bool(work)  # not if all of it has to wait: for a pause, or for a transaction in doubt
            while work:
                rest = self._handle(now, work[0])
                work.popleft()
                work.extendleft(reversed(rest))
        except Exception as error:
            # Inbox rows are still there; what lives only in memory must not be lost with the failed batch.
            for part in work:
                self._put_back(part)
            self._batch_size = max(SMALLEST_BATCH, self._batch_size // 2)
            self.figures.note_error(error)
            raise
        self._batch_size = min(BATCH, self._batch_size * 2)
        self.figures.end_cycle(began, len(self._waiting) + len(self.local))
        return has_work

    def _hear_others(self) -> None:
        reload, forget = self._take_requests()
        self.owned.drop(reload)
        for job_id in forget:
            self._forget(job_id)
        if self._suspects and (due := self._suspects.due(monotonic())):
            self.take_over(due)
            self._waiting.read_again()

    def _resolve_doubts(self) -> None:
        """A reconnect is a reclaim from oneself: the new epoch waits for the old transaction, or fences it.

        Jobs that it still holds locked stay in doubt; they wait, the others go on.
        """
        if self._in_doubt:
            self._in_doubt -= jobs.reclaim_from_myself(self._conn, self._me, self._in_doubt)

    def _parts(self, items: Part) -> list[Part]:
        """The batch, and jobs that go alone: suspects, and those that publish, because what the catalogue takes or
        refuses is not the others' affair."""
        now = monotonic()
        for job_id in self._in_doubt & items.keys():
            self._put_back({job_id: items.pop(job_id)})
        alone = {job_id for job_id in items if job_id in self._suspects} if self._suspects else set()
        for job_id in alone:
            if not self._suspects.may_try(job_id, now):
                # Its rows stay in the inbox, and all else follows from its rows: after its pause it is loaded anew.
                del items[job_id]
        for job_id, inputs in items.items():
            for item in inputs:
                if isinstance(item, InboxEntry) and "order_key" in item.payload:
                    self._turns.queue_is_at(item.payload["queue"], item.payload["order_key"])
                    if PUBLISHES in item.payload:
                        alone.add(job_id)
        apart = [{job_id: items.pop(job_id)} for job_id in list(items) if job_id in alone]
        return [part for part in (dict(items), *apart) if part]

    def _put_back(self, part: Mapping[str, list[Item]]) -> None:
        """Items of jobs whose aggregates are untouched. Timers are given again by the duty, from the rows."""
        local = [item for items in part.values() for item in items if isinstance(item, LocalInput)]
        self.local.give([item for item in local if not isinstance(item.given, TimerDue)])
        self._waiting.read_again()

    def _load_again(self, job_ids: Collection[str]) -> None:
        """What these jobs are in memory is in doubt, and what they were given is owed by their rows."""
        self.owned.drop(job_ids)
        self._waiting.read_again()
        self.take_over(job_ids)

    def _forget(self, job_id: str) -> None:
        """The job has ended or belongs to somebody else: nothing of it stays in memory."""
        self.owned.drop([job_id])
        self._turns.forget(job_id)
        self._suspects.forget(job_id)
        self._known.pop(job_id, None)
        self._namespaces.pop(job_id, None)
        self._decisions.reclaimed.pop(job_id, None)
        self._in_doubt.discard(job_id)

    # -- one part --------------------------------------------------------------------------------------------------

    def _handle(self, now: datetime, part: Part) -> list[Part]:
        """Decide and write; what is left of the part, if it has to be split."""
        rest: Part = {}
        touched: set[str] = set()
        self._put_off_spenders(part)
        if not part:
            return []
        try:
            self.figures.phase = "deciding"
            batch = Batch(self._turns, self._catalogue, partial(store_large_objects, self._conn), self._own_files)
            held: dict[str, Decided] = {}
            expression_work = 0
            present = self._load(part)
            large = self._read_along(part)
            for job_id, items in part.items():
                if batch.size_bytes > BATCH_BYTES or expression_work > TURN_WORK:
                    rest[job_id] = items
                elif (job := present.get(job_id)) is not None:
                    touched.add(job_id)
                    work = self._decide(job, items, now, batch, held, large)
                    expression_work += work
                    self._spent[job.namespace] += work
                    if job_id not in held:
                        touched.discard(job_id)  # it is to blame itself, and has no part in what the others suffer
            if held:
                self._write(now, part, batch, held)
        except Exception as error:
            guilty = {job_id: items for job_id, items in part.items() if job_id in touched} or part
            rest = {job_id: items for job_id, items in part.items() if job_id not in guilty}
            self.owned.drop(guilty)
            split = self._unpublish if isinstance(error, PublishFailed) else self._split_or_blame
            return [*split(guilty, error), *([rest] if rest else [])]
        return [rest] if rest else []

    def _put_off_spenders(self, part: Part) -> None:
        """Jobs of a namespace whose expressions have taken their time wait for the next turn, before which all others
        are looked at."""
        late = {job_id for job_id in part if self._spent[self._namespaces.get(job_id, "")] > TURN_WORK}
        if late:
            self._put_off |= late
            self._put_back({job_id: part.pop(job_id) for job_id in list(part) if job_id in late})

    def _split_or_blame(self, part: Part, error: Exception) -> list[Part]:
        """A batch that the data spoils is split until the job to blame stands alone."""
        verdict = judge(error, self._conn)
        if verdict is Verdict.CIRCUMSTANCES:
            self._load_again(part)
            raise error
        if len(part) == 1:
            self._blame(next(iter(part)), error, verdict)
            if self._conn.closed:
                raise error
            return []
        log.warning("batch_split", jobs=len(part), error=in_short(error))
        if verdict is Verdict.SLOW:
            # Not by halves: each half that holds the slow one would take as long again.
            self._suspects.add(set(part))
            if self._conn.closed:
                self._load_again(part)
                raise error
            return [{job_id: items} for job_id, items in part.items()]
        names = list(part)
        halves = names[: len(names) // 2], names[len(names) // 2 :]
        return [{job_id: part[job_id] for job_id in half} for half in halves]

    def _unpublish(self, part: Part, error: Exception) -> list[Part]:
        """Nothing was written. One by one, until the report whose records are refused stands alone: it has failed."""
        items = [(job_id, item) for job_id, items in part.items() for item in items]
        if len(items) > 1:
            return [{job_id: [item]} for job_id, item in items]
        ((job_id, item),) = items
        if isinstance(item, InboxEntry) and PUBLISHES in item.payload:
            log.warning("records_refused", job_id=job_id, node_id=item.node_id, error=str(error))
            return [{job_id: [unpublished(item, str(error))]}]
        self._blame(job_id, error, Verdict.DATA)
        return []

    def _load(self, part: Part) -> dict[str, OwnedJob]:
        """The jobs of the part that are in memory now. Others are forgotten, put off, or to blame themselves."""
        loaded = self.owned.load(self._conn, part.keys())
        if loaded.postponed:
            # They did not fit into this turn, and go to the end of the line.
            self._put_back({job_id: part.pop(job_id) for job_id in list(part) if job_id in loaded.postponed})
        present = {job_id: job for job_id in part if (job := self.owned.get(job_id)) is not None}
        for job_id, job in present.items():
            self._namespaces[job_id] = job.namespace
        if len(present) < len(part):
            for job_id in part.keys() - present.keys() - {failure.job_id for failure in loaded.unloadable}:
                self._forget(job_id)
        for failure in loaded.unloadable:
            self._blame(failure.job_id, failure.error, Verdict.DATA)
        return present

    def _read_along(self, part: Part) -> dict[str, Any]:
        """What entries of the part refer to; entries that are void are taken out of it."""
        entries = [item for items in part.values() for item in items if isinstance(item, InboxEntry)]
        late = discard_late_news(self._conn, self._me, entries)
        if late:
            for job_id, items in part.items():
                part[job_id] = [item for item in items if not (isinstance(item, InboxEntry) and item.inbox_id in late)]
        return load_large_outputs(self._conn, entries)

    def _decide(
        self,
        job: OwnedJob,
        items: list[Item],
        now: datetime,
        batch: Batch,
        held: dict[str, Decided],
        large: dict[str, Any],
    ) -> int:
        """The work of the job's expressions. An exception is that job's, and leaves the batch as it was."""
        job_id, had_ended = job.job_id, job.run.is_terminal
        try:
            self._decisions.decide(self._conn, job, items, now, batch, large)
        except Exception as error:
            batch.forget(job_id)
            self.owned.drop([job_id])
            verdict = judge(error, self._conn)
            if verdict is not Verdict.DATA:
                raise
            self._blame(job_id, error, verdict, job)
        else:
            held[job_id] = Decided(job, had_ended)
        return self._decisions.work

    def _write(self, now: datetime, part: Part, batch: Batch, held: Mapping[str, Decided]) -> None:
        self.figures.phase = "writing"
        inbox_ids = [
            (item.inbox_id, job_id) for job_id in held for item in part[job_id] if isinstance(item, InboxEntry)
        ]
        fenced = [HeldJob(job_id, decided.job.owner_epoch, decided.had_ended) for job_id, decided in held.items()]
        try:
            settled = settle(self._conn, self._me, fenced, inbox_ids, now, batch.merged)
        except Exception as error:
            if judge(error, self._conn) is not Verdict.DATA:
                self._in_doubt.update(held)
            raise
        if settled.dropped:
            # Somebody else owns them, or was quicker: look again at those that are still mine.
            self._load_again(settled.dropped)
            if len(held) == 1 and settled.torn:
                self._suspects.put_off(next(iter(held)), monotonic())
        if settled.written:
            self._suspects.note_commit(settled.written)
        moved = monotonic()
        for job_id in settled.written:
            self._known[job_id] = moved
        if len(self.handled_jobs) < MOST_HANDLED_JOBS:
            self.handled_jobs.update(settled.written)
        self.figures.counts["results_processed"] += len(inbox_ids)
        self.figures.counts["tasks_dispatched"] += batch.count_tasks(settled.dropped)
        self._after_commit(batch, settled.dropped, held)

    def _after_commit(self, batch: Batch, dropped: set[str], held: Mapping[str, Decided]) -> None:
        self.local.give(
            [LocalInput(job_id, Continue(node_id)) for job_id, node_id in batch.continues if job_id not in dropped]
        )
        for job_id, request in batch.aggregations:
            if job_id not in dropped:
                job = held[job_id].job
                self.fan_ins.add(FanInRequest(job_id, job.run.plan, job.namespace, request))
        if batch.publishes:
            self.catalogue_written.set()
        if batch.announces:
            self.callbacks_written.set()
        ended = [job_id for job_id in batch.ended if job_id not in dropped]
        for job_id in ended:
            job = held[job_id].job
            if job.tells_end:
                self.callbacks_written.set()
            self._tell_end(job)
        for job_id, decided in held.items():
            # Also one that had ended before, and was loaded again for what it was told too late.
            if decided.job.run.is_terminal and job_id not in dropped:
                self._forget(job_id)
        # Jobs grow slowly: to measure each of them in each turn takes two per cent of the time.
        if self.owned.is_full or self.figures.counts["cycles"] % MEASURED_EVERY == 0:
            self.owned.trim(held.keys())
        self.figures.counts["jobs_ended"] += len(ended)

    def _tell_end(self, job: OwnedJob) -> None:
        record_job(job)
        status = job.run.status
        if status is not JobStatus.COMPLETED:
            log.info("job_ended", job_id=job.job_id, status=status, error=job.run.error_message)
        elif log.is_enabled_for(logging.DEBUG):
            log.debug("job_ended", job_id=job.job_id, status=status)

    # -- a job to blame --------------------------------------------------------------------------------------------

    def _blame(self, job_id: str, error: Exception, verdict: Verdict, job: OwnedJob | None = None) -> None:
        """A failure of one job alone: try it again from its rows, and after three times let it fail by itself."""
        failures = self._suspects.blame(job_id, verdict, monotonic())
        log.error("job_cannot_advance", job_id=job_id, times=failures, error=in_short(error))
        self.figures.note_error(error)
        if failures < MOST_FAILURES or self._conn.closed:
            # Its inbox rows are read again after a pause; what came without a row is found by loading it.
            return
        try:
            message = f"engine_error: {in_short(error)}"
            head = jobs.owned_head(self._conn, self._me, job_id)
            if head is not None and poison.bury_job(self._conn, self._me, job_id, *head, message):
                self.figures.counts["jobs_poisoned"] += 1
                if job is not None:
                    record_job(job, JobStatus.FAILED)
            self._forget(job_id)
        except psycopg.Error as unburied:
            # It stays a suspect, and is tried again after its pause.
            log.error("job_cannot_be_buried", job_id=job_id, error=in_short(unburied))
            if judge(unburied, self._conn) is Verdict.CIRCUMSTANCES:
                raise
