"""A worker from start to end: what wakes it, and the order of its steps."""

from __future__ import annotations

import os
import selectors
import signal
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from types import FrameType
from typing import Any

import rmhdag
from rmhdag.handlers.contract import StopReason
from rmhdag.messaging.wake import Wake
from rmhdag.models.leases import ReturnedLease, ReturnReason
from rmhdag.observability import supervision, traces
from rmhdag.observability.logs import get_logger, identify
from rmhdag.observability.supervision import Overdue, Supervisor
from rmhdag.store.identity import new_id
from rmhdag.worker.child_process import ChildKind, ChildProcess, resident_bytes_of
from rmhdag.worker.crew import Crew, HandlersBrokenError
from rmhdag.worker.exchange import Exchange
from rmhdag.worker.health_port import HealthPort, WorkerHealth
from rmhdag.worker.heartbeat import DrainRequested, Fenced, Heartbeat
from rmhdag.worker.news import CheckpointSaved, Claimed, Heard, LeasesChecked, Registered, StartsMarked
from rmhdag.worker.reports import report_batch, take_batch
from rmhdag.worker.scratch import Scratch
from rmhdag.worker.settings import WorkerSettings
from rmhdag.worker.strays import Strays
from rmhdag.worker.transport import Failed, Identity, NotAllowed, Transport, choose_transport
from rmhdag.worker.trust import TrustPage
from rmhdag.worker.watch import Watch

log = get_logger(__name__)
News = Heard | Fenced | DrainRequested
# The terminal and the parent process may both pass on the same Ctrl-C.
SAME_REQUEST_SECONDS = 1.0
# The part of the time to stop that is reserved for the last reports, after the last child has ended.
LAST_WORDS_SECONDS = 2.0
# The loop makes a turn at least this often, even without work: the age of its last turn shows that it is alive.
MOST_WAIT_SECONDS = 2.0
# A worker that has restarted this often within this time is not helped by another restart.
MOST_LIVES = 3
LIVES_WINDOW_SECONDS = 600.0
# The loop that should end a life may be the one that is stuck.
LAST_RESORT_SECONDS = 10.0
EXIT_STUCK = 1


class WorkerGivenUp(Exception):
    """Restarting inside the process does not help: the operator or supervisor has to restart the worker."""


class Worker:
    """`run` works until asked to stop. Everything but the exchange and the heartbeat happens in one thread.

    A worker has one life after another. A life ends when one of its loops fails repeatedly or makes no turn: tasks that
    have not begun are released, running ones are killed, and the next life registers under a new id.
    """

    def __init__(
        self, settings: WorkerSettings, open_transport: Callable[[WorkerSettings], Transport] = choose_transport
    ) -> None:
        self.settings = settings
        self.worker_id = ""
        self.was_drained = False
        self._open_transport = open_transport
        self._stop_requests = 0
        self._stop_asked_at = 0.0
        self._lives = 0
        self._given_up_at: deque[float] = deque(maxlen=MOST_LIVES)
        self._owns_process = False
        self._has_ended = threading.Event()
        self._house = Supervisor(self._has_ended, lambda reason: None)
        self._wake = Wake()
        self._be_born(None)

    def _be_born(self, before: str | None) -> None:
        settings = self.settings
        self.worker_id = ""
        self._lives += 1
        self._handlers: list[dict[str, Any]] = []
        self._news: deque[News] = deque()
        self._tasks_seen = 0
        self._failures: deque[float] = deque(maxlen=supervision.MOST_RESTARTS)
        self._given_up: str | None = None
        self._is_over = threading.Event()
        self._has_noticed = threading.Event()
        self._supervisor = Supervisor(self._is_over, self._give_up)
        self._overdue = Overdue(self._supervisor, settings.stuck_seconds)
        self._loop = self._supervisor.watch("supervisor", settings.stuck_seconds)
        self._selector = selectors.DefaultSelector()
        self._scratch = Scratch(settings.scratch_root)
        self._trust = TrustPage.create()
        self._transport = self._open_transport(settings)
        self._heartbeat = Heartbeat(settings, self._transport.pulse(), self._stats, self._hear, self._trust)
        self._exchange = Exchange(settings, self._transport, self._hear, self._heartbeat.is_fresh, before)
        self._crew = Crew(settings, self._exchange, self._scratch, self._trust, self._selector, self._on_ready)
        self._watch = Watch(settings, self._crew, self._exchange)
        self._strays = Strays(self._exchange, self._crew)

    def run(self) -> None:
        """Run until SIGTERM or Ctrl-C; a second signal does not wait for tasks."""
        before = {number: signal.signal(number, self._on_signal) for number in (signal.SIGTERM, signal.SIGINT)}
        self._owns_process = True
        try:
            self.run_until(threading.Event())
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def run_until(self, stop: threading.Event) -> None:
        """Run until the event is set (call `wake` after that) or `stop` is called."""
        port = None if self.settings.health_port is None else HealthPort(self.settings, self.health)
        try:
            if port is not None:
                port.start(self._house)
            while not self._live(stop):
                self._be_born(self.worker_id or None)
        finally:
            self._has_ended.set()
            if port is not None:
                port.close()
            self._wake.close()

    def _live(self, stop: threading.Event) -> bool:
        """One life; False if another one follows."""
        self._selector.register(self._wake, selectors.EVENT_READ, (self._take_wake, None))
        self._exchange.start(self._supervisor)
        self._heartbeat.start(self._supervisor)
        try:
            self._crew.staff.hire(time.monotonic())
            while self._given_up is None and not self._is_done(stop):
                self._guarded_turn()
        finally:
            self._has_noticed.set()
            self._close()
            self._is_over.set()
        if self._given_up is None or stop.is_set() or self._stop_requests:
            return True
        self._given_up_at.append(now := time.monotonic())
        if len(self._given_up_at) == MOST_LIVES and now - self._given_up_at[0] < LIVES_WINDOW_SECONDS:
            raise WorkerGivenUp(f"{MOST_LIVES} times within {LIVES_WINDOW_SECONDS:g} s: {self._given_up}")
        return False

    def _give_up(self, reason: str) -> None:
        """End this life; callable from any thread, effective once per life."""
        self._given_up = reason
        self.wake()
        if self._owns_process:
            threading.Thread(target=self._last_resort, args=[self._has_noticed], daemon=True).start()

    def _last_resort(self, has_noticed: threading.Event) -> None:
        """Children die with the process; orchestrators notice the missing heartbeats."""
        if not has_noticed.wait(LAST_RESORT_SECONDS):
            log.critical("worker_is_stuck", reason=self._given_up, remedy="the process ends")
            os._exit(EXIT_STUCK)

    def stop(self) -> None:
        """From any thread: finish, save or release the tasks, then end. A second call, a second later: end at once."""
        now = time.monotonic()
        if not self._stop_requests or now - self._stop_asked_at > SAME_REQUEST_SECONDS:
            self._stop_requests += 1
            self._stop_asked_at = now
        self.wake()

    def wake(self) -> None:
        self._wake.ring()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.stop()

    def _guarded_turn(self) -> None:
        """An unexpected error ends the turn and not the worker; a repeated one ends the life."""
        self._loop.turn()
        self._trust.mark_turn()
        try:
            self._turn()
        except (NotAllowed, HandlersBrokenError):
            raise
        except Exception as error:
            self._contain(error)

    def _contain(self, error: Exception) -> None:
        self._loop.restarts += 1
        self._failures.append(now := time.monotonic())
        log.exception("worker_turn_failed", restarts=self._loop.restarts, error=type(error).__name__)
        window = supervision.WINDOW_SECONDS
        if len(self._failures) == self._failures.maxlen and now - self._failures[0] < window:
            self._supervisor.give_up(f"the supervisor failed {len(self._failures)} times within {window:g} s")
            return
        recent = sum(1 for at in self._failures if now - at < window)
        self._is_over.wait(min(1.0, 0.02 * 2**recent))
        self._crew.find_again()

    def _turn(self) -> None:
        """Handle frames and news, check running tasks, hand tasks to children, report results."""
        due_in = self._watch.next_round_in(time.monotonic())
        wait = MOST_WAIT_SECONDS if due_in is None else due_in
        for key, _ in self._selector.select(0 if self._news else wait):
            self._handle(*key.data)
        while self._news:
            news = self._news[0]
            # All news but new tasks may be handled twice, so it is removed only afterwards. Tasks that are lost on
            # their way to the crew are found later and released.
            if isinstance(news, Claimed):
                self._news.popleft()
            self._take_news(news)
            if not isinstance(news, Claimed):
                self._news.popleft()
        due_in = self._watch.next_round_in(now := time.monotonic())
        if due_in is not None and due_in <= 0.002:
            self._watch.go_round(now)
        self._crew.placement.place()
        self._strays.look(now)
        self._exchange.wake_if_needed()
        self._exchange.offer_room(self._crew.placement.room(), self._tasks_seen)
        # The heartbeat checks this too, but it may be the loop that is late.
        self._overdue.give_up_if_stuck()

    def _handle(self, handle: Callable[[Any], object], child: ChildProcess | None) -> None:
        """A frame that cannot be handled is lost: so the child is killed, and the task that it ran is settled."""
        try:
            handle(child)
        except HandlersBrokenError:
            raise
        except Exception as error:
            if child is not None:
                child.kill(f"the worker could not deal with what the process said: {type(error).__name__}: {error}")
            raise

    def _take_wake(self, nothing: None) -> None:
        self._wake.take()

    def _hear(self, news: News) -> None:
        """Receive news; called by other threads."""
        self._news.append(news)
        self.wake()

    def _take_news(self, news: News) -> None:
        match news:
            case Claimed(worker_id, tasks, refused):
                self._tasks_seen += len(tasks) + len(refused)
                if worker_id == self.worker_id:
                    self._crew.take(tasks)
                    for task, why in refused:
                        self._crew.refuse(task, why)
            case StartsMarked(pairs, matched):
                self._crew.starts_were_marked(pairs, matched)
            case CheckpointSaved(pair, refusal):
                self._crew.checkpoint_was_saved(pair, refusal)
            case LeasesChecked(to_stop, gone):
                for pair in gone:
                    if (lease := self._crew.by_pair.get(pair)) is not None:
                        self._crew.drop(lease)
                for pair in to_stop:
                    if (lease := self._crew.by_pair.get(pair)) is not None:
                        self._crew.tell_to_stop(lease, StopReason.CANCELLED, time.monotonic())
            case Failed(error):
                raise error
            case Registered(worker_id):
                self._heartbeat.beat_for(worker_id)
            case DrainRequested(worker_id):
                if worker_id == self.worker_id and not self.was_drained:
                    log.info("worker_is_drained", worker_id=worker_id)
                    self.was_drained = True
                    self.stop()
            case Fenced(worker_id):
                if worker_id == self.worker_id:
                    log.warning("worker_was_taken_for_dead", worker_id=worker_id)
                    self._crew.kill_all()
                    self._become_new()

    def _on_ready(self, handlers: list[dict[str, Any]]) -> None:
        if not self.worker_id:
            self._handlers = handlers
            self._become_new()

    def _become_new(self) -> None:
        self.worker_id = new_id()
        identify(worker_id=self.worker_id)
        self._exchange.become(
            Identity(
                self.worker_id,
                socket.gethostname()[:128],
                os.getpid(),
                rmhdag.__version__,
                self.settings.concurrency,
                self.settings.queues,
                self._handlers,
            )
        )

    def _stats(self) -> dict[str, Any]:
        """Every row leased to this worker is in one of the first three counts, except while it is in transit."""
        return {
            "tasks_held": len(self._crew.by_pair),
            **self._exchange.counts(),
            "tasks_done": self._crew.tasks_done,
            "memory_bytes": self._memory_bytes(),
            "lives": self._lives,
            "loops": self._supervisor.ages(),
            "threads": self._supervisor.restarts(),
            "sizes": {
                "leases": len(self._crew.by_pair),
                "waiting_for_a_child": self._crew.placement.waiting_count,
                "strays": self._strays.count,
                **self._exchange.sizes(),
            },
        }

    def _memory_bytes(self) -> int:
        """Of this process and its children; pages that they share count for each."""
        children = list(self._crew.staff.children)
        return resident_bytes_of(os.getpid()) + sum(child.resident_bytes() for child in children)

    def health(self) -> WorkerHealth:
        """From any thread."""
        return WorkerHealth(
            worker_id=self.worker_id,
            queues=self.settings.queues,
            slots=self.settings.concurrency,
            tasks_held=len(self._crew.by_pair),
            tasks_done=self._crew.tasks_done,
            draining=self._heartbeat.draining,
            is_trusted=self._heartbeat.is_fresh(),
            loops=self._supervisor.ages(),
            threads=self._supervisor.restarts(),
            late_loops=tuple(loop.name for loop in self._supervisor.late()),
            lives=self._lives,
        )

    def _is_done(self, stop: threading.Event) -> bool:
        now = time.monotonic()
        if self._watch.stop_by is None and (stop.is_set() or self._stop_requests):
            self._watch.stop_by = now + max(0.0, self.settings.stop_seconds - LAST_WORDS_SECONDS)
            self._heartbeat.draining = True
            self._exchange.claim_no_more()
            self._crew.tell_all_to_stop(now)
        if self._stop_requests > 1 and self._watch.stop_by is not None:
            self._watch.stop_by = min(self._watch.stop_by, now)
        return self._watch.stop_by is not None and not self._crew.by_pair

    def _close(self) -> None:
        """Send the last reports and leave nothing behind: no process, no folder, no row."""
        children = self._crew.staff.children
        if self._given_up is not None:
            self._hand_over()
        else:
            if traces.active() is not None:
                for child in children:
                    child.hang_up()
            self._exchange.wake_if_needed()
            if self.worker_id and not self._exchange.drain(LAST_WORDS_SECONDS):
                remedy = f"{self._transport.name} does not answer; they will be found lost"
                log.warning("results_not_reported", remedy=remedy)
        patience = {} if self._given_up is None else {"timeout_seconds": LAST_WORDS_SECONDS}
        self._heartbeat.stop(**patience)
        self._exchange.stop(**patience)
        if traces.active() is not None:
            deadline = time.monotonic() + traces.FLUSH_SECONDS
            for child in children:
                child.wait(deadline - time.monotonic())
        for child in children:
            child.kill()
            child.reap(wait=True)
            child.close()
        self._selector.close()
        self._scratch.close()
        self._trust.close()

    def _hand_over(self) -> None:
        """Report results, release tasks that have not begun, kill running ones, which are then found lost. Threads of
        this life cannot be relied upon, so this uses a new connection.
        """
        self._exchange.claim_no_more()
        for child in self._crew.staff.children:
            child.kill()
        finished, released = self._exchange.left_behind()
        for lease in self._crew.by_pair.values():
            owner = lease.child
            if owner is None or (owner.kind is ChildKind.ALONE and owner.begun().key != lease.key):
                delay_seconds = 0.0 if lease.is_start_asked else None
                released.append(ReturnedLease(*lease.pair, delay_seconds, ReturnReason.WORKER_STOPPING))
        log.warning("worker_begins_anew", reason=self._given_up, reported=len(finished), given_back=len(released))
        try:
            transport = self._open_transport(self.settings)
            try:
                while finished:
                    batch = take_batch(finished)
                    report_batch(transport, self.worker_id, batch, is_desperate=True)
                    finished = finished[len(batch) :]
                transport.release(self.worker_id, released)
            finally:
                transport.close()
        except Exception as error:
            log.warning("worker_could_not_hand_over", error=f"{type(error).__name__}: {error}")
