"""Records what a handler does with its context during a run, and runs a handler as a worker does."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine
from dataclasses import replace
from typing import Any, NamedTuple

from rmhdag.handlers import Checkpoint, HandlerContext, HandlerResult, HandlerSpec, StopReason
from rmhdag.handlers.running import Outcome, run_async, run_plain


class Progress(NamedTuple):
    current: float
    total: float | None
    message: str | None


class WorkerLost(BaseException):
    """Ends a run like the death of its worker: no `except Exception` of the handler catches it."""


class Recording:
    """The link of a context in a test: records the handler's messages and asks a function when to stop."""

    def __init__(
        self,
        stop_when: Callable[[Recording], object] | None = None,
        stop_reason: StopReason = StopReason.CANCELLED,
        lost_after_checkpoint: str | None = None,
    ) -> None:
        self.logs = ""
        self.progress_calls: list[Progress] = []
        self.checkpoints: list[Checkpoint] = []
        self.is_lost = False
        self._stop_when = stop_when
        self._reason = stop_reason
        self._told: StopReason | None = None
        self._lost_after_checkpoint = lost_after_checkpoint

    def stop(self, reason: StopReason = StopReason.CANCELLED) -> None:
        """Ask the handler to stop from now on."""
        self._told = reason

    # -- the link, as `HandlerContext` uses it -------------------------------------------------------------------

    def log(self, text: str) -> None:
        self.logs += text

    def progress(self, current: float, total: float | None, message: str | None) -> None:
        self.progress_calls.append(Progress(current, total, message))

    def checkpoint(self, phase: str, data: Any) -> None:
        self.checkpoints.append(Checkpoint(phase, data))
        if phase == self._lost_after_checkpoint:
            self.is_lost = True
            raise WorkerLost

    def stop_reason(self) -> StopReason | None:
        if self._told is None and self._stop_when is not None and self._stop_when(self):
            self._told = self._reason
        return self._told


class Executed(NamedTuple):
    """`outcome` goes to the platform; `result` and `error` are what the handler itself returned or raised."""

    outcome: Outcome
    result: HandlerResult | None
    error: BaseException | None


def execute(spec: HandlerSpec, ctx: HandlerContext[Any]) -> Executed:
    """Run a handler by the worker's own code, so that parameters, exceptions, checkpoints and output behave alike."""
    witness = _Witness(spec.function)
    if spec.is_checkpointable:
        watched = replace(spec, function=witness.generate)
        outcome = _run(run_async(watched, ctx, _saved))
    elif spec.is_async:
        watched = replace(spec, function=witness.call_async)
        outcome = _run(run_async(watched, ctx, _saved))
    else:
        outcome = run_plain(replace(spec, function=witness.call), ctx)
    return Executed(outcome, witness.result, witness.error)


class _Witness:
    """Wraps the handler for the worker's code, and records what the handler returned or raised."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self.result: HandlerResult | None = None
        self.error: BaseException | None = None

    def call(self, ctx: HandlerContext[Any]) -> Any:
        try:
            return self._keep(self._function(ctx))
        except BaseException as error:
            self.error = error
            raise

    async def call_async(self, ctx: HandlerContext[Any]) -> Any:
        try:
            return self._keep(await self._function(ctx))
        except BaseException as error:
            self.error = error
            raise

    async def generate(self, ctx: HandlerContext[Any]) -> AsyncGenerator[Any, None]:
        phases = self._function(ctx)
        try:
            async for message in phases:
                is_result = isinstance(message, dict) and message.get("type") == "result"
                self._keep(
                    _without_type(message) if is_result else message if isinstance(message, HandlerResult) else None
                )
                yield message
        except GeneratorExit:
            raise
        except BaseException as error:
            self.error = error
            raise
        finally:
            await phases.aclose()

    def _keep(self, returned: Any) -> Any:
        if isinstance(returned, HandlerResult):
            self.result = returned
        elif isinstance(returned, dict):
            # The worker's code refuses an output that is not JSON, with a better message.
            self.result = HandlerResult.model_construct(output=returned)
        return returned


def _without_type(message: dict[str, Any]) -> HandlerResult | None:
    try:
        return HandlerResult.model_validate({key: value for key, value in message.items() if key != "type"})
    except ValueError:
        return None


def _run(coroutine: Coroutine[Any, Any, Outcome]) -> Outcome:
    """Works also inside a test with its own event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    outcomes: list[Outcome] = []
    thread = threading.Thread(target=lambda: outcomes.append(asyncio.run(coroutine)))
    thread.start()
    thread.join()
    return outcomes[0]


async def _saved() -> None:
    """A checkpoint of a test is saved as soon as it is recorded."""


def as_function(handler: Callable[..., Any]) -> Callable[..., Any]:
    """A plain function around a callable object, such as a mock, which has no signature to read."""

    def call(ctx: HandlerContext[Any]) -> Any:
        return handler(ctx)

    return call
