"""Commands go to the API over HTTP, with the gateway's own key and in the name of its caller.

There is one base URL, from the settings: nothing that a caller sends chooses a host.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Mapping
from typing import Any

import httpx
import orjson

from rmhdag.gateway.keys import CHALLENGE, Holder
from rmhdag.gateway.problems import Problem, unavailable
from rmhdag.models.api.clients import TokenIdentity, Uses
from rmhdag.models.local_callers import SCOPES_HEADER, local_headers
from rmhdag.models.partner_orders import shown_pointer, shown_text
from rmhdag.models.scopes import Scope

CONNECT_SECONDS = 2.0
CONNECTIONS = 64
AWAY = "the platform does not take commands at the moment"
# Of the API's refusals: what concerns the gateway itself, and not its caller.
OURS = frozenset({"no_key", "key_refused", "token_refused", "scope_missing", "unknown_host", "cross_site"})

ABOUT_DATA = ("code", "category", "remediation", "user_fixable")

log = logging.getLogger(__name__)


class Forwarder:
    def __init__(self, url: str, key: str, *, seconds: float) -> None:
        self.url = url
        self._key = key
        self._seconds = seconds
        self._client: httpx.AsyncClient | None = None
        self._stream_client: httpx.AsyncClient | None = None

    async def send(
        self,
        holder: Holder,
        method: str,
        path: str,
        *,
        scopes: tuple[Scope, ...] = (Scope.READ,),
        body: Any = None,
        query: Any = None,
        headers: Mapping[str, str] | None = None,
        repeatable: bool | None = None,
        own: str = "",
    ) -> httpx.Response:
        """The answer, if it is a good one; else raises what the caller is told.

        `repeatable` calls are sent a second time if the first one's fate is unknown: by default those that read.
        `own` is what the caller has sent: ids in it are the caller's, and may be repeated in an error.
        """
        answer = await self.send_raw(
            holder, method, path, scopes=scopes, body=body, query=query, headers=headers, repeatable=repeatable
        )
        return check(answer, own)

    async def send_raw(
        self,
        holder: Holder,
        method: str,
        path: str,
        *,
        scopes: tuple[Scope, ...],
        body: Any = None,
        query: Any = None,
        headers: Mapping[str, str] | None = None,
        repeatable: bool | None = None,
    ) -> httpx.Response:
        """The answer, whatever it is."""
        is_repeatable = method == "GET" if repeatable is None else repeatable
        return await self._send(method, path, body, query, self._heads(holder, scopes, headers), is_repeatable)

    async def open_stream(
        self, holder: Holder, method: str, path: str, headers: Mapping[str, str] | None = None
    ) -> httpx.Response:
        """An answer whose body has not been read, over connections of their own: orders never wait for slow readers.
        The caller closes it.
        """
        if self._stream_client is None:
            self._stream_client = self._new_client()
        heads = {**self._heads(holder, (Scope.READ,), headers), "Accept-Encoding": "identity"}
        request = self._stream_client.build_request(method, path, headers=heads)
        try:
            return await self._stream_client.send(request, stream=True)
        except httpx.TransportError as error:
            log.warning("api_unavailable: %s %s", method, type(error).__name__)
            raise unavailable(AWAY) from None

    def _heads(self, holder: Holder, scopes: tuple[Scope, ...], headers: Mapping[str, str] | None) -> dict[str, str]:
        return {
            "Authorization": f"Bearer {self._key}",
            **local_headers(holder.namespace, holder.client_id),
            SCOPES_HEADER: " ".join(scopes),
            **(headers or {}),
        }

    async def send_as_caller(
        self, authorization: str, method: str, path: str, *, body: Any = None, query: Any = None, headers: Any = None
    ) -> httpx.Response:
        """With the key of the caller alone: what it allows, the API decides."""
        heads = {"Authorization": authorization, **(headers or {})}
        return await self._send(method, path, body, query, heads, method == "GET")

    async def read_token(self, text: str) -> TokenIdentity:
        """Whose token this is. Raises a 401 with the API's words, and a 503 if it cannot say now."""
        answer = await self._send_own("POST", "/api/v1/gateway/token", {"token": text})
        if answer.status_code == 200:
            return TokenIdentity.model_validate_json(answer.content)
        body = answer.json() if answer.status_code == 422 else {}
        if body.get("code") == "token_refused":
            raise Problem(401, "token_refused", str(body["detail"]), headers=CHALLENGE)
        log.error("token_not_read: %d", answer.status_code)
        raise unavailable("tokens cannot be checked at the moment")

    async def note_uses(self, uses: Uses) -> bool:
        """Whether the API has taken it."""
        try:
            answer = await self._send_own("POST", "/api/v1/gateway/uses", uses.model_dump())
        except Problem:
            return False
        return answer.status_code == 200

    async def _send_own(self, method: str, path: str, body: Any) -> httpx.Response:
        """In the gateway's own name."""
        return await self._send(method, path, body, None, {"Authorization": f"Bearer {self._key}"}, True)

    async def is_alive(self) -> bool:
        """Whether the API answers and takes our key."""
        try:
            ready = await self._send("GET", "/readyz", None, None, {}, True)
            if ready.status_code != 200:
                return False
            me = await self._send("GET", "/api/v1/me", None, None, {"Authorization": f"Bearer {self._key}"}, True)
        except Problem:
            return False
        return me.status_code == 200 and Scope.GATEWAY in me.json()["scopes"]

    async def close(self) -> None:
        clients, self._client, self._stream_client = (self._client, self._stream_client), None, None
        for client in clients:
            if client is not None:
                await client.aclose()

    async def _send(
        self, method: str, path: str, body: Any, query: Any, headers: Mapping[str, str], repeatable: bool
    ) -> httpx.Response:
        content = None if body is None else orjson.dumps(body)
        heads = {**headers, **({"Content-Type": "application/json"} if content is not None else {})}
        for attempt in (1, 2):
            try:
                return await self._open().request(method, path, content=content, params=query, headers=heads)
            except httpx.TransportError as error:
                log.warning("api_unavailable: %s %s, attempt %d", method, type(error).__name__, attempt)
                was_sent = not isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)
                if attempt == 2 or (was_sent and not repeatable):
                    raise unavailable(AWAY) from None
        raise AssertionError("unreachable")

    def _open(self) -> httpx.AsyncClient:
        if self._client is None:
            self._client = self._new_client()
        return self._client

    def _new_client(self) -> httpx.AsyncClient:
        # Certificates of authorities take longer to read than all the rest of the start; plain HTTP needs none.
        verify = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if self.url.startswith("http:") else True
        return httpx.AsyncClient(
            base_url=self.url,
            timeout=httpx.Timeout(self._seconds, connect=CONNECT_SECONDS),
            limits=httpx.Limits(max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS),
            trust_env=False,
            verify=verify,
        )


def check(answer: httpx.Response, own: str = "") -> httpx.Response:
    """Raises a Problem made of the API's, with nothing in it that is not for the caller."""
    if answer.status_code < 400:
        return answer
    try:
        body = answer.json()
    except ValueError:
        body = {}
    code = str(body.get("code", ""))
    if answer.status_code >= 500 or answer.status_code == 401 or code in OURS:
        log.error("api_refused: %d %s", answer.status_code, code)
        raise unavailable(AWAY)
    headers = {"Retry-After": answer.headers["retry-after"]} if "retry-after" in answer.headers else {}
    remedy = body.get("remedy")
    raise Problem(
        answer.status_code,
        code or "refused",
        for_partners(str(body.get("detail", "refused")), own),
        remedy=None if remedy is None or is_internal(remedy) else shown_text(remedy, own),
        errors=[
            {
                "pointer": shown_pointer(str(place.get("pointer", "")), own),
                "detail": for_partners(str(place.get("detail")), own),
                **about_data(place),
            }
            for place in body.get("errors", [])
        ],
        headers=headers,
    )


def about_data(place: Mapping[str, Any]) -> dict[str, Any]:
    """What a status says of an error in the data, if this one has a code."""
    return {name: place[name] for name in ABOUT_DATA} if place.get("code") else {}


def for_partners(text: str, own: str) -> str:
    """Without the sentences that follow the first one and are for operators."""
    first, *others = text.split(". ")
    return shown_text(". ".join([first, *(sentence for sentence in others if not is_internal(sentence))]), own)


def is_internal(remedy: str) -> bool:
    """It names a command or a route of the API, which partners do not have."""
    return "rmhdag " in remedy or "/api/" in remedy or "RMHDAG_" in remedy
