"""Errors as RFC 9457 problems, and nothing of our insides in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

import orjson
from starlette.responses import Response

MEDIA_TYPE = "application/problem+json"
RETRY_SECONDS = 2


class Problem(Exception):
    """`code` is a word for programs that does not change."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        *,
        remedy: str | None = None,
        errors: Sequence[Mapping[str, Any]] = (),
        headers: Mapping[str, str] | None = None,
        **members: Any,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.headers = dict(headers or {})
        self.body: dict[str, Any] = {
            "type": f"urn:rmhdag:problem:{code}",
            "title": HTTPStatus(status).phrase,
            "status": status,
            "code": code,
            "detail": detail,
            "errors": list(errors),
        }
        if remedy is not None:
            self.body["remedy"] = remedy
        self.body |= {name: value for name, value in members.items() if value is not None}

    def response(self) -> Response:
        return Response(orjson.dumps(self.body), self.status, headers=self.headers, media_type=MEDIA_TYPE)


def invalid(detail: str, pointer: str) -> Problem:
    return Problem(422, "invalid_request", detail, errors=[{"pointer": pointer, "detail": detail}])


def not_found(what: str = "request") -> Problem:
    """The same words for what does not exist and for what belongs to somebody else."""
    return Problem(404, "not_found", f"there is no such {what}", remedy="Check the id, or list your requests.")


def unavailable(detail: str = "the platform does not answer", **members: Any) -> Problem:
    return Problem(
        503,
        "unavailable",
        detail,
        remedy="Send the same request again after the time in Retry-After.",
        headers={"Retry-After": str(RETRY_SECONDS)},
        **members,
    )
