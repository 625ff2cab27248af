"""Files of an order's result: which there are, and their bytes, which pass through the gateway from the API.

A file is named by its hash: its place in storage stays inside, and the same bytes have the same address.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import httpx
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from rmhdag.gateway import orders
from rmhdag.gateway.calls import Call
from rmhdag.gateway.forwarding import check
from rmhdag.gateway.problems import Problem, not_found, unavailable
from rmhdag.models.partner_orders import segment

# Files that one process sends at the same time. A slow reader keeps its place, so one client must not have them all.
MOST_AT_ONCE = 32
MOST_OF_CLIENT = 4
RETRY_SECONDS = 5
FORWARDED = ("range", "if-range", "if-none-match")
ANSWERED = (
    *("content-type", "content-length", "content-range", "content-disposition", "accept-ranges", "etag"),
    *("cache-control", "content-security-policy"),
)


class Downloads:
    """What is being sent to whom."""

    def __init__(self) -> None:
        self._by_client: Counter[tuple[str, str]] = Counter()

    def begin(self, namespace: str, client_id: str) -> Callable[[], None]:
        """What to call at the end. Raises a 429 or a 503."""
        key = (namespace, client_id)
        if self._by_client[key] >= MOST_OF_CLIENT:
            raise Problem(
                429,
                "too_many_downloads",
                f"{MOST_OF_CLIENT} files are being sent to you already",
                remedy="Wait until one of them has arrived.",
                headers={"Retry-After": str(RETRY_SECONDS)},
            )
        if self._by_client.total() >= MOST_AT_ONCE:
            raise unavailable("too many files are being sent at the moment")
        self._by_client[key] += 1

        def end() -> None:
            self._by_client[key] -= 1
            if not self._by_client[key]:
                del self._by_client[key]

        return end


async def get_file(call: Call) -> Response:
    """A file of the result, whole or the range that `Range` asks for. Its `ETag` is its SHA-256."""
    call.allow()
    row = await orders.find(call)
    lines = await call.gateway.reads.list_files(call.holder, row, call.path["sha256"]) if orders.is_shown(row) else []
    if not lines:
        raise not_found("file")
    headers = {name: call.request.headers[name] for name in FORWARDED if name in call.request.headers}
    path = f"/api/v1/files/{segment(lines[0]['blob_id'])}"
    end = call.gateway.downloads.begin(call.holder.namespace, call.holder.client_id)
    try:
        answer = await call.gateway.forwarder.open_stream(call.holder, call.request.method, path, headers)
        if answer.status_code >= 400:
            await answer.aread()
            check(answer)
    except BaseException:
        end()
        raise
    return _Passed(answer, end)


class _Passed(StreamingResponse):
    """An answer of the API on its way to the caller."""

    def __init__(self, answer: httpx.Response, end: Callable[[], None]) -> None:
        headers = {name: answer.headers[name] for name in ANSWERED if name in answer.headers}
        super().__init__(answer.aiter_raw(), answer.status_code, headers)
        self._answer = answer
        self._end = end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._end()
            await self._answer.aclose()
