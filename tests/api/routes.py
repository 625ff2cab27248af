"""All routes of the application as they are, documented or not, and requests that fit them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import httpx
from fastapi import FastAPI
from fastapi.dependencies.models import Dependant
from fastapi.routing import iter_route_contexts
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from rmhdag.api.application import build
from rmhdag.api.context import ApiSettings
from rmhdag.api.identity import needed_scopes
from rmhdag.models.scopes import Scope
from tests.api.serving import NO_TLS

WEBSOCKET = "WEBSOCKET"


class FoundRoute(NamedTuple):
    """`scope` is what it needs; None if it does not say. One of `other_scopes` will do as well."""

    method: str
    path: str
    scope: Scope | None
    other_scopes: tuple[Scope, ...]
    parameters: frozenset[str]
    body: dict[str, Any] | None

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


class Answer(NamedTuple):
    status: int
    text: str
    headers: Mapping[str, str]


def unconnected_application() -> FastAPI:
    return build(ApiSettings(dsn="postgresql://127.0.0.1:1/nowhere"))


def find_routes(app: FastAPI) -> list[FoundRoute]:
    document = app.openapi()
    found = []
    for context in iter_route_contexts(app.routes):
        path = str(getattr(context, "path", None) or getattr(context.original_route, "path", context))
        dependant: Dependant | None = getattr(context, "dependant", None) or getattr(
            context.original_route, "dependant", None
        )
        methods = getattr(context, "methods", None) or getattr(context.original_route, "methods", None) or [WEBSOCKET]
        for method in sorted(methods):
            operation = document["paths"].get(path, {}).get(method.lower(), {})
            scopes = () if dependant is None else next(scopes_in(dependant), ())
            parameters = frozenset(part.strip("{}").split(":")[0] for part in path.split("/") if part.startswith("{"))
            found.append(
                FoundRoute(
                    method,
                    path,
                    scopes[0] if scopes else None,
                    scopes[1:],
                    parameters,
                    example_body(operation, document),
                )
            )
    return found


def scopes_in(dependant: Dependant) -> Iterator[tuple[Scope, ...]]:
    scopes = needed_scopes(dependant.call)
    if scopes:
        yield scopes
    for one in dependant.dependencies:
        yield from scopes_in(one)


def example_body(operation: dict[str, Any], document: dict[str, Any]) -> dict[str, Any] | None:
    """The smallest that the document allows."""
    content = operation.get("requestBody", {}).get("content", {}).get("application/json")
    made = None if content is None else smallest(content["schema"], document)
    return made if isinstance(made, dict) else None


def smallest(schema: dict[str, Any], document: dict[str, Any]) -> Any:
    if "$ref" in schema:
        return smallest(document["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]], document)
    for choice in ("anyOf", "oneOf", "allOf"):
        if choice in schema:
            return smallest(schema[choice][0], document)
    for fixed in ("const", "default"):
        if fixed in schema:
            return schema[fixed]
    if "examples" in schema or "enum" in schema:
        return (schema.get("examples") or schema["enum"])[0]
    kind = schema.get("type")
    if kind == "object":
        wanted = schema.get("required", [])
        return {name: smallest(schema["properties"][name], document) for name in wanted}
    if kind == "array":
        return [smallest(schema["items"], document) for _ in range(schema.get("minItems", 0))]
    if kind in ("integer", "number"):
        # Limits of integers stand in the document as 1.0.
        as_written = int if kind == "integer" else float
        return as_written(schema.get("minimum", schema.get("exclusiveMinimum", 0) + 1))
    return {"boolean": True, "null": None}.get(kind or "", "a" * max(1, schema.get("minLength", 1)))


# Without them a call is refused before anybody looks for what its path names.
REQUIRED_QUERIES = {"/api/v1/jobs/{job_id}/logs/matches": {"text": "a"}}


def call(url: str, route: FoundRoute, values: Mapping[str, str], headers: Mapping[str, str]) -> Answer:
    """What the route answers, read to its end only if it refuses: some answer for ever."""
    path = route.path
    for name in route.parameters:
        path = path.replace("{" + name + "}", values[name]).replace("{" + name + ":path}", values[name])
    if route.method == WEBSOCKET:
        return call_websocket(url.replace("http", "ws", 1) + path, headers)
    with (
        httpx.Client(base_url=url, timeout=30, trust_env=False, verify=NO_TLS, headers=dict(headers)) as client,
        client.stream(route.method, path, params=REQUIRED_QUERIES.get(route.path), json=route.body) as answer,
    ):
        text = answer.read().decode() if answer.status_code >= 400 else ""
        return Answer(answer.status_code, text, dict(answer.headers))


def call_websocket(url: str, headers: Mapping[str, str]) -> Answer:
    """A connection that is accepted and closed with a reason refuses too."""
    try:
        with connect(url, additional_headers=dict(headers), proxy=None, open_timeout=20) as opened:
            try:
                opened.recv(timeout=20)
            except ConnectionClosed as closed:
                received = closed.rcvd
                return Answer(101, f"{received.code} {received.reason}" if received else "", {})
            return Answer(101, "", {})
    except InvalidStatus as refused:
        answer = refused.response
        return Answer(answer.status_code, answer.body.decode(), dict(answer.headers.raw_items()))
