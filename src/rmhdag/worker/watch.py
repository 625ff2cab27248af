"""The supervisor's round: time-outs, memory limits, tasks that do not stop when asked, and children that died."""

from __future__ import annotations

from rmhdag.handlers.contract import StopReason
from rmhdag.worker.child_process import OUT_OF_MEMORY, ChildKind, ChildProcess
from rmhdag.worker.crew import Crew
from rmhdag.worker.exchange import Exchange
from rmhdag.worker.lease import Lease
from rmhdag.worker.settings import WorkerSettings

ROUND_SECONDS = 0.05
# Long enough for a child to see that tasks were taken back.
TAKING_BACK_SECONDS = 0.02
PROGRESS_SECONDS = 0.3
LOG_SECONDS = 1.0
MEMORY_SECONDS = 0.1
HUNG_SECONDS = 30.0
# A dying process closes its connection first; its exit status is available only when it has ended.
DEAF_SECONDS = 3.0


class Watch:
    def __init__(self, settings: WorkerSettings, crew: Crew, exchange: Exchange) -> None:
        self._settings = settings
        self._crew = crew
        self._exchange = exchange
        self._progress_at = 0.0
        self._logs_at = 0.0
        self._memory_at = 0.0
        self._round_at = 0.0
        self.stop_by: float | None = None

    def go_round(self, now: float) -> None:
        crew = self._crew
        self._round_at = now
        tells_progress = now - self._progress_at >= PROGRESS_SECONDS
        keeps_logs = now - self._logs_at >= LOG_SECONDS
        measures = self._settings.memory_limit_mb is not None and now - self._memory_at >= MEMORY_SECONDS
        for child in list(crew.staff.children):
            ending = child.reap()
            if ending is not None:
                crew.bury(child, ending)
                continue
            if child.is_deaf and now - child.deaf_since > DEAF_SECONDS:
                child.kill("the process closed its connection to the worker")
            running = self._running(child, now)
            for lease in running:
                self._look_at(lease, child, now)
                if tells_progress:
                    self._tell_progress(child, lease)
                if keeps_logs and lease.log is not None:
                    self._exchange.keep_logs(lease.log.take_chunks())
            self._take_back_what_waits(child, running, now)
            if measures and child.leases:
                self._measure(child)
        self._progress_at = now if tells_progress else self._progress_at
        self._logs_at = now if keeps_logs else self._logs_at
        self._memory_at = now if measures else self._memory_at
        crew.give_back_what_waits(now)
        crew.staff.hire(now)

    def _tell_progress(self, child: ChildProcess, lease: Lease) -> None:
        self._crew.look_at_progress(child, lease)
        if lease.progress is not None:
            self._exchange.tell_progress(lease.progress)
            lease.progress, lease.has_shown_progress = None, True

    def _running(self, child: ChildProcess, now: float) -> list[Lease]:
        if child.kind is ChildKind.SHARED:
            running = list(child.leases.values()) if child.is_ready else []
            for running_lease in running:
                running_lease.began_ns = running_lease.began_ns or int(now * 1e9)
            return running
        begun = child.begun()
        lease = child.leases.get(begun.key)
        child.is_slow = lease is not None and now - begun.at_ns / 1e9 > self._settings.patience_seconds
        if lease is None:
            if child.leases and child.is_ready and now - child.heard_at > HUNG_SECONDS:
                child.kill("the process hung between two tasks")
            return []
        lease.began_ns = begun.at_ns
        return [lease]

    def _look_at(self, lease: Lease, child: ChildProcess, now: float) -> None:
        seconds = now - lease.began_ns / 1e9
        if not lease.is_start_asked and seconds >= self._settings.start_mark_seconds:
            self._crew.mark_start(lease)
        if seconds >= lease.task.timeout_seconds and lease.told in (None, StopReason.STOPPING):
            lease.is_interrupted = False
            self._crew.tell_to_stop(lease, StopReason.TIMEOUT, now)
        if lease.told is None:
            return
        interrupt_at, kill_at = self._limits(lease)
        if now >= kill_at:
            child.kill()
        elif now >= interrupt_at and not lease.is_interrupted:
            lease.is_interrupted = True
            child.interrupt(lease)

    def _limits(self, lease: Lease) -> tuple[float, float]:
        """Interrupt a task that was asked to stop, then kill its process."""
        grace = self._settings.grace_seconds
        if lease.told is StopReason.STOPPING and self.stop_by is not None:
            return self.stop_by - grace, self.stop_by
        return lease.told_at + grace, lease.told_at + 2 * grace

    def _take_back_what_waits(self, child: ChildProcess, running: list[Lease], now: float) -> None:
        """Tasks that wait behind a long task go to another child, or back to the queue."""
        if child.kind is ChildKind.SHARED:
            return
        if child.taking_back_since is not None:
            if now - child.taking_back_since >= TAKING_BACK_SECONDS:
                self._crew.finish_taking_back(child)
        elif len(child.leases) > len(running) and (child.is_slow or self._crew.is_stopping):
            child.begin_taking_back(now)

    def _measure(self, child: ChildProcess) -> None:
        limit = self._settings.memory_limit_mb
        used = child.resident_bytes() // (1024 * 1024)
        if limit is not None and used > limit:
            child.kill(
                f"{OUT_OF_MEMORY}: it used {used} MB of the {limit} MB that a task may use (RMHDAG_TASK_MEMORY_MB)"
            )

    def next_round_in(self, now: float) -> float | None:
        """Seconds until the next round is due; None if there is nothing to watch."""
        crew = self._crew
        if any(child.is_deaf for child in crew.staff.children):
            return 0.002
        if (
            crew.is_stopping
            or crew.placement.has_waiting
            or len(crew.staff.children) < self._settings.concurrency
            or any(child.leases or child.is_killed for child in crew.staff.children)
        ):
            return max(0.0, self._round_at + ROUND_SECONDS - now)
        return None
