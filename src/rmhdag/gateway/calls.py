"""One request to the gateway as its routes see it: who calls, what was sent, and how pages and waits are asked for."""

from __future__ import annotations

import asyncio
import base64
import binascii
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import orjson
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from rmhdag.gateway.keys import Holder
from rmhdag.gateway.problems import Problem, invalid
from rmhdag.gateway.reads import Place
from rmhdag.models.labels import LabelFilter, read_filter
from rmhdag.models.limits import LABELS_OF_A_JOB

if TYPE_CHECKING:
    from rmhdag.gateway.application import Gateway

MOST_BODY_BYTES = 2 * 1024 * 1024
# A larger body is read by a thread, so that nobody else waits for it.
SMALL_BODY_BYTES = 64 * 1024
BODY_SECONDS = 30.0
MOST_WAIT_SECONDS = 30.0
MOST_LIMIT = 500
WAIT = re.compile(r"(?:^|[,;]\s*)wait\s*=\s*(\d{1,4})(?:\s*[,;]|\s*$)")
REFERENCE = re.compile(r"[^=\x00]{1,64}")


@dataclass
class Call:
    gateway: Gateway
    request: Request
    holder: Holder
    path: Mapping[str, str]
    # With the key that the caller has sent.
    authorization: str = field(repr=False)
    own: str = ""

    async def body(self) -> dict[str, Any]:
        """A JSON object; nothing sent is an empty one."""
        data = await read_body(self.request)
        try:
            value = orjson.loads(data) if len(data) < SMALL_BODY_BYTES else await asyncio.to_thread(orjson.loads, data)
        except orjson.JSONDecodeError as error:
            if not data.strip():
                return {}
            raise Problem(400, "invalid_json", f"the body is not JSON: {error}"[:300]) from None
        if not isinstance(value, dict):
            raise invalid("the body is a JSON object", "")
        # What a client has sent is no secret to it: errors may repeat it.
        self.own = data.decode() if len(data) < SMALL_BODY_BYTES else ""
        return value

    def answer(self, body: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
        return Response(orjson.dumps(body), status, headers=dict(headers or {}), media_type="application/json")

    def link(self, path: str) -> str:
        return f"{(self.gateway.settings.gateway_public_url or '').rstrip('/')}{path}"

    def query(self, name: str) -> str | None:
        """Once at most."""
        values = self.request.query_params.getlist(name)
        if len(values) > 1:
            raise invalid(f"{name} is given more than once", f"/query/{name}")
        if values and "\0" in values[0]:
            raise invalid("text holds a NUL character", f"/query/{name}")
        return values[0] if values else None

    def allow(self, *names: str, refs: bool = False) -> None:
        """Raises a 422 for a query parameter that the route does not know: a misspelt filter would show everything."""
        for name in self.request.query_params:
            if name not in names and not refs:
                raise invalid(f"there is no parameter {name!r} here", f"/query/{name[:64]}")

    def limit(self, default: int = 50) -> int:
        return self.number("limit", default, 1, MOST_LIMIT)

    def number(self, name: str, default: int, least: int, most: int) -> int:
        text = self.query(name)
        if text is None:
            return default
        # Not longer than the largest: zeros before it would hide how large a number is.
        is_number = text.isascii() and text.isdecimal() and len(text) <= len(str(most))
        if not is_number or not least <= int(text) <= most:
            raise invalid(f"{name} is a number from {least} to {most:,}", f"/query/{name}")
        return int(text)

    def flag(self, name: str) -> bool:
        text = self.query(name)
        if text not in (None, "true", "false"):
            raise invalid(f"{name} is true or false", f"/query/{name}")
        return text == "true"

    def moment(self, name: str) -> datetime | None:
        text = self.query(name)
        if text is None:
            return None
        try:
            at = datetime.fromisoformat(text)
            if not 1970 <= at.year <= 9998:
                raise ValueError(text)
        except ValueError:
            raise invalid(f"{name} is a moment such as 2026-01-31T12:00:00Z", f"/query/{name}") from None
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at

    def references(self, *others: str) -> dict[str, str]:
        """All other query parameters are references, as the platform calls them."""
        refs = {name: self.query(name) or "" for name in self.request.query_params if name not in others}
        for name, value in refs.items():
            if not REFERENCE.fullmatch(name) or not 0 < len(value) <= 512:
                raise invalid("references have 1 to 512 characters", f"/query/{name[:64]}")
        if len(refs) > 20:
            raise invalid("there are at most 20 references", "/query")
        return refs

    def labels(self) -> list[LabelFilter]:
        """`label=aoi=oslo` or `label=aoi`; may be repeated, and orders have them all."""
        texts = self.request.query_params.getlist("label")
        try:
            filters = [read_filter(text) for text in texts]
        except ValueError as error:
            raise invalid(str(error), "/query/label") from None
        if len(filters) > LABELS_OF_A_JOB:
            raise invalid(f"there are at most {LABELS_OF_A_JOB} labels", "/query/label")
        if len({label.key for label in filters}) < len(filters):
            raise invalid("a label is given more than once", "/query/label")
        return filters

    def cursor(self) -> Place | None:
        text = self.query("cursor")
        if text is None:
            return None
        try:
            at, last = orjson.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
            place = Place(datetime.fromisoformat(at), str(last))
            if place.at.tzinfo is None or "\0" in place.id or len(text) > 400 or not 1970 <= place.at.year <= 9998:
                raise ValueError(text)
        except (ValueError, TypeError, binascii.Error):
            raise Problem(
                400,
                "invalid_cursor",
                "the cursor is not one that we gave out",
                remedy="Begin again without a cursor.",
                errors=[{"pointer": "/query/cursor", "detail": "not a cursor"}],
            ) from None
        return place

    def page(self, name: str, lines: list[Any], show: Callable[[Any], Any], place: Callable[[Any], Place]) -> Response:
        """`lines` has one more than the limit if there is a next page."""
        limit = self.limit()
        more = place(lines[limit - 1]) if len(lines) > limit else None
        headers, cursor = {}, None
        if more is not None:
            cursor = cursor_after(more)
            headers["Link"] = f'<{self.next_link(more)}>; rel="next"'
        body = {name: [show(line) for line in lines[:limit]], "next_cursor": cursor}
        return self.answer(body, headers=headers)

    def next_link(self, place: Place) -> str:
        """The address of the page behind this place."""
        pairs = [(key, value) for key, value in self.request.query_params.multi_items() if key != "cursor"]
        return self.link(f"{self.request.url.path}?{urlencode([*pairs, ('cursor', cursor_after(place))])}")

    def wait_seconds(self) -> float:
        """`Prefer: wait=n`, as far as we are willing."""
        preference = WAIT.search(self.request.headers.get("prefer", ""))
        return 0.0 if preference is None else min(float(preference[1]), MOST_WAIT_SECONDS)


Handler = Callable[[Call], Awaitable[Response]]


def cursor_after(place: Place) -> str:
    return base64.urlsafe_b64encode(orjson.dumps([place.at.isoformat(), place.id])).decode().rstrip("=")


async def read_body(request: Request) -> bytes:
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length) > MOST_BODY_BYTES:
        raise too_large()
    data = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in request.stream():
                data += chunk
                if len(data) > MOST_BODY_BYTES:
                    raise too_large()
    except TimeoutError:
        raise Problem(408, "body_too_slow", "the body of the request did not arrive in time") from None
    except ClientDisconnect:
        raise Problem(400, "body_incomplete", "the connection ended before the body did") from None
    return bytes(data)


def too_large() -> Problem:
    return Problem(
        413, "body_too_large", f"a body has at most {MOST_BODY_BYTES:,} bytes", headers={"Connection": "close"}
    )
