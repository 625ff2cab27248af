"""A child that runs light async handlers concurrently."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from rmhdag.handlers.contract import HandlerContext, StopReason
from rmhdag.handlers.registry import Registry
from rmhdag.handlers.running import run_async
from rmhdag.worker.child import (
    Channel,
    ParentGone,
    TaskLink,
    begin_run,
    clean_up,
    context_of,
    send_outcome,
    span_of,
)
from rmhdag.worker.frames import TaskFrame
from rmhdag.worker.trust import LeaseGuard


class _Link(TaskLink):
    """`saved` waits for checkpoints: blocking here would delay the other tasks."""

    def __init__(self, channel: Channel, task: TaskFrame) -> None:
        super().__init__(channel, task.key, task.secrets)
        self.told: StopReason | None = None
        self.coroutine: asyncio.Task[None] | None = None
        self.ctx: HandlerContext[Any] | None = None
        self._answer: asyncio.Future[str | None] | None = None

    def stop_reason(self) -> StopReason | None:
        return self.told

    def checkpoint(self, phase: str, data: Any) -> None:
        self._answer = asyncio.get_running_loop().create_future()
        self.send_checkpoint(phase, data)

    def answer(self, refusal: str | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(refusal)

    async def saved(self) -> None:
        if self._answer is not None:
            refusal = await self._answer
            if refusal is not None:
                raise RuntimeError(f"the checkpoint was not saved: {refusal}")


class _Runner:
    def __init__(self, channel: Channel, registry: Registry, scratch: str, guard: LeaseGuard) -> None:
        self._guard = guard
        self._channel = channel
        self._registry = registry
        self._scratch = scratch
        self.links: dict[int, _Link] = {}

    async def run(self) -> None:
        ended = asyncio.get_running_loop().create_future()

        def receive() -> None:
            try:
                for frame in self._channel.receive():
                    self._handle(frame)
            except (ParentGone, ConnectionError) as error:
                if not ended.done():
                    ended.set_exception(error)

        asyncio.get_running_loop().add_reader(self._channel.socket, receive)
        await ended

    def _handle(self, frame: list[Any]) -> None:
        if frame[0] == "task":
            task = TaskFrame(*frame)
            started = self.links[task.key] = _Link(self._channel, task)
            started.coroutine = asyncio.get_running_loop().create_task(self._execute(task, started))
        elif (link := self.links.get(frame[1])) is not None:
            if frame[0] == "saved":
                link.answer(frame[2])
            elif frame[0] == "stop":
                link.told = StopReason(frame[2])
            elif frame[0] == "interrupt" and link.coroutine is not None:
                if link.ctx is not None:
                    link.ctx.note_interruption()
                link.coroutine.cancel()

    async def _execute(self, task: TaskFrame, link: _Link) -> None:
        begin_run(link)
        began_ns = time.monotonic_ns()
        ctx = link.ctx = context_of(task, link, self._scratch, self._guard)
        spec = self._registry.find(task.handler)
        assert spec is not None, task.handler
        with span_of(task):
            outcome = await run_async(spec, ctx, link.saved)
        clean_up(ctx)
        self.links.pop(task.key, None)
        link.say_the_rest()
        send_outcome(self._channel, task.key, outcome, began_ns)


def run_side_by_side(
    channel: Channel, registry: Registry, scratch: str, guard: LeaseGuard, abandoned_seconds: float
) -> None:
    runner = _Runner(channel, registry, scratch, guard)
    guard.start_watchdog(abandoned_seconds, lambda: bool(runner.links))
    asyncio.run(runner.run())
