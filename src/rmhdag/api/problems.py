"""Errors as RFC 9457 problems: what, where (a JSON pointer), and what to do. Nothing of our insides is in them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
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
from rmhdag.observability.logs import get_logger

MEDIA_TYPE = "application/problem+json"
RETRY_SECONDS = 2
MOST_ERRORS = 100
# What is wrong with a value may be as long as the value.
MOST_CHARACTERS = 500

log = get_logger(__name__)


class Problem(HTTPException):
    """Raised anywhere below a route."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        *,
        remedy: str | None = None,
        pointer: str | None = None,
        places: Sequence[tuple[str, str] | ProblemPlace] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(status, detail, dict(headers) if headers else None)
        found = [(pointer, detail), *places] if pointer is not None else places
        self.body = ProblemBody(
            type=f"urn:rmhdag:problem:{code}",
            title=HTTPStatus(status).phrase,
            status=status,
            code=code,
            detail=shorten(detail),
            remedy=remedy,
            errors=[place_of(place) for place in found[:MOST_ERRORS]],
        )


def place_of(place: tuple[str, str] | ProblemPlace) -> ProblemPlace:
    if isinstance(place, ProblemPlace):
        return place.model_copy(update={"detail": shorten(place.detail)})
    where, what = place
    return ProblemPlace(pointer=where, detail=shorten(what))


def not_found(what: str, remedy: str | None = None) -> Problem:
    """The same for what does not exist and for what belongs to another namespace."""
    return Problem(404, "not_found", f"there is no {what}", remedy=remedy)


def callback_refused(why: Exception, pointer: str) -> Problem:
    return Problem(
        422,
        "callback_url_refused",
        str(why),
        remedy="Give a public https URL, or have the host allowed by RMHDAG_CALLBACK_HOSTS.",
        pointer=pointer,
    )


def unavailable() -> Problem:
    return Problem(
        503,
        "database_unavailable",
        "the database does not answer",
        remedy="Try again after the time in Retry-After; nothing was changed unless the call says so when repeated.",
        headers={"Retry-After": str(RETRY_SECONDS)},
    )


def respond(problem: Problem) -> Response:
    """With all headers, for an unexpected error is answered outside of everything that adds them."""
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

    async def on_problem(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        if isinstance(error, Problem):
            return respond(error)
        phrase = HTTPStatus(error.status_code).phrase
        code = phrase.lower().replace(" ", "_").replace("-", "_")
        headers = dict(error.headers or {})
        if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
            headers["Allow"] = ", ".join(methods_of(request))
        return respond(Problem(error.status_code, code, str(error.detail), headers=headers))

    async def on_invalid(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        places = [(pointer_of(found["loc"]), str(found["msg"])) for found in error.errors()]
        what = places[0][1] if len(places) == 1 else f"{len(places)} things are wrong with the request"
        return respond(Problem(422, "invalid_request", what, places=places))

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
                remedy="`rmhdag db migrate` brings it there.",
                headers={"Retry-After": str(RETRY_SECONDS)},
            )
        )

    async def on_bad_value(request: Request, error: Exception) -> Response:
        """The last line: every value should have been refused by the model of its route."""
        log.error("value_refused_by_database", path=request.url.path, method=request.method, exc_info=error)
        return respond(Problem(422, "invalid_request", "a value in the request is not one that can be stored"))

    async def on_hang_up(request: Request, error: Exception) -> Response:
        """Nobody reads this; the connection is gone."""
        return respond(Problem(400, "body_incomplete", "the connection ended before the body did"))

    async def on_anything(request: Request, error: Exception) -> Response:
        log.error("unexpected_error", path=request.url.path, method=request.method, exc_info=error)
        return respond(Problem(500, "unexpected_error", "something went wrong on our side; it has been logged"))

    app.add_exception_handler(HTTPException, on_problem)
    app.add_exception_handler(RequestValidationError, on_invalid)
    for database in (OperationalError, PoolTimeout, PoolClosed):
        app.add_exception_handler(database, on_database)
    app.add_exception_handler(errors.QueryCanceled, on_slow_query)
    for missing in (errors.UndefinedTable, errors.UndefinedColumn, errors.UndefinedObject, errors.InvalidSchemaName):
        app.add_exception_handler(missing, on_old_schema)
    app.add_exception_handler(DataError, on_bad_value)
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
