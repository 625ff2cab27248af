"""Answers that are the proxy's own: JSON, and problems after RFC 9457."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from starlette.responses import Response


def json_answer(body: Mapping[str, Any], status: int = 200) -> Response:
    return Response(orjson.dumps(body), status, media_type="application/json")


def problem(status: int, code: str, detail: str, headers: Mapping[str, str] | None = None) -> Response:
    body = {"type": "about:blank", "status": status, "code": code, "detail": detail}
    return Response(orjson.dumps(body), status, headers, media_type="application/problem+json")
