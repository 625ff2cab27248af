"""Whose processor time it is, and whose turn: a request is charged to its namespace, and waits for its like only.

What a request uses on the event loop is measured step by step, from its first byte on, and what it uses in a thread, in
that thread. Each namespace has some of the threads that ask the database: the others always find a connection.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar
from functools import partial, wraps
from typing import Any, ParamSpec, TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Receive, Scope, Send

from rmhdag.api.problems import Problem

PATIENCE_SECONDS = 5.0
# A stream of a namespace without processor time goes on by then: its client would take it for dead.
MOST_STREAM_SECONDS = 10.0
BILL = "rmhdag.bill"

P = ParamSpec("P")
T = TypeVar("T")
Charge = Callable[[float], None]


class Semaphores:
    """By name, as long as somebody has an interest in them."""

    def __init__(self) -> None:
        self._semaphores: dict[str, asyncio.Semaphore] = {}
        self._interested: Counter[str] = Counter()

    def __contains__(self, name: str) -> bool:
        return name in self._semaphores

    @contextmanager
    def one(self, name: str, most: int) -> Iterator[asyncio.Semaphore]:
        semaphore = self._semaphores.setdefault(name, asyncio.Semaphore(most))
        self._interested[name] += 1
        try:
            yield semaphore
        finally:
            self._interested[name] -= 1
            if not self._interested[name]:
                del self._interested[name], self._semaphores[name]


class Turns:
    """At most so many requests of one namespace ask the database at the same time. Used on the event loop only.

    Keys that nobody has seen yet belong to no namespace; together they have a few turns.
    """

    STRANGERS = ""

    def __init__(self, most: int, most_strangers: int = 1) -> None:
        self._most = most
        self._most_strangers = most_strangers
        self._turns = Semaphores()
        self._lines = Semaphores()

    @asynccontextmanager
    async def turn(self, namespace: str) -> AsyncIterator[None]:
        most = self._most if namespace != self.STRANGERS else self._most_strangers
        with self._turns.one(namespace, most) as semaphore:
            await self._wait(semaphore)
            try:
                yield
            finally:
                semaphore.release()

    @asynccontextmanager
    async def line(self, name: str) -> AsyncIterator[None]:
        """One at a time, in the order in which they came."""
        with self._lines.one(name, 1) as semaphore:
            async with semaphore:
                yield

    def has_line(self, name: str) -> bool:
        return name in self._lines

    @staticmethod
    async def _wait(semaphore: asyncio.Semaphore) -> None:
        if not semaphore.locked():
            await semaphore.acquire()
            return
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await semaphore.acquire()
        except TimeoutError:
            raise Problem(
                429,
                "requests_busy",
                "too many requests of this namespace are being answered",
                remedy="Try again in 1 s, with fewer calls at once.",
                headers={"Retry-After": "1"},
            ) from None


class Bill:
    """What a request has used before it is known whose it is; from then on, its namespace pays at once."""

    def __init__(self) -> None:
        self._seconds = 0.0
        self._charge: Charge | None = None

    def add(self, seconds: float) -> None:
        if self._charge is None:
            self._seconds += seconds
        else:
            self._charge(seconds)

    def present_to(self, charge: Charge) -> None:
        charge(self._seconds)
        self._charge = charge


def account_name(namespace: str, *, is_worker: bool) -> str:
    """Workers have an account of their own: a namespace that floods must not lose them."""
    return f"{namespace} workers" if is_worker else namespace


def bill_of(scope: Scope) -> Bill:
    bill: Bill = scope.setdefault(BILL, Bill())
    return bill


class Account:
    """Of the request that is being answered. `name`: people and workers of a namespace have one each."""

    def __init__(self, name: str, turns: Turns, charge: Charge, seconds_to_wait: Callable[[], float]) -> None:
        self.name = name
        self.turns = turns
        self.charge = charge
        self.seconds_to_wait = seconds_to_wait

    def run(self, function: Callable[..., Any], arguments: dict[str, Any]) -> Any:
        """In a thread."""
        began = time.thread_time()
        try:
            return function(**arguments)
        finally:
            self.charge(time.thread_time() - began)


_account: ContextVar[Account | None] = ContextVar("account", default=None)


def current_account() -> str:
    """Who pays for what this context does; nothing, if nobody does."""
    account = _account.get()
    return "" if account is None else account.name


def charge(seconds: float) -> None:
    """Time that somebody else has used for the request of this context."""
    account = _account.get()
    if account is not None:
        account.charge(seconds)


async def wait_for_share() -> None:
    """Until the namespace of this context has processor time again, within limits; for what goes on after its answer
    has begun, and can no longer be refused. They stand in a line: were each to look by itself, 400 streams would use up
    the share by looking.
    """
    account = _account.get()
    if account is None or not (account.seconds_to_wait() > 0 or account.turns.has_line(account.name)):
        return
    with suppress(TimeoutError):
        async with asyncio.timeout(MOST_STREAM_SECONDS), account.turns.line(account.name):
            while (seconds := account.seconds_to_wait()) > 0:
                await asyncio.sleep(min(1.0, seconds))


def charged(function: Callable[[], T]) -> Callable[[], T]:
    """The function, for another thread: what it uses there is charged to the request of this context."""
    account = _account.get()
    return function if account is None else lambda: account.run(function, {})


async def run_in_turn(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """The function in a thread, when it is the turn of the namespace of this context, and charged to it. Everything
    that asks the database for a request goes this way: a namespace whose statements wait for a lock has the others
    wait for nothing.
    """
    call = partial(function, *args, **kwargs)
    account = _account.get()
    if account is None:
        return await run_in_threadpool(call)
    async with account.turns.turn(account.name):
        return await run_in_threadpool(charged(call))


def in_turn(endpoint: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
    """The endpoint in a thread, when it is the turn of its namespace."""

    @wraps(endpoint)
    async def when_it_is_its_turn(**arguments: Any) -> Any:
        return await run_in_turn(endpoint, **arguments)

    return when_it_is_its_turn


class ProcessorTime:
    """Before everything else: what a request uses on the event loop is on its bill."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        await _Charged(self._app(scope, receive, send), bill_of(scope).add)  # type: ignore[arg-type]


class Accounts:
    """Behind the authentication, which says whose request it is."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        caller = scope.get("state", {}).get("caller")
        if caller is None:
            await self._app(scope, receive, send)
            return
        api = scope["app"].state.api
        charge, seconds_to_wait = api.quotas.processor_of(caller.namespace, is_worker=caller.is_worker)
        bill_of(scope).present_to(charge)
        name = account_name(caller.namespace, is_worker=caller.is_worker)
        before = _account.set(Account(name, api.turns, charge, seconds_to_wait))
        try:
            await self._app(scope, receive, send)
        finally:
            _account.reset(before)


class _Charged:
    """A coroutine whose steps are timed."""

    def __init__(self, steps: Coroutine[Any, Any, None], charge: Charge) -> None:
        self._steps = steps
        self._charge = charge

    def __await__(self) -> Generator[Any, Any, None]:
        step: Callable[[Any], Any] = self._steps.send
        value: Any = None
        while True:
            began = time.thread_time()
            try:
                awaited = step(value)
            except StopIteration:
                return
            finally:
                self._charge(time.thread_time() - began)
            try:
                step, value = self._steps.send, (yield awaited)
            except BaseException as error:
                step, value = self._steps.throw, error
