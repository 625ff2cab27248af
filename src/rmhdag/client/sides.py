"""The two sides of the client: scripts run with blocking steps, or with awaited ones. Nothing else differs."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, overload

import httpx
from pydantic import BaseModel

from rmhdag.client.call import Call
from rmhdag.client.steps import Answer, Item, Items, NextLine, Open, Pause, Send, Step, Steps, ask

P = ParamSpec("P")
T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)

# Streams have a ping every 15 seconds.
STREAM_SECONDS = 45.0


def request_of(http: httpx.Client | httpx.AsyncClient, step: Send | Open) -> httpx.Request:
    call = step.call
    headers = trace_headers()
    if call.content is not None:
        headers["Content-Type"] = call.media_type
    if call.wait_seconds is not None:
        headers["Prefer"] = f"wait={call.wait_seconds}"
    timeout: Any = httpx.USE_CLIENT_DEFAULT
    if isinstance(step, Open):
        headers["Accept"] = "text/event-stream"
        timeout = httpx.Timeout(http.timeout.connect, read=STREAM_SECONDS)
        if step.last_event_id is not None:
            headers["Last-Event-ID"] = step.last_event_id
    return http.build_request(
        call.method, call.path, params=call.parameters(), content=call.content, headers=headers, timeout=timeout
    )


def trace_headers() -> dict[str, str]:
    """Of the span that is open here: what is submitted joins its trace. Who has not loaded the package has none."""
    headers: dict[str, str] = {}
    if "opentelemetry.trace" in sys.modules:
        from opentelemetry.propagate import inject

        inject(headers)
    return headers


class SyncSide:
    # Called before each pause between two tries; what it raises ends the call.
    on_pause: Callable[[Pause], None] | None = None

    def __init__(self, http: httpx.Client) -> None:
        self._http = http

    def call(self, call: Call[M]) -> M:
        """Make one call of `rmhdag.client.calls`."""
        return self._run(ask(call))

    def _run(self, steps: Steps[T]) -> T:
        exchange = _Exchange(self._http, self.on_pause)
        try:
            step = next(steps)
            while True:
                step = exchange.advance(steps, step)
        except StopIteration as end:
            value: T = end.value
            return value
        finally:
            exchange.close()

    def _iterate(self, steps: Items[T]) -> Iterator[T]:
        exchange = _Exchange(self._http, self.on_pause)
        try:
            step = next(steps)
            while True:
                if isinstance(step, Item):
                    yield step.value
                    step = next(steps)
                else:
                    step = exchange.advance(steps, step)
        except StopIteration:
            return
        finally:
            exchange.close()


class _Exchange:
    """The requests of one script, and the stream that it has open."""

    def __init__(self, http: httpx.Client, on_pause: Callable[[Pause], None] | None) -> None:
        self._http = http
        self._on_pause = on_pause
        self._stream: httpx.Response | None = None
        self._lines: Iterator[str] = iter(())

    def advance(self, steps: Any, step: Step) -> Any:
        try:
            answer = self._perform(step)
        except httpx.TransportError as error:
            return steps.throw(error)
        return steps.send(answer)

    def _perform(self, step: Step) -> Any:
        if isinstance(step, Pause):
            if self._on_pause is not None:
                self._on_pause(step)
            return time.sleep(step.seconds)
        if isinstance(step, NextLine):
            return next(self._lines, None)
        self.close()
        is_stream = isinstance(step, Open)
        response = self._http.send(request_of(self._http, step), stream=is_stream)
        if is_stream and response.status_code < 400:
            self._stream, self._lines = response, response.iter_lines()
            return Answer(response.status_code, response.headers, b"")
        return Answer(response.status_code, response.headers, response.read())

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None


class AsyncSide:
    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http

    async def call(self, call: Call[M]) -> M:
        """Make one call of `rmhdag.client.calls`."""
        return await self._run(ask(call))

    async def _run(self, steps: Steps[T]) -> T:
        exchange = _AsyncExchange(self._http)
        try:
            step = next(steps)
            while True:
                step = await exchange.advance(steps, step)
        except _Ended as end:
            value: T = end.value
            return value
        except StopIteration as end:
            value = end.value
            return value
        finally:
            await exchange.close()

    async def _iterate(self, steps: Items[T]) -> AsyncIterator[T]:
        exchange = _AsyncExchange(self._http)
        try:
            step = next(steps, None)
            while step is not None:
                if isinstance(step, Item):
                    yield step.value
                    step = next(steps, None)
                else:
                    step = await exchange.advance(steps, step)
        except _Ended:
            return
        finally:
            await exchange.close()


class _Ended(Exception):
    """A StopIteration cannot leave a coroutine."""

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


class _AsyncExchange:
    """The requests of one script, and the stream that it has open."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http
        self._stream: httpx.Response | None = None
        self._lines: AsyncIterator[str] | None = None

    async def advance(self, steps: Any, step: Step) -> Any:
        try:
            try:
                answer = await self._perform(step)
            except httpx.TransportError as error:
                return steps.throw(error)
            return steps.send(answer)
        except StopIteration as end:
            raise _Ended(end.value) from None

    async def _perform(self, step: Step) -> Any:
        if isinstance(step, Pause):
            return await asyncio.sleep(step.seconds)
        if isinstance(step, NextLine):
            return None if self._lines is None else await anext(self._lines, None)
        await self.close()
        is_stream = isinstance(step, Open)
        response = await self._http.send(request_of(self._http, step), stream=is_stream)
        if is_stream and response.status_code < 400:
            self._stream, self._lines = response, response.aiter_lines()
            return Answer(response.status_code, response.headers, b"")
        return Answer(response.status_code, response.headers, await response.aread())

    async def close(self) -> None:
        if self._stream is not None:
            await self._stream.aclose()
            self._stream = None


class Operation(Generic[P, T]):
    """A script as a method: it blocks on the one side and is awaited on the other."""

    def __init__(self, script: Callable[Concatenate[Any, P], Steps[T]]) -> None:
        self._script = script
        self.__doc__ = script.__doc__

    @overload
    def __get__(self, instance: None, owner: Any) -> Self: ...
    @overload
    def __get__(self, instance: SyncSide, owner: Any) -> Callable[P, T]: ...
    @overload
    def __get__(self, instance: AsyncSide, owner: Any) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, instance: Any, owner: Any) -> Any:
        if instance is None:
            return self

        @wraps(self._script)
        def bound(*arguments: P.args, **named: P.kwargs) -> Any:
            return instance._run(self._script(instance, *arguments, **named))

        return bound


class Iteration(Generic[P, T]):
    """A script that yields items, as a method: an iterator on the one side, an asynchronous one on the other."""

    def __init__(self, script: Callable[Concatenate[Any, P], Items[T]]) -> None:
        self._script = script
        self.__doc__ = script.__doc__

    @overload
    def __get__(self, instance: None, owner: Any) -> Self: ...
    @overload
    def __get__(self, instance: SyncSide, owner: Any) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(self, instance: AsyncSide, owner: Any) -> Callable[P, AsyncIterator[T]]: ...
    def __get__(self, instance: Any, owner: Any) -> Any:
        if instance is None:
            return self

        @wraps(self._script)
        def bound(*arguments: P.args, **named: P.kwargs) -> Any:
            return instance._iterate(self._script(instance, *arguments, **named))

        return bound
