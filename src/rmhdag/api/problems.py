"""Errors as RFC 9457 problems: what, where (a JSON pointer), and what to do. Nothing of our insides is in them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from http import HTTPStatus
from re import Pattern
from typing import Any

import orjson
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from psycopg import DataError, OperationalError, errors
from psycopg_pool import PoolClosed, PoolTimeout
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from rmhdag.api.security_headers import HEADERS
from rmhdag.models.api.problems import ProblemBody as ProblemBody
from rmhdag.models.api.problems import ProblemPlace
from rmhdag.models.json_values import json_pointer
from rmhdag.models.refusals import MEANINGS, Place, Refusal, kind_of
from rmhdag.models.refusals import not_found as not_found
from rmhdag.observability.logs import get_logger
from rmhdag.store.vault import SecretUnreadable

MEDIA_TYPE = "application/problem+json"
RETRY_SECONDS = 2
MOST_ERRORS = 100
# What is wrong with a value may be as long as the value.
MOST_CHARACTERS = 500

log = get_logger(__name__)


class Problem(Refusal, HTTPException):
    """A refusal of HTTP itself, or one that comes with headers. Use cases raise a plain Refusal.

    FastAPI lets only its own kind of exception through from where it reads a body.
    """

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        *,
        remedy: str | None = None,
        pointer: str | None = None,
        places: Iterable[tuple[str, str] | Place] = (),
        headers: Mapping[str, str] | None = None,
        expected: str | None = None,
    ) -> None:
        errors = [place if isinstance(place, Place) else Place(*place) for place in places]
        super().__init__(
            kind_of(status, code), code, detail, remedy=remedy, places=errors, pointer=pointer, expected=expected
        )
        HTTPException.__init__(self, status, detail, dict(headers or {}))
        self.body = body_of(self, status)


def problem_of(refusal: Refusal) -> Problem:
    if isinstance(refusal, Problem):
        return refusal
    status = MEANINGS[refusal.kind].status
    return Problem(
        status,
        refusal.code,
        refusal.message,
        remedy=refusal.remedy,
        places=refusal.places,
        expected=refusal.expected,
    )


def invalid(errors: Sequence[Mapping[str, Any]], what: str) -> Problem:
    """What a model refuses; the first of many are named."""
    # Pydantic names the class of an exception before its sentence, which says all there is to say.
    places = [
        (pointer_of(error["loc"]), str(error["msg"]).removeprefix("Value error, ")) for error in errors[:MOST_ERRORS]
    ]
    detail = places[0][1] if len(errors) == 1 else f"{len(errors)} things are wrong with {what}"
    return Problem(422, "invalid_request", detail, places=places)


def body_of(refusal: Refusal, status: int | None = None) -> ProblemBody:
    status = MEANINGS[refusal.kind].status if status is None else status
    return ProblemBody(
        type=f"urn:rmhdag:problem:{refusal.code}",
        title=HTTPStatus(status).phrase,
        status=status,
        code=refusal.code,
        detail=shorten(refusal.message),
        remedy=refusal.remedy,
        expected=refusal.expected,
        errors=[
            ProblemPlace(
                pointer=place.pointer,
                detail=shorten(place.detail),
                line=place.line,
                column=place.column,
                code=place.code,
            )
            for place in refusal.places[:MOST_ERRORS]
        ],
    )


def unavailable() -> Problem:
    return Problem(
        503,
        "database_unavailable",
        "the database does not answer",
        remedy="Try again after the time in Retry-After; nothing was changed unless the call says so when repeated.",
        headers={"Retry-After": str(RETRY_SECONDS)},
    )


def respond(refusal: Refusal) -> Response:
    """With all headers, for an unexpected error is answered outside of everything that adds them."""
    problem = problem_of(refusal)
    return Response(
        orjson.dumps(problem.body.model_dump(exclude_none=True)),
        problem.status_code,
        headers={**HEADERS, **(problem.headers or {})},
        media_type=MEDIA_TYPE,
    )


def shorten(text: str) -> str:
    """Printable, bounded, and good UTF-8."""
    clean = "".join(letter if letter.isprintable() else "�" for letter in text[: MOST_CHARACTERS + 1])
    return clean if len(clean) <= MOST_CHARACTERS else clean[:MOST_CHARACTERS] + "…"


def install(app: FastAPI) -> None:
    """From here on every error of the application is a problem."""

    async def on_refusal(request: Request, error: Exception) -> Response:
        assert isinstance(error, Refusal)
        return respond(error)

    async def on_framework(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        phrase = HTTPStatus(error.status_code).phrase
        code = phrase.lower().replace(" ", "_").replace("-", "_")
        headers = dict(error.headers or {})
        if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
            headers["Allow"] = ", ".join(methods_of(request))
        if error.status_code == HTTPStatus.NOT_FOUND:
            remedy = "`GET /api/v1/openapi.json` lists all paths."
            return respond(Problem(404, code, "there is nothing at this path", remedy=remedy, headers=headers))
        return respond(Problem(error.status_code, code, str(error.detail), headers=headers))

    async def on_invalid(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        return respond(invalid(error.errors(), "the request"))

    async def on_database(request: Request, error: Exception) -> Response:
        log.warning("database_unavailable", path=request.url.path, error=type(error).__name__)
        return respond(unavailable())

    async def on_slow_query(request: Request, error: Exception) -> Response:
        log.warning("query_cancelled", path=request.url.path)
        return respond(
            Problem(
                503,
                "query_too_slow",
                "the database took too long to answer",
                remedy="Ask for less, or try again.",
                headers={"Retry-After": str(RETRY_SECONDS)},
            )
        )

    async def on_old_schema(request: Request, error: Exception) -> Response:
        log.error("schema_mismatch", path=request.url.path, error=type(error).__name__)
        return respond(
            Problem(
                503,
                "schema_mismatch",
                "the database is not set up, or not for this version",
                remedy="Run `rmhdag db migrate`.",
                headers={"Retry-After": str(RETRY_SECONDS)},
            )
        )

    async def on_bad_value(request: Request, error: Exception) -> Response:
        """The last line: every value should have been refused by the model of its route."""
        log.error("value_refused_by_database", path=request.url.path, method=request.method, exc_info=error)
        return respond(Problem(422, "invalid_request", "a value in the request is not one that can be stored"))

    async def on_secret(request: Request, error: Exception) -> Response:
        log.error("secrets_not_sealed", path=request.url.path, error=str(error))
        # The cause names files and settings of the platform: it is for its operator, who runs commands on the machine.
        caller = getattr(request.state, "caller", None)
        is_operator = caller is not None and caller.is_local
        return respond(
            Problem(
                503,
                "secrets_not_sealed",
                "secrets cannot be sealed here, and are not stored unsealed",
                remedy=f"{error}."
                if is_operator
                else "The operator of the platform has to set up a key; the log of the API says how.",
            )
        )

    async def on_hang_up(request: Request, error: Exception) -> Response:
        """Nobody reads this; the connection is gone."""
        return respond(Problem(400, "body_incomplete", "the connection ended before the body did"))

    async def on_anything(request: Request, error: Exception) -> Response:
        log.error("unexpected_error", path=request.url.path, method=request.method, exc_info=error)
        return respond(Problem(500, "unexpected_error", "something went wrong on our side; it has been logged"))

    app.add_exception_handler(Refusal, on_refusal)
    app.add_exception_handler(HTTPException, on_framework)
    app.add_exception_handler(RequestValidationError, on_invalid)
    for database in (OperationalError, PoolTimeout, PoolClosed):
        app.add_exception_handler(database, on_database)
    app.add_exception_handler(errors.QueryCanceled, on_slow_query)
    for missing in (errors.UndefinedTable, errors.UndefinedColumn, errors.UndefinedObject, errors.InvalidSchemaName):
        app.add_exception_handler(missing, on_old_schema)
    app.add_exception_handler(DataError, on_bad_value)
    app.add_exception_handler(SecretUnreadable, on_secret)
    app.add_exception_handler(ClientDisconnect, on_hang_up)
    app.add_exception_handler(Exception, on_anything)


def methods_of(request: Request) -> list[str]:
    """All that this path answers to; the router knows only those of the first route that fits.

    Where `/workflows/validate` and `/workflows/{workflow_id}` both fit, the one that names more is meant.
    """
    table: Sequence[tuple[str, Pattern[str], Collection[str]]] = request.app.state.methods
    fitting = [(path, methods) for path, pattern, methods in table if pattern.match(request.scope["path"])]
    fewest = min((path.count("{") for path, _ in fitting), default=0)
    return sorted({method for path, methods in fitting if path.count("{") == fewest for method in methods})


def pointer_of(location: Sequence[Any]) -> str:
    """`("body", "nodes", 0)` is `/nodes/0`, for pointers are into the body; other parts keep their name."""
    parts = [part if isinstance(part, int) else str(part) for part in location]
    return json_pointer(*(parts[1:] if parts[:1] == ["body"] else parts))
