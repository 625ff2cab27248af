"""All communication of a worker with the platform, in a thread of its own.

The supervisor never waits for the platform: it queues messages here and receives news. While the platform is
unreachable, messages stay queued; they are sent when it is back. Logs and checkpoints of a task go before its report.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterable, Sequence

from rmhdag.messaging.wake import Wake
from rmhdag.models.leases import CheckpointToSave, ClaimedTask, LogChunk, Pair, ReturnedLease, TaskProgress
from rmhdag.observability.logs import get_logger
from rmhdag.observability.supervision import Loop, Supervisor
from rmhdag.worker.news import CheckpointSaved, Claimed, Heard, LeasesChecked, Registered, StartsMarked
from rmhdag.worker.references import may_hold_reference
from rmhdag.worker.reports import BATCH, Finished, report_batch, take_batch
from rmhdag.worker.settings import WorkerSettings
from rmhdag.worker.suspects import Suspects
from rmhdag.worker.task_notes import TaskNotes
from rmhdag.worker.task_secrets import TaskSecrets
from rmhdag.worker.transport import Failed, Identity, NotAllowed, Transport, TransportError, Unreachable
from rmhdag.worker.unread import Unread
from rmhdag.worker.waiting import Waiting

log = get_logger(__name__)
CLAIM_LIMIT = 500
# Even if the platform asks for a longer pause: after that our leases might be lost.
MOST_PAUSE_SECONDS = 5.0
# The loop makes a turn at least this often, even without work: the age of its last turn shows that it is alive.
MOST_WAIT_SECONDS = 5.0
# An unexpected error is blamed on the data after this many repetitions.
MOST_SURPRISES = 2


class Exchange:
    def __init__(
        self,
        settings: WorkerSettings,
        transport: Transport,
        hear: Callable[[Heard], None],
        is_trusted: Callable[[], bool],
        before: str | None = None,
    ) -> None:
        """`before` is the worker id of an earlier life that may still hold leases."""
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
        self._notes = TaskNotes(transport, hear)
        self._room = 0
        self._passed_on_total = 0
        # The leases that this worker believes to hold, to be compared with the rows.
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
        """Use this identity from now on; messages queued under the previous one are void."""
        with self._lock:
            self._identity = identity
            for waiting in (self._finished, self._released, self._starts):
                waiting.clear()
            self._notes.clear()
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
        """Stop claiming: the worker is about to stop."""
        self._claims_no_more = True

    def passed_on(self) -> set[Pair]:
        """Leases that the crew must have: all but those that wait here to be read or sent."""
        here = {(result.task.task_id, result.task.lease_epoch) for result in self._finished.first()}
        here.update((lease.task_id, lease.lease_epoch) for lease in self._released.first())
        here.update(self._unread.pairs())
        return set(self._known.copy().items()) - here

    def counts(self) -> dict[str, int]:
        """Number of leases with neither the crew nor a child: not read yet, or ended and not reported yet."""
        return {"tasks_unread": len(self._unread), "tasks_unreported": len(self._finished) + len(self._released)}

    def sizes(self) -> dict[str, int]:
        """How much is held of everything that could grow."""
        return {
            "known_leases": len(self._known),
            "told_to_stop": len(self._told),
            "finished": len(self._finished),
            "released": len(self._released),
            "starts": len(self._starts),
            "unread": len(self._unread),
            "secrets": len(self._secrets),
            **self._notes.sizes(),
        }

    def left_behind(self) -> tuple[list[Finished], list[ReturnedLease]]:
        """Results and leases that were not sent, for another attempt after this exchange has been abandoned."""
        unread = [ReturnedLease(*pair) for pair in self._unread.pairs()]
        return self._finished.first(), [*self._released.first(), *unread]

    @property
    def has_told_all(self) -> bool:
        """Whether every ended task has been reported to the platform."""
        return not self._finished and not self._released

    def report(self, finished: Finished) -> Finished:
        """The result as it is reported: without the values of secret inputs."""
        if self._secrets:
            finished = self._secrets.checked(finished)
        self._finished.add(finished)
        self._is_unheard = True
        return finished

    def release(self, lease: ReturnedLease) -> None:
        """Return the lease to the queue."""
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
        self._notes.add_checkpoint(checkpoint)
        self._is_unheard = True

    def tell_progress(self, progress: TaskProgress) -> None:
        if self._secrets:
            progress = self._secrets.masked_progress(progress)
        self._notes.add_progress(progress)
        self._is_unheard = True

    def keep_logs(self, chunks: Sequence[LogChunk]) -> None:
        self._notes.add_logs(map(self._secrets.masked_log, chunks) if self._secrets else chunks)
        self._is_unheard = True

    def secrets_of(self, task_id: str) -> tuple[str, ...]:
        """Forms of the task's secret inputs."""
        return self._secrets.forms(task_id) if self._secrets else ()

    def wake(self) -> None:
        self._wake.ring()

    def wake_if_needed(self) -> None:
        """Called once per turn of the supervisor, however many messages it has queued."""
        if self._is_unheard:
            self._is_unheard = False
            self.wake()

    def drain(self, timeout_seconds: float) -> bool:
        """Wait until all queued messages are sent; False if that failed."""
        self.wake()
        with self._is_quiet:
            return self._is_quiet.wait_for(
                lambda: not self._has_waiting() and not self._unread and not self._is_busy, timeout_seconds
            )

    def stop(self, timeout_seconds: float = 20.0) -> None:
        """Unregister if the platform is reachable, and end."""
        self._is_stopped = True
        self.wake()
        self._has_ended.wait(timeout_seconds)
        self._wake.close()

    def _run(self, loop: Loop) -> None:
        """Run until stopped. After an unexpected exception the loop is restarted with a new connection."""
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
        """Send queued messages, check our leases, claim tasks as far as there is room; then wait for work."""
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
        # There may be work, but a heartbeat must succeed before the next claim.
        least = 0.001 if self._is_trusted() else 0.05
        if self._transport.wait(max(timeout, least), self._wake.fileno(), is_hungry=is_hungry):
            self._looks_promising = True
        self._wake.take()

    def _has_waiting(self) -> bool:
        return bool(self._finished or self._released or self._starts or self._notes.must_be_sent)

    def _register(self) -> Identity | None:
        """Register at the start, and again under a new identity after the worker was declared dead."""
        identity = self._identity
        if identity is None or identity is self._registered:
            return identity
        # A claim may have been in progress when the worker was declared dead: no process has received its tasks.
        self._transport.register(identity, self._before)
        self._registered, self._before = identity, identity.worker_id
        self._hear(Registered(identity.worker_id))
        return identity

    def _send(self, worker_id: str) -> None:
        """Nothing is removed before it is sent: after a failure the same is sent again."""
        transport = self._transport
        # Chosen before the logs are sent: the log of a task must arrive before its report, because after that the
        # server accepts nothing more for it.
        ended = take_batch(self._finished.first(BATCH))
        self._notes.send_logs(worker_id, is_desperate=self._is_desperate)
        if self._starts:
            pairs = self._starts.first()
            matched = transport.mark_starts(worker_id, pairs)
            self._starts.drop(len(pairs))
            self._hear(StartsMarked(pairs, matched))
        self._notes.send_checkpoints(worker_id, is_desperate=self._is_desperate)
        self._notes.send_progress(worker_id, is_desperate=self._is_desperate)
        if ended:
            report_batch(transport, worker_id, ended, is_desperate=self._is_desperate)
            self._forget((result.task.task_id, result.task.lease_epoch) for result in ended)
            self._finished.drop(len(ended))
            # The tasks that follow may be for this worker.
            self._looks_promising = self._looks_promising or not transport.has_bell or _frees_lane(ended)
        if self._released:
            leases = self._released.first(500)
            transport.release(worker_id, leases)
            self._forget((lease.task_id, lease.lease_epoch) for lease in leases)
            self._released.drop(len(leases))

    @property
    def _is_desperate(self) -> bool:
        """The same messages have failed repeatedly for an unknown reason: perhaps the data causes it."""
        return self._surprises >= MOST_SURPRISES

    def _forget(self, pairs: Iterable[Pair]) -> None:
        """Forget these leases, but not a newer lease of the same task."""
        for task_id, epoch in pairs:
            if self._known.get(task_id) == epoch:
                del self._known[task_id]
                if self._secrets:
                    self._secrets.forget(task_id)

    def _check_leases(self, worker_id: str) -> None:
        """Compare our leases with the rows: some tasks should stop, some leases are lost, some were never received."""
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
            self._looks_promising = True  # look again once it is gone
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
        # If the answer is lost, the rows name this worker although it never received them.
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
        """Pass on tasks whose parameters can be read now; release those that could not be read for too long."""
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
        """Counted here and not earlier: tasks that the supervisor has not received must not reduce its room."""
        count = len(ready) + len(refused)
        with self._lock:
            self._room -= count
            self._passed_on_total += count
        self._hear(Claimed(worker_id, ready, refused))

    def _give_back(self, pairs: Iterable[Pair]) -> None:
        """Release tasks that never left the exchange."""
        for pair in pairs:
            self._released.add(ReturnedLease(*pair))

    def _recover(self, error: TransportError) -> None:
        """The platform is unreachable or asks to retry later: reconnect, after growing pauses."""
        self._failures += 1
        if self._failures in (1, 10, 100):
            log.warning("platform_unavailable", reached_by=self._transport.name, times=self._failures, error=str(error))
        self._transport.disconnect()
        pause = min(1.0, 0.05 * 2 ** min(self._failures, 6))
        if isinstance(error, Unreachable):
            pause = max(pause, min(error.retry_seconds, MOST_PAUSE_SECONDS))
        deadline = time.monotonic() + pause * random.uniform(0.5, 1.0)
        while not self._is_stopped and (seconds := deadline - time.monotonic()) > 0:
            time.sleep(min(seconds, 0.1))


def _frees_lane(ended: Iterable[Finished]) -> bool:
    """Whether a namespace with limited slots has a free slot again, so that more of its tasks may be claimed."""
    return any(result.task.lanes is not None for result in ended)
