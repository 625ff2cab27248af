"""The STAC API by stac-fastapi-pgstac, without transactions; files of the platform's storage get a public address.

Runs in the services' environment, under uvicorn, and imports nothing of rmhdag.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import orjson
from stac_fastapi.pgstac.app import create_app
from starlette.datastructures import URL, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

FILES_PATH = os.environ["RMHDAG_FILES_PATH"]
# As the platform writes addresses of its own files; nobody outside can use them.
STORED = ("file:", "az:", "s3:")


class PublicHrefs:
    """Replaces addresses in storage by those under which `rmhdag serve` gives the files out."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start: Message | None = None
        body = b""

        async def gather(message: Message) -> None:
            nonlocal start, body
            if message["type"] == "http.response.start":
                start = message
                return
            if message["type"] != "http.response.body":
                await send(message)
                return
            body += message.get("body", b"")
            if message.get("more_body") or start is None:
                return
            headers = MutableHeaders(scope=start)
            if "json" in headers.get("content-type", ""):
                body = rewritten(body, f"{origin(scope)}{FILES_PATH}")
                headers["content-length"] = str(len(body))
            await send(start)
            await send({"type": "http.response.body", "body": body})

        await self._app(scope, receive, gather)


def origin(scope: Scope) -> str:
    url = URL(scope=scope)
    return f"{url.scheme}://{url.netloc}"


def rewritten(body: bytes, files: str) -> bytes:
    if not any(scheme.encode() in body for scheme in STORED):
        return body
    document = orjson.loads(body)
    for item in items_in(document):
        for name, asset in (item.get("assets") or {}).items():
            if isinstance(asset, dict) and str(asset.get("href", "")).startswith(STORED):
                place = "/".join(quote(str(part), safe="") for part in (item["collection"], item["id"], name))
                asset["href"] = f"{files}/{place}"
    return orjson.dumps(document)


def items_in(document: Any) -> Iterator[dict[str, Any]]:
    if not isinstance(document, dict):
        return
    if document.get("type") == "FeatureCollection":
        yield from (item for item in document.get("features") or [] if isinstance(item, dict) and "collection" in item)
    elif document.get("type") == "Feature" and "collection" in document:
        yield document


app = create_app()
app.add_middleware(PublicHrefs)
