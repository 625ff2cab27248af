"""What a request may cost before anybody reads it: bytes, time, and no encodings that hide either."""

from __future__ import annotations

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rmhdag.api.problems import Problem, respond
from rmhdag.models.limits import HEADER_BYTES as HEADER_BYTES

# Of two it would not be known which is meant; others before us may take the other one.
GIVEN_ONCE = (b"authorization", b"x-api-key", b"idempotency-key", b"last-event-id", b"content-type")


class BodyLimits:
    """Counts what really arrives: a Content-Length may lie, and chunks may never end."""

    def __init__(self, app: ASGIApp, max_body_bytes: int, body_seconds: float) -> None:
        self._app = app
        self._max_body_bytes = max_body_bytes
        self._body_seconds = body_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        try:
            if _head_bytes(scope) > HEADER_BYTES:
                raise head_too_large()
            _refuse_twins([name for name, _ in scope["headers"]])
            self._check_headers(headers)
        except Problem as problem:
            await respond(problem)(scope, receive, send)
            return
        arrived = 0
        complete = False
        deadline = asyncio.get_running_loop().time() + self._body_seconds

        async def bounded() -> Message:
            nonlocal arrived, complete
            if complete:  # what comes now is the end of the connection, for which a stream may wait long
                return await receive()
            try:
                async with asyncio.timeout_at(deadline):
                    message = await receive()
            except TimeoutError:
                raise Problem(408, "body_too_slow", "the body did not arrive in time") from None
            arrived += len(message.get("body", b""))
            if arrived > self._max_body_bytes:
                raise body_too_large(self._max_body_bytes)
            complete = message["type"] != "http.request" or not message.get("more_body", False)
            return message

        await self._app(scope, bounded, send)

    def _check_headers(self, headers: dict[bytes, bytes]) -> None:
        encoding = headers.get(b"content-encoding", b"identity").strip().lower()
        if encoding not in (b"identity", b""):
            raise Problem(415, "encoding_not_supported", "bodies are sent as they are, without Content-Encoding")
        refuse_announced(headers.get(b"content-length", b"").decode("latin-1"), self._max_body_bytes)


def refuse_announced(content_length: str, max_bytes: int) -> None:
    """Before anything of it is read."""
    if content_length.isdecimal() and int(content_length[:20]) > max_bytes:
        raise body_too_large(max_bytes)


def body_too_large(max_bytes: int) -> Problem:
    return Problem(413, "body_too_large", f"a body has at most {max_bytes} bytes here")


def _refuse_twins(names: list[bytes]) -> None:
    for name in GIVEN_ONCE:
        if names.count(name) > 1:
            what = name.decode()
            raise Problem(
                400, "header_repeated", f"the header `{what}` is given twice: keep one", pointer=f"/header/{what}"
            )


def _head_bytes(scope: Scope) -> int:
    target = len(scope["raw_path"]) + len(scope["query_string"])
    return target + sum(len(name) + len(value) for name, value in scope["headers"])


def head_too_large() -> Problem:
    """Whether the head came in one piece, which the server reads whatever its length, or in many."""
    return Problem(431, "head_too_large", f"address and headers of a request have at most {HEADER_BYTES} bytes")
