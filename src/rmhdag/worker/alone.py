"""A child that runs one task at a time, in the order in which they arrive."""

from __future__ import annotations

import asyncio
import signal
import time
from collections import deque
from types import FrameType
from typing import Any

from rmhdag.handlers.contract import HandlerContext, StopReason, TaskInterrupted
from rmhdag.handlers.registry import HandlerSpec, Registry
from rmhdag.handlers.running import Outcome, run_async, run_plain
from rmhdag.worker.board import Board
from rmhdag.worker.child import Channel, TaskLink, begin_run, clean_up, context_of, end_run, send_outcome, span_of
from rmhdag.worker.frames import TaskFrame
from rmhdag.worker.trust import LeaseGuard


class _Link(TaskLink):
    def __init__(self, runner: _Runner, task: TaskFrame) -> None:
        super().__init__(runner.channel, task.key, task.secrets)
        self._runner = runner

    def stop_reason(self) -> StopReason | None:
        return self._runner.board.stop_reason(self.key)

    def progress(self, current: float, total: float | None, message: str | None) -> None:
        """Written to the board, which the parent reads when it needs to: cheap enough to be called often."""
        text = self.shown_message(message)
        self._unsaid = ("progress", self.key, current, total, text)
        self._runner.board.show(self.key, current, total, text)

    def checkpoint(self, phase: str, data: Any) -> None:
        """Wait until the checkpoint is saved: the handler's next step may rely on it."""
        self.send_checkpoint(phase, data)
        refusal = self._runner.wait_until_saved(self.key)
        if refusal is not None:
            raise RuntimeError(f"checkpoint {phase!r} was not saved: {refusal}")


class _Runner:
    def __init__(self, channel: Channel, registry: Registry, board: Board, scratch: str, guard: LeaseGuard) -> None:
        self.channel = channel
        self.board = board
        self._guard = guard
        self._registry = registry
        self._scratch = scratch
        self._waiting: deque[TaskFrame] = deque()
        self._answers: dict[int, str | None] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._plain_key = 0
        self._coroutine: asyncio.Task[Outcome] | None = None
        self._ctx: HandlerContext[Any] | None = None

    def run(self) -> None:
        signal.signal(signal.SIGTERM, self._interrupt)
        while True:
            while not self._waiting:
                self._receive()
            self._take(self._waiting.popleft())

    def wait_until_saved(self, key: int) -> str | None:
        while key not in self._answers:
            self._receive()
        return self._answers.pop(key)

    def _receive(self) -> None:
        for frame in self.channel.receive():
            if frame[0] == "task":
                self._waiting.append(TaskFrame(*frame))
            elif frame[0] == "saved":
                self._answers[frame[1]] = frame[2]

    def _take(self, task: TaskFrame) -> None:
        """Mark the task as begun, then check whether it was taken back; the parent does both in the opposite order."""
        self._guard.wait_while_abandoned()
        began_ns = time.monotonic_ns()
        self.board.begin(task.key, began_ns)
        if self.board.is_taken_back(task.key):
            self.channel.send("skipped", task.key)
        else:
            self._execute(task, began_ns)
        self.board.begin(0, 0)

    def _execute(self, task: TaskFrame, began_ns: int) -> None:
        link = _Link(self, task)
        ctx = context_of(task, link, self._scratch, self._guard)
        begin_run(link)
        self._ctx = ctx
        spec = self._registry.find(task.handler)
        assert spec is not None, task.handler
        self._answers.clear()
        try:
            with span_of(task):
                if spec.is_async:
                    outcome = self._run_async(spec, ctx)
                else:
                    self._plain_key = task.key
                    outcome = run_plain(spec, ctx)
                self._plain_key = 0
        except TaskInterrupted:
            # The interruption came between the end of the handler and the end of this function.
            self._plain_key = 0
            outcome = Outcome(stopped=True)
        clean_up(ctx)
        end_run()
        link.say_the_rest()
        send_outcome(self.channel, task.key, outcome, began_ns)

    def _run_async(self, spec: HandlerSpec, ctx: Any) -> Outcome:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
        self._coroutine = self._loop.create_task(run_async(spec, ctx, _nothing))
        try:
            return self._loop.run_until_complete(self._coroutine)
        finally:
            self._coroutine = None
            leftovers = asyncio.all_tasks(self._loop)
            if leftovers:
                for leftover in leftovers:
                    leftover.cancel()
                self._loop.run_until_complete(asyncio.gather(*leftovers, return_exceptions=True))

    def _interrupt(self, signum: int, frame: FrameType | None) -> None:
        """The parent interrupts the task that it asked to stop, but not one that began after it."""
        begun = self.board.begun()
        if not begun.key or self.board.stop_reason(begun.key) is None or self._ctx is None:
            return
        self._ctx.note_interruption()
        if self._coroutine is not None and self._loop is not None:
            self._loop.call_soon_threadsafe(self._coroutine.cancel)
        elif self._plain_key == begun.key:
            raise TaskInterrupted


async def _nothing() -> None:
    """Nothing to wait for: `save` has already waited."""


def run_one_by_one(
    channel: Channel, registry: Registry, board: int, scratch: str, guard: LeaseGuard, abandoned_seconds: float
) -> None:
    runner = _Runner(channel, registry, Board(board), scratch, guard)
    guard.start_watchdog(abandoned_seconds, lambda: runner.board.begun().key != 0)
    runner.run()
