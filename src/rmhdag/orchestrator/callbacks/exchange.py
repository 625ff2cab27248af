"""One try: resolve, check, connect to the checked address, send, read as much of the answer as needed.

Redirects are answers like others. Whatever the other side does, it costs a bounded time and a bounded memory.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cached_property
from typing import NamedTuple

import h11

from rmhdag.services.callbacks.destinations import (
    NO_PUBLIC_ADDRESS,
    CallbackRefused,
    Destination,
    Rules,
    check_addresses,
    read_destination,
)

MOST_ANSWER_BYTES = 64 * 1024
MOST_HEAD_BYTES = 16 * 1024
# A page of a hundred pipeline runs with their parameters.
MOST_CONTENT_BYTES = 4 * 1024 * 1024
# Once the status is known nothing else matters; a short body is read so that its sender sees no reset.
BODY_SECONDS = 2.0
# Before the end of the whole try, which must not make nothing of an answer that is there.
SPARE_SECONDS = 0.25
MOST_ADDRESSES = 4
USER_AGENT = "rmhdag-callbacks/1"

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]


class Answer(NamedTuple):
    """`status` is None if there was none; `error` says why, in words that tell nothing of our network."""

    status: int | None
    error: str | None = None
    retry_after_seconds: float | None = None
    # Of an answer whose content was asked for.
    content: bytes = b""


class Question(NamedTuple):
    """What is sent, and whether the content of the answer matters."""

    method: str = "POST"
    body: bytes = b""
    media_type: str = "application/json"
    wants_content: bool = False


class Exchange:
    """How tries are made. `resolve` and `tls` are the system's unless given."""

    def __init__(
        self,
        rules: Rules,
        total_seconds: float,
        *,
        resolve: Resolve | None = None,
        check: Callable[[Collection[str]], None] = check_addresses,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._rules = rules
        self._total_seconds = total_seconds
        self._resolve = resolve or look_up
        self._check = check
        self._given_tls = tls

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        """Not before it is needed: reading all authorities takes longer than starting an orchestrator should."""
        return self._given_tls or ssl.create_default_context()

    async def post(
        self, url: str, headers: Sequence[tuple[str, str]], body: bytes, namespace: str = "default"
    ) -> Answer:
        """Send a notification: only the status of the answer matters."""
        return await self.ask(url, headers, Question(body=body), namespace)

    async def ask(
        self, url: str, headers: Sequence[tuple[str, str]], question: Question, namespace: str = "default"
    ) -> Answer:
        """Never raises for anything that the other side, the network or the URL is to blame for."""
        try:
            async with asyncio.timeout(self._total_seconds) as limit:
                destination = read_destination(url, self._rules.for_namespace(namespace))
                reader, writer = await self._connect(destination)
                try:
                    deadline = limit.when()
                    assert deadline is not None
                    return await _talk(reader, writer, _request(destination, headers, question), question, deadline)
                finally:
                    # Not close(): what a peer does not take must not keep the socket.
                    writer.transport.abort()
        except TimeoutError:
            return Answer(None, f"no answer within {self._total_seconds:g} s")
        except CallbackRefused as error:
            return Answer(None, str(error))
        except ssl.SSLError as error:
            return Answer(None, f"no TLS connection: {error.reason or type(error).__name__}")
        except h11.RemoteProtocolError:
            return Answer(None, "the answer was not HTTP, or its head was too large")
        except socket.gaierror:
            return Answer(None, NO_PUBLIC_ADDRESS)
        except OSError as error:
            return Answer(None, f"no connection: {type(error).__name__}")

    async def _connect(self, to: Destination) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        addresses = await self._resolve(to.host, to.port)
        if not to.is_trusted:
            self._check(addresses)
        tls = self._tls if to.scheme == "https" else None
        failure: OSError = socket.gaierror("no address")
        for address in addresses[:MOST_ADDRESSES]:
            try:
                # The address, never the name: between two look-ups a name may change its meaning.
                return await asyncio.open_connection(
                    address,
                    to.port,
                    ssl=tls,
                    server_hostname=to.host if tls else None,
                    limit=MOST_HEAD_BYTES,
                )
            except ssl.SSLError:
                raise
            except OSError as error:
                failure = error
        raise failure


async def look_up(host: str, port: int) -> list[str]:
    """All addresses. A thread per look-up that nobody waits for at the end: a resolver may be silent for a minute."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[list[str]] = loop.create_future()

    def tell(result: list[str] | OSError) -> None:
        if answer.done():
            return
        answer.set_exception(result) if isinstance(result, OSError) else answer.set_result(result)

    def ask() -> None:
        try:
            result: list[str] | OSError = _addresses(host, port)
        except OSError as error:
            result = error
        with suppress(RuntimeError):  # the loop is gone, and with it everybody who wanted to know
            loop.call_soon_threadsafe(tell, result)

    try:
        return _addresses(host, port, socket.AI_NUMERICHOST)
    except OSError:
        threading.Thread(target=ask, name="look-up", daemon=True).start()
        return await answer


def _addresses(host: str, port: int, flags: int = 0) -> list[str]:
    infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)
    return list(dict.fromkeys(str(address[0]) for *_, address in infos))


def _request(to: Destination, headers: Sequence[tuple[str, str]], question: Question) -> h11.Request:
    ours = [
        ("Host", to.authority),
        ("User-Agent", USER_AGENT),
        ("Accept", "*/*"),
        ("Connection", "close"),
        ("Content-Type", question.media_type),
        ("Content-Length", str(len(question.body))),
    ]
    return h11.Request(method=question.method, target=to.target, headers=[*ours, *headers])


async def _talk(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    request: h11.Request,
    question: Question,
    deadline: float,
) -> Answer:
    talk = h11.Connection(h11.CLIENT, max_incomplete_event_size=MOST_HEAD_BYTES)
    for event in (request, h11.Data(data=question.body), h11.EndOfMessage()):
        writer.write(talk.send(event) or b"")
    # A server may answer and hang up before it has read everything.
    with suppress(ConnectionError):
        await writer.drain()
    remaining = MOST_ANSWER_BYTES
    answer: Answer | None = None
    while answer is None:
        event_read = talk.next_event()
        if event_read is h11.NEED_DATA:
            if not remaining:
                return Answer(None, "the head of the answer was too large")
            data = await reader.read(min(remaining, MOST_HEAD_BYTES))
            remaining -= len(data)
            talk.receive_data(data)
        elif isinstance(event_read, h11.Response):
            answer = _read_answer(event_read)
        elif not isinstance(event_read, h11.InformationalResponse):
            return Answer(None, "the connection ended without an answer")
    if question.wants_content:
        return answer._replace(content=await _content(reader, talk))
    with suppress(TimeoutError, OSError):
        async with asyncio.timeout_at(min(deadline - SPARE_SECONDS, asyncio.get_running_loop().time() + BODY_SECONDS)):
            while remaining and (data := await reader.read(min(remaining, MOST_HEAD_BYTES))):
                remaining -= len(data)
    return answer


async def _content(reader: asyncio.StreamReader, talk: h11.Connection) -> bytes:
    """All of it, if that is not too much; within the time of the whole try."""
    content = bytearray()
    remaining = MOST_CONTENT_BYTES
    while True:
        event = talk.next_event()
        if event is h11.NEED_DATA:
            if not remaining:
                raise h11.RemoteProtocolError("the answer is too large")
            data = await reader.read(min(remaining, MOST_HEAD_BYTES))
            remaining -= len(data)
            talk.receive_data(data)
        elif isinstance(event, h11.Data):
            content += event.data
        else:
            return bytes(content)


def _read_answer(response: h11.Response) -> Answer:
    retry_after = next((value for name, value in response.headers if name == b"retry-after"), None)
    wait = None if retry_after is None else read_retry_after(retry_after.decode("latin-1"))
    if 200 <= response.status_code < 300:
        return Answer(response.status_code)
    why = "redirects are not followed" if 300 <= response.status_code < 400 else "the endpoint refused it"
    return Answer(response.status_code, f"answer {response.status_code}: {why}", wait)


def read_retry_after(text: str, now: datetime | None = None) -> float | None:
    """Seconds, from a number or a date; None if it is neither."""
    if text.isascii() and text.isdigit():
        return float(text[:10])
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError, OverflowError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - (now or datetime.now(UTC))).total_seconds())
