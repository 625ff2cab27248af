"""A worker from its start to its end: what wakes it, and in which order things are done."""

from __future__ import annotations

import os
import selectors
import signal
import socket
import threading
import time
from collections import deque
from contextlib import suppress
from types import FrameType
from typing import Any

import rmhdag
from rmhdag.handlers.contract import StopReason
from rmhdag.observability import traces
from rmhdag.observability.logs import get_logger, identify
from rmhdag.store.identity import new_id
from rmhdag.worker.crew import Crew
from rmhdag.worker.exchange import (
    CheckpointSaved,
    Claimed,
    Exchange,
    Heard,
    LeasesChecked,
    Registered,
    StartsMarked,
)
from rmhdag.worker.health_port import HealthPort, WorkerHealth
from rmhdag.worker.heartbeat import Fenced, Heartbeat
from rmhdag.worker.scratch import Scratch
from rmhdag.worker.settings import WorkerSettings
from rmhdag.worker.transport import Failed, Identity, choose_transport
from rmhdag.worker.watch import Watch

log = get_logger(__name__)
News = Heard | Fenced
# A terminal and whoever started us may both pass the same Ctrl-C on.
SAME_REQUEST_SECONDS = 1.0
# What is left of the time to stop once the last child is gone: for the last reports.
LAST_WORDS_SECONDS = 2.0


class Worker:
    """`run` until it is told to stop. Everything but the exchange and the heartbeat happens in one thread."""

    def __init__(self, settings: WorkerSettings) -> None:
        self.settings = settings
        self.worker_id = ""
        self._handlers: list[dict[str, Any]] = []
        self._news: deque[News] = deque()
        self._claimed_seen = 0
        self._stop_requests = 0
        self._stop_asked_at = 0.0
        self._wake_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._selector = selectors.DefaultSelector()
        self._scratch = Scratch(settings.scratch_root)
        self._transport = choose_transport(settings)
        self._heartbeat = Heartbeat(settings, self._transport.pulse(), self._stats, self._hear)
        self._exchange = Exchange(settings, self._transport, self._hear, self._heartbeat.is_fresh)
        self._crew = Crew(settings, self._exchange, self._scratch, self._selector, self._on_ready)
        self._watch = Watch(settings, self._crew, self._exchange)

    def run(self) -> None:
        """Until SIGTERM or Ctrl-C; a second one does not wait for tasks."""
        before = {number: signal.signal(number, self._on_signal) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            self.run_until(threading.Event())
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def run_until(self, stop: threading.Event) -> None:
        """Until the event is set (call `wake` after that) or `stop` is called."""
        self._selector.register(self._wake_fd, selectors.EVENT_READ, (self._take_wake, None))
        self._exchange.start()
        self._heartbeat.start()
        port = None if self.settings.health_port is None else HealthPort(self.settings, self.health)
        try:
            self._crew.staff.hire(time.monotonic())
            while not self._is_done(stop):
                self._turn()
        finally:
            if port is not None:
                port.close()
            self._close()

    def stop(self) -> None:
        """From any thread: finish, save or give back what runs, and end. Called again, after a second: at once."""
        now = time.monotonic()
        if not self._stop_requests or now - self._stop_asked_at > SAME_REQUEST_SECONDS:
            self._stop_requests += 1
            self._stop_asked_at = now
        self.wake()

    def wake(self) -> None:
        with suppress(OSError):
            os.eventfd_write(self._wake_fd, 1)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.stop()

    def _turn(self) -> None:
        """Hear what children and platform say, look after those that run, hand out and hand in."""
        due_in = self._watch.next_round_in(time.monotonic())
        for key, _ in self._selector.select(0 if self._news else due_in):
            handle, child = key.data
            handle(child)
        while self._news:
            self._take_news(self._news.popleft())
        due_in = self._watch.next_round_in(now := time.monotonic())
        if due_in is not None and due_in <= 0.002:
            self._watch.go_round(now)
        self._crew.placement.place()
        self._exchange.wake_if_needed()
        self._exchange.offer_room(self._crew.placement.room(), self._claimed_seen)

    def _take_wake(self, nothing: None) -> None:
        with suppress(BlockingIOError):
            os.eventfd_read(self._wake_fd)

    def _hear(self, news: News) -> None:
        """Called by the other threads."""
        self._news.append(news)
        self.wake()

    def _take_news(self, news: News) -> None:
        match news:
            case Claimed(worker_id, tasks, refused):
                self._claimed_seen += len(tasks) + len(refused)
                if worker_id == self.worker_id:
                    self._crew.take(tasks)
                    for task, why in refused:
                        self._crew.refuse(task, why)
            case StartsMarked(asked, matched):
                self._crew.starts_were_marked(asked, matched)
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
        return {"tasks_held": len(self._crew.by_pair), "tasks_done": self._crew.tasks_done}

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
        """Last reports go out; nothing is left behind, neither process nor folder nor row."""
        if traces.active() is not None:
            for child in self._crew.staff.children:
                child.hang_up()
        self._exchange.wake_if_needed()
        if self.worker_id and not self._exchange.drain(LAST_WORDS_SECONDS):
            remedy = f"{self._transport.name} does not answer; they will be found lost"
            log.warning("results_not_reported", remedy=remedy)
        self._heartbeat.stop()
        self._exchange.stop()
        if traces.active() is not None:
            deadline = time.monotonic() + traces.FLUSH_SECONDS
            for child in self._crew.staff.children:
                child.wait(deadline - time.monotonic())
        for child in self._crew.staff.children:
            child.kill()
            child.reap(wait=True)
            child.close()
        self._selector.close()
        self._scratch.close()
        os.close(self._wake_fd)
