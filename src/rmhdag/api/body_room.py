"""How many bytes of large bodies one account may have in memory at the same time.

A body of some megabytes takes several times as much while it is read, checked and stored. Until there is room nothing
more of it is read from its connection: the client waits, and nobody else does.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from contextvars import ContextVar

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rmhdag.api.processor_time import account_name
from rmhdag.api.quotas import quota_exceeded

# Smaller bodies are not worth a queue.
LARGE_BYTES = 64 * 1024
# The driver keeps what it needed for the largest statement of a connection, for as long as that lives.
SWELLING_BYTES = 1024 * 1024
PATIENCE_SECONDS = 5.0
RETRY_SECONDS = 1

_body_bytes: ContextVar[int] = ContextVar("body_bytes", default=0)


def swells_connections() -> bool:
    """Whether the body of the request of this context makes a connection large by which it is stored."""
    return _body_bytes.get() > SWELLING_BYTES


class BodyRoom:
    """Used on the event loop only. First come, first served."""

    def __init__(self) -> None:
        self._used_bytes: Counter[str] = Counter()
        self._queues: dict[str, deque[tuple[int, int, asyncio.Future[None]]]] = {}

    async def take(self, name: str, size_bytes: int, most_bytes: int) -> None:
        """Raises a 429 if there is no room for long. Who is alone has room for any size."""
        queue = self._queues.setdefault(name, deque())
        if not queue and self._fits(name, size_bytes, most_bytes):
            self._used_bytes[name] += size_bytes
            self._forget_if_empty(name)
            return
        entry = (size_bytes, most_bytes, asyncio.get_running_loop().create_future())
        queue.append(entry)
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await entry[2]
        except BaseException as error:
            if entry in queue:
                queue.remove(entry)
                self._let_in(name)
            else:  # let in at the same moment
                self.give_back(name, size_bytes)
            if isinstance(error, TimeoutError):
                used = self._used_bytes[name]
                raise quota_exceeded("body_bytes", most_bytes, used, retry_seconds=RETRY_SECONDS) from None
            raise

    def used_bytes(self, name: str) -> int:
        return self._used_bytes[name]

    def give_back(self, name: str, size_bytes: int) -> None:
        self._used_bytes[name] -= size_bytes
        self._let_in(name)

    def _let_in(self, name: str) -> None:
        queue = self._queues.get(name, deque())
        while queue and self._fits(name, *queue[0][:2]):
            size_bytes, _, future = queue.popleft()
            self._used_bytes[name] += size_bytes
            future.set_result(None)
        self._forget_if_empty(name)

    def _fits(self, name: str, size_bytes: int, most_bytes: int) -> bool:
        used = self._used_bytes[name]
        return not used or used + size_bytes <= most_bytes

    def _forget_if_empty(self, name: str) -> None:
        if not self._queues.get(name):
            self._queues.pop(name, None)
        if not self._used_bytes[name]:
            del self._used_bytes[name]


class RoomForBodies:
    """Behind the authentication: who has no key is not read at all."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        caller = scope.get("state", {}).get("caller")
        if scope["type"] != "http" or caller is None:
            await self._app(scope, receive, send)
            return
        api = scope["app"].state.api
        room: BodyRoom = api.body_room
        name = account_name(caller.namespace, is_worker=caller.is_worker)
        announced = _announced_bytes(scope)
        arrived = reserved = 0

        async def when_there_is_room() -> Message:
            nonlocal arrived, reserved
            if not reserved and max(announced, arrived) > LARGE_BYTES:
                size_bytes = announced or api.settings.max_body_bytes
                await room.take(name, size_bytes, api.quotas.known_limits(caller.namespace).body_bytes)
                reserved = size_bytes
                _body_bytes.set(size_bytes)
            message = await receive()
            arrived += len(message.get("body", b""))
            return message

        try:
            await self._app(scope, when_there_is_room, send)
        finally:
            if reserved:
                room.give_back(name, reserved)


def _announced_bytes(scope: Scope) -> int:
    """Checked already: a number, and not above the limit."""
    text = dict(scope["headers"]).get(b"content-length", b"")
    return int(text) if text.isdigit() else 0
