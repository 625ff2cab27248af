"""A listener's chunks as server-sent events or as messages of a WebSocket, until either side has had enough."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial
from typing import Any, Protocol

import orjson
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from rmhdag.api.problems import respond
from rmhdag.api.processor_time import wait_for_share
from rmhdag.api.streams.chunks import Chunk
from rmhdag.api.streams.listener import Alarm, Listener
from rmhdag.models.refusals import Refusal

RETRY_MILLISECONDS = 2_000
PIECE_BYTES = 32 * 1024
# Where our server puts the connection of a request.
CONNECTION = "rmhdag.connection"
TRY_AGAIN = 1012

Entry = Callable[[], AbstractAsyncContextManager[None]]


class StreamConnection(Protocol):
    """What a stream asks of its connection."""

    def narrow(self) -> None:
        """Keep little of what the client does not read."""

    def abort(self) -> None:
        """End it, whatever was not read."""


class EventStream(Response):
    """Server-sent events. `enter` is the listener's admission, and may refuse it."""

    media_type = "text/event-stream"

    def __init__(
        self, listener: Listener[Any], enter: Entry, job_id: str | None = None, status_code: int = 200
    ) -> None:
        # No proxy may keep events back until it has enough of them.
        super().__init__(status_code=status_code, headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._listener = listener
        self._enter = enter
        self._job_id = job_id
        self._is_unheard = False
        self._connection: StreamConnection | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._connection = scope.get(CONNECTION)
        if self._connection is not None:
            # Else a client that does not read would fill megabytes.
            self._connection.narrow()
        gone = asyncio.ensure_future(self._wait_until_gone(receive))
        try:
            async with self._enter(), limited(self._listener):
                await self._stream(send)
        except Refusal as refusal:
            await respond(refusal)(scope, receive, send)
        finally:
            gone.cancel()
            with suppress(asyncio.CancelledError):
                await gone

    async def _stream(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        task = asyncio.current_task()
        assert task is not None
        patience = Alarm(self._listener.limits.send_seconds, partial(self._give_up, task))

        async def tell(body: bytes, more: bool = True) -> None:
            patience.put_off()
            await send({"type": "http.response.body", "body": body, "more_body": more})
            patience.stop()

        try:
            # An id without data: a client that is disconnected before the first event resumes here.
            await tell(b"retry: %d\nid: %s\n\n" % (RETRY_MILLISECONDS, self._place()))
            async for chunk in self._listener.chunks():
                text, is_end = self._gather(chunk)
                del chunk  # sending may take long, and the text is enough for it
                for start in range(0, len(text), PIECE_BYTES):
                    if start:
                        await wait_for_share()
                    await tell(text[start : start + PIECE_BYTES])
                if is_end:
                    break
            await tell(b"", more=False)
        except asyncio.CancelledError:
            if not self._is_unheard or task.uncancel():
                raise
            # The connection is closed because the response is not complete.
        finally:
            patience.close()

    def _gather(self, chunk: Chunk[Any]) -> tuple[bytes, bool]:
        """The chunk, and what waits behind it as far as it fits: to send costs more than to join. And whether that is
        the end.
        """
        texts, size_bytes = [], 0
        following: Chunk[Any] | None = chunk
        while following is not None:
            text = following.sse or b": ping\nid: %s\n\n" % self._place()
            if following.end is not None:
                text += b"event: end\ndata: %s\n\n" % end_body(self._job_id, following.end)
            texts.append(text)
            size_bytes += len(text)
            if following.end is not None:
                return b"".join(texts), True
            following = self._listener.take_queued() if size_bytes < PIECE_BYTES else None
        return texts[0] if len(texts) == 1 else b"".join(texts), False

    def _give_up(self, task: asyncio.Task[Any]) -> None:
        """Nobody reads. To close would be to wait until somebody has."""
        self._is_unheard = True
        if self._connection is not None:
            self._connection.abort()
        task.cancel()

    def _place(self) -> bytes:
        return str(self._listener.place).encode()

    async def _wait_until_gone(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._listener.close()


async def talk(websocket: WebSocket, listener: Listener[int], enter: Entry, job_id: str, protocol: str | None) -> None:
    """The same as JSON messages. What the other side says is not listened to."""
    async with enter():
        await websocket.accept(protocol)
        gone = asyncio.ensure_future(_wait_until_closed(websocket, listener))
        try:
            async with limited(listener):
                ended = await _send_messages(websocket, listener, job_id)
            if websocket.application_state is WebSocketState.CONNECTED:
                await websocket.close(1000 if ended else TRY_AGAIN, None if ended else "come back to where you were")
        except (TimeoutError, WebSocketDisconnect, RuntimeError):
            pass  # the other side is gone, or might as well be
        finally:
            gone.cancel()
            with suppress(asyncio.CancelledError):
                await gone


async def _send_messages(websocket: WebSocket, listener: Listener[int], job_id: str) -> bool:
    """True if the job has ended."""
    async for chunk in listener.chunks():
        for text in _texts(chunk, job_id):
            async with asyncio.timeout(listener.limits.send_seconds):
                await websocket.send_text(text)
        if chunk.end is not None:
            return True
    return False


def _texts(chunk: Chunk[int], job_id: str) -> list[str]:
    texts = [message.as_json() for message in chunk.messages]
    if chunk.end is not None:
        texts.append(f'{{"event":"end","data":{end_body(job_id, chunk.end).decode()}}}')
    return texts


async def _wait_until_closed(websocket: WebSocket, listener: Listener[int]) -> None:
    with suppress(WebSocketDisconnect, RuntimeError):
        while (await websocket.receive())["type"] != "websocket.disconnect":
            pass
    listener.close()


@asynccontextmanager
async def limited(listener: Listener[Any]) -> AsyncIterator[None]:
    """Closes the listener when its time is over; not for all at the same moment who came at the same moment."""
    seconds = listener.limits.most_seconds * random.uniform(0.8, 1.2)
    if listener.limits.token_seconds is not None:
        seconds = min(seconds, listener.limits.token_seconds)
    timer = asyncio.get_running_loop().call_later(seconds, listener.close)
    try:
        yield
    finally:
        timer.cancel()


def end_body(job_id: str | None, status: str) -> bytes:
    return orjson.dumps({"job_id": job_id, "status": status})
