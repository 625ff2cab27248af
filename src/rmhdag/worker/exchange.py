"""Everything a worker says to the platform and hears from it, in a thread of its own.

The supervisor never waits for the other side: it leaves things here and is told what came. While that is away, what was
left here stays, and is sent when it is back. Logs and checkpoints of a task go before its report.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple

from rmhdag.messaging.wake import Wake
from rmhdag.models.leases import CheckpointToSave, ClaimedTask, LogChunk, Pair, ReturnedLease, TaskProgress
from rmhdag.observability.logs import get_logger
from rmhdag.observability.supervision import Loop, Supervisor
from rmhdag.worker.references import may_hold_reference
from rmhdag.worker.reports import BATCH, Finished, report_batch, take_batch
from rmhdag.worker.settings import WorkerSettings
from rmhdag.worker.suspects import Suspects
from rmhdag.worker.task_secrets import TaskSecrets
from rmhdag.worker.transport import Failed, Identity, NotAllowed, Refused, Transport, TransportError, Unreachable
from rmhdag.worker.unread import Unread
from rmhdag.worker.waiting import Waiting

log = get_logger(__name__)
CLAIM_LIMIT = 500
# Whatever the other side asks for: longer, and our leases would not be ours any more.
MOST_PAUSE_SECONDS = 5.0
# However little there is to do, the loop comes round: its age is what shows that it lives.
MOST_WAIT_SECONDS = 5.0
# An error that nobody expected is taken for the data's fault once it has come back this often.
MOST_SURPRISES = 2


class Claimed(NamedTuple):
    worker_id: str
    tasks: list[ClaimedTask]
    refused: list[tuple[ClaimedTask, str]]


class LeasesChecked(NamedTuple):
    """What the rows say about our leases: told to stop, or ours no more."""

    to_stop: list[Pair]
    gone: list[Pair]


class StartsMarked(NamedTuple):
    asked: list[Pair]
    matched: set[str]


class CheckpointSaved(NamedTuple):
    pair: Pair
    refusal: str | None


class Registered(NamedTuple):
    worker_id: str


Heard = Claimed | LeasesChecked | StartsMarked | CheckpointSaved | Registered | Failed


class Exchange:
    def __init__(
        self,
        settings: WorkerSettings,
        transport: Transport,
        hear: Callable[[Heard], None],
        is_trusted: Callable[[], bool],
        before: str | None = None,
    ) -> None:
        """`before` is the worker of an earlier life that may still hold something."""
        self._settings = settings
        self._transport = transport
        self._hear = hear
        self._is_trusted = is_trusted
        self._lock = threading.Lock()
        self._is_quiet = threading.Condition(self._lock)
        self._identity: Identity | None = None
        self._registered: Identity | None = None
        self._before = before
        self._finished: Waiting[Finished] = Waiting()
        self._released: Waiting[ReturnedLease] = Waiting()
        self._starts: Waiting[Pair] = Waiting()
        # The newest of each lease: an older one that was not saved yet is of no use to anybody.
        self._checkpoints: dict[Pair, CheckpointToSave] = {}
        self._progress: dict[Pair, TaskProgress] = {}
        self._logs: Waiting[LogChunk] = Waiting()
        self._room = 0
        self._passed_on_total = 0
        # What we hold by our own account, to be compared with the rows.
        self._known: dict[str, int] = {}
        self._unread = Unread(settings.unread_seconds)
        self._secrets = TaskSecrets()
        self._may_hold_more = False
        self._told: set[Pair] = set()
        self._is_stopped = False
        self._is_busy = False
        self._is_unheard = False
        self._looks_promising = True
        self._looked_at = 0.0
        self._checked_at = 0.0
        self._suspects = Suspects()
        self._claims_no_more = False
        self._failures = 0
        self._surprises = 0
        self._wake = Wake()
        self._has_ended = threading.Event()

    def start(self, supervisor: Supervisor) -> None:
        self._transport.start(supervisor)
        supervisor.start("exchange", self._run, self._settings.stuck_seconds)

    def become(self, identity: Identity) -> None:
        """From now on speak as this worker; what was said as the one before is void."""
        with self._lock:
            self._identity = identity
            for waiting in (self._finished, self._released, self._starts, self._logs):
                waiting.clear()
            self._checkpoints.clear()
            self._progress.clear()
            self._known.clear()
            self._told.clear()
            self._unread = Unread(self._settings.unread_seconds)
            self._secrets.clear()
            self._room = 0
        self.wake()

    def offer_room(self, room: int, tasks_seen: int) -> None:
        """Claim up to `room` tasks, less those passed on since the supervisor last looked."""
        with self._lock:
            before = self._room
            self._room = 0 if self._claims_no_more else room - (self._passed_on_total - tasks_seen)
        if before <= 0 < self._room:
            self.wake()

    def claim_no_more(self) -> None:
        """The worker is about to stop."""
        self._claims_no_more = True

    def passed_on(self) -> set[Pair]:
        """Leases that the crew must know: those that wait here, to be read or to be sent, are not among them."""
        here = {(one.task.task_id, one.task.lease_epoch) for one in self._finished.first()}
        here.update((one.task_id, one.lease_epoch) for one in self._released.first())
        here.update(self._unread.pairs())
        return set(self._known.copy().items()) - here

    def counts(self) -> dict[str, int]:
        """Leases that are with neither the crew nor a child: not read yet, or ended and not reported yet."""
        return {"tasks_unread": len(self._unread), "tasks_unreported": len(self._finished) + len(self._released)}

    def left_behind(self) -> tuple[list[Finished], list[ReturnedLease]]:
        """Results and leases that were not sent, for whoever tries it after this exchange has been given up."""
        unread = [ReturnedLease(*pair) for pair in self._unread.pairs()]
        return self._finished.first(), [*self._released.first(), *unread]

    @property
    def has_told_all(self) -> bool:
        """Of every task that ended here the platform knows."""
        return not self._finished and not self._released

    def report(self, finished: Finished) -> None:
        self._finished.add(self._secrets.checked(finished) if self._secrets else finished)
        self._is_unheard = True

    def release(self, lease: ReturnedLease) -> None:
        """Give it back."""
        if lease.delay_seconds is None:
            self._suspects.give_back((lease.task_id, lease.lease_epoch))
        self._released.add(lease)
        self._is_unheard = True

    def mark_start(self, pair: Pair) -> None:
        self._starts.add(pair)
        self._is_unheard = True

    def save_checkpoint(self, checkpoint: CheckpointToSave) -> None:
        fault = self._secrets.fault_of(checkpoint) if self._secrets else None
        if fault is not None:
            self._hear(CheckpointSaved((checkpoint.task_id, checkpoint.lease_epoch), fault))
            return
        with self._lock:
            self._checkpoints[checkpoint.task_id, checkpoint.lease_epoch] = checkpoint
        self._is_unheard = True

    def tell_progress(self, progress: TaskProgress) -> None:
        if self._secrets:
            progress = self._secrets.masked_progress(progress)
        with self._lock:
            self._progress[progress.task_id, progress.lease_epoch] = progress
        self._is_unheard = True

    def keep_logs(self, chunks: Sequence[LogChunk]) -> None:
        self._logs.add(*(map(self._secrets.masked_log, chunks) if self._secrets else chunks))
        self._is_unheard = True

    def wake(self) -> None:
        self._wake.ring()

    def wake_if_needed(self) -> None:
        """Once per turn of the supervisor, however much it has left here."""
        if self._is_unheard:
            self._is_unheard = False
            self.wake()

    def drain(self, timeout_seconds: float) -> bool:
        """Wait until all that was left here is sent; False if it could not be."""
        self.wake()
        with self._is_quiet:
            return self._is_quiet.wait_for(
                lambda: not self._has_waiting() and not self._unread and not self._is_busy, timeout_seconds
            )

    def stop(self, timeout_seconds: float = 20.0) -> None:
        """Leave the register if the other side is there, and end."""
        self._is_stopped = True
        self.wake()
        self._has_ended.wait(timeout_seconds)
        self._wake.close()

    def _run(self, loop: Loop) -> None:
        """Until stopped. What escapes from here nobody expected: it is started again, on a new connection."""
        self._transport.on_call = loop.turn
        if loop.restarts:
            self._failures += 1
            self._surprises += 1
            self._transport.disconnect()
        try:
            while not self._is_stopped:
                loop.turn()
                try:
                    self._turn()
                    self._failures = self._surprises = 0
                except TransportError as error:
                    self._recover(error)
        except NotAllowed as error:
            self._hear(Failed(error))
        self._leave()
        self._transport.close()
        self._has_ended.set()

    def _leave(self) -> None:
        try:
            if self._failures == 0 and self._registered is not None:
                self._transport.leave(self._registered.worker_id)
        except Exception as error:
            log.warning("worker_not_unregistered", error=str(error))

    def _turn(self) -> None:
        """Send what waits, look after our leases, claim what there is room for; then wait for a reason to go on."""
        if self._transport.connect():
            self._checked_at = 0.0
            self._looks_promising = True
        self._is_busy = True
        try:
            identity = self._register()
            more = False
            if identity is not None:
                self._send(identity.worker_id)
                if time.monotonic() - self._checked_at >= self._settings.lease_check_seconds:
                    self._check_leases(identity.worker_id)
                self._read_values(identity.worker_id)
                more = self._claim(identity.worker_id)
        finally:
            self._is_busy = False
        with self._is_quiet:
            self._is_quiet.notify_all()
            more = more or self._has_waiting()
        if not more:
            self._wait()

    def _wait(self) -> None:
        timeout = MOST_WAIT_SECONDS
        is_hungry = self._free_room() > 0 and not self._suspects.is_held(self._known)
        if self._suspects.is_reserved:
            timeout = 0.1
        elif is_hungry:
            timeout = self._transport.poll_seconds - (time.monotonic() - self._looked_at)
        if self._known:
            timeout = min(timeout, self._settings.lease_check_seconds)
        if (read_in := self._unread.next_in(time.monotonic())) is not None:
            timeout = min(timeout, read_in)
        # Something to claim, but the heartbeat has to be answered first.
        least = 0.001 if self._is_trusted() else 0.05
        if self._transport.wait(max(timeout, least), self._wake.fileno(), is_hungry=is_hungry):
            self._looks_promising = True
        self._wake.take()

    def _has_waiting(self) -> bool:
        return bool(self._finished or self._released or self._starts or self._checkpoints or self._logs)

    def _register(self) -> Identity | None:
        """Our row in the register, made when we begin and made anew when we were declared dead."""
        wanted = self._identity
        if wanted is None or wanted is self._registered:
            return wanted
        # A claim may have been under way when we were declared dead: then nobody has seen what it took.
        self._transport.register(wanted, self._before)
        self._registered, self._before = wanted, wanted.worker_id
        self._hear(Registered(wanted.worker_id))
        return wanted

    def _send(self, worker_id: str) -> None:
        """Nothing is forgotten before it is sent: after a failure the same is sent again."""
        transport = self._transport
        # Chosen before the logs are sent: what a task has said must be there before its end is told, for after that a
        # server takes nothing more for it.
        ended = take_batch(self._finished.first(BATCH))
        self._send_logs(worker_id)
        if self._starts:
            asked = self._starts.first()
            matched = transport.mark_starts(worker_id, asked)
            self._starts.drop(len(asked))
            self._hear(StartsMarked(asked, matched))
        if self._checkpoints:
            self._send_checkpoints(worker_id)
        if self._progress:
            self._send_progress(worker_id)
        if ended:
            report_batch(transport, worker_id, ended, is_desperate=self._is_desperate)
            self._forget((one.task.task_id, one.task.lease_epoch) for one in ended)
            self._finished.drop(len(ended))
            # The work that they lead to may be ours.
            self._looks_promising = self._looks_promising or not transport.has_bell
        if self._released:
            given = self._released.first(500)
            transport.release(worker_id, given)
            self._forget((one.task_id, one.lease_epoch) for one in given)
            self._released.drop(len(given))

    def _send_logs(self, worker_id: str) -> None:
        """All that are there now; others may come meanwhile."""
        left = len(self._logs)
        while left:
            chunks = self._logs.first(min(left, 50))
            self._tolerate(partial(self._transport.keep_logs, worker_id, chunks), "task_logs_not_kept")
            self._logs.drop(len(chunks))
            left -= len(chunks)

    def _send_checkpoints(self, worker_id: str) -> None:
        with self._lock:
            waiting = list(self._checkpoints.values())
        try:
            for one, refusal in zip(waiting, self._transport.save_checkpoints(worker_id, waiting), strict=True):
                self._checkpoint_was_saved(one, refusal)
        except (TransportError, NotAllowed):
            raise
        except Exception as error:
            if not self._is_desperate:
                raise
            for one in waiting:
                self._checkpoint_was_saved(one, f"{type(error).__name__}: {error}")

    def _checkpoint_was_saved(self, checkpoint: CheckpointToSave, refusal: str | None) -> None:
        pair = (checkpoint.task_id, checkpoint.lease_epoch)
        with self._lock:
            if self._checkpoints.get(pair) is not checkpoint:
                return  # a newer one has taken its place, or it was answered before
            del self._checkpoints[pair]
        self._hear(CheckpointSaved(pair, refusal))

    def _send_progress(self, worker_id: str) -> None:
        with self._lock:
            progress, self._progress = self._progress, {}
        try:
            self._tolerate(
                partial(self._transport.save_progress, worker_id, list(progress.values())), "progress_not_told"
            )
        except BaseException:
            with self._lock:
                if self._registered is self._identity:
                    self._progress = {**progress, **self._progress}
            raise

    @property
    def _is_desperate(self) -> bool:
        """The same has failed again and again without a reason that we know: it is perhaps the data's fault."""
        return self._surprises >= MOST_SURPRISES

    def _tolerate(self, send: Callable[[], None], what: str) -> None:
        """For what is only told: data that the other side refuses is not worth a task."""
        try:
            send()
        except Refused as error:
            log.warning(what, error=str(error))
        except (TransportError, NotAllowed):
            raise
        except Exception as error:
            if not self._is_desperate:
                raise
            log.error(what, error=f"{type(error).__name__}: {error}")

    def _forget(self, pairs: Iterable[Pair]) -> None:
        """Not a newer lease of the same task."""
        for task_id, epoch in pairs:
            if self._known.get(task_id) == epoch:
                del self._known[task_id]
                if self._secrets:
                    self._secrets.forget(task_id)

    def _check_leases(self, worker_id: str) -> None:
        """Compare what we hold with the rows: some are to stop, some are gone, some we never knew we had."""
        self._checked_at = time.monotonic()
        if not self._known and not self._may_hold_more and self._passed_on_total == 0:
            return
        held = {row.task_id: row for row in self._transport.held_tasks(worker_id, self._known)}
        unseen = [ReturnedLease(*row[:2]) for row in held.values() if row.task_id not in self._known]
        if unseen:
            self._transport.release(worker_id, unseen)
        gone = [
            (task_id, epoch)
            for task_id, epoch in self._known.items()
            if task_id not in held or held[task_id].lease_epoch != epoch
        ]
        to_stop = {(row.task_id, row.lease_epoch) for row in held.values() if row.cancel_requested}
        self._unread.take_out(set(gone))
        self._give_back(self._unread.take_out(to_stop))
        news = to_stop - self._told
        if gone or news:
            self._hear(LeasesChecked(sorted(news), gone))
        self._told = to_stop
        self._forget(gone)
        self._may_hold_more = False

    def _claim(self, worker_id: str) -> bool:
        """Claim what there is room for; True if there may be more."""
        if self._suspects.is_held(self._known):
            self._looks_promising = True  # as soon as it is gone
            return False
        more = not self._suspects.is_reserved and self._claim_batches(worker_id)
        if not self._claims_no_more and self._is_trusted():
            suspect = self._suspects.claim(self._transport, worker_id, is_idle=not self._known)
            if suspect is not None:
                self._take(worker_id, [suspect])
                return False
        return more

    def _free_room(self) -> int:
        return self._room - len(self._unread)

    def _claim_batches(self, worker_id: str) -> bool:
        now = time.monotonic()
        if self._transport.has_rung() or now - self._looked_at >= self._transport.poll_seconds:
            self._looks_promising = True
        room = self._free_room()
        if room <= 0 or not self._looks_promising or not self._is_trusted():
            return False
        self._looked_at = now
        limit, count = min(room, CLAIM_LIMIT), 0
        # If the answer is lost, rows are ours without our knowing.
        self._may_hold_more = True
        for claimed in self._transport.claim(worker_id, limit):
            count += len(claimed)
            self._take(worker_id, claimed)
        self._may_hold_more = False
        self._looks_promising = count >= limit
        return self._looks_promising and self._free_room() > 0

    def _take(self, worker_id: str, claimed: list[ClaimedTask]) -> None:
        self._known.update((task.task_id, task.lease_epoch) for task in claimed)
        unread = [task for task in claimed if may_hold_reference(task.params)]
        if not unread:
            self._pass_on(worker_id, claimed, [])
            return
        self._unread.add(unread)
        waiting = {task.task_id for task in unread}
        if len(unread) < len(claimed):
            self._pass_on(worker_id, [task for task in claimed if task.task_id not in waiting], [])
        self._read_values(worker_id)

    def _read_values(self, worker_id: str) -> None:
        """Pass on what can be read now; what could not be read for too long is given back."""
        unread = self._unread
        if not unread:
            return
        if self._claims_no_more:
            self._give_back(unread.take_out())
            return
        read = unread.read(self._transport, self._secrets)
        self._give_back(read.hopeless)
        if read.ready or read.refused:
            self._pass_on(worker_id, read.ready, read.refused)

    def _pass_on(self, worker_id: str, ready: list[ClaimedTask], refused: list[tuple[ClaimedTask, str]]) -> None:
        """Counted here and not before: what the supervisor has not seen must not take up its room."""
        count = len(ready) + len(refused)
        with self._lock:
            self._room -= count
            self._passed_on_total += count
        self._hear(Claimed(worker_id, ready, refused))

    def _give_back(self, pairs: Iterable[Pair]) -> None:
        """What never left the exchange."""
        for pair in pairs:
            self._released.add(ReturnedLease(*pair))

    def _recover(self, error: TransportError) -> None:
        """The other side is away, or would not have it now: begin again with a new connection, soon and then later."""
        self._failures += 1
        if self._failures in (1, 10, 100):
            log.warning("platform_unavailable", reached_by=self._transport.name, times=self._failures, error=str(error))
        self._transport.disconnect()
        pause = min(1.0, 0.05 * 2 ** min(self._failures, 6))
        if isinstance(error, Unreachable):
            pause = max(pause, min(error.retry_seconds, MOST_PAUSE_SECONDS))
        deadline = time.monotonic() + pause * random.uniform(0.5, 1.0)
        while not self._is_stopped and (left := deadline - time.monotonic()) > 0:
            time.sleep(min(left, 0.1))
