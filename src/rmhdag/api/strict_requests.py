"""Requests read strictly, whatever the route: the body's type, its JSON, and no query parameters but the known ones."""

from __future__ import annotations

import asyncio
import types
import typing
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from inspect import iscoroutinefunction
from typing import Any

from fastapi import APIRouter, HTTPException, Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.requests import HTTPConnection
from fastapi.routing import APIRoute, request_response
from pydantic import BaseModel

from rmhdag.api.context import get_api
from rmhdag.api.limits import body_too_large, refuse_announced
from rmhdag.api.member_counts import Shape, refuse_many_members, shape_of
from rmhdag.api.problems import Problem
from rmhdag.api.processor_time import charged, in_turn
from rmhdag.api.strict_json import parse
from rmhdag.models.json_values import MAX_DEPTH, json_pointer
from rmhdag.models.limits import BODY_BYTES, SMALL_BODY_BYTES

JSON_TYPES = ("application/json",)
# To hand over what is smaller would take longer than to read it.
LARGE_BYTES = 64 * 1024
MOST_GUESSES = 10


class StrictRequest(Request):
    max_depth = MAX_DEPTH
    # What the body has to be, and how large it may be.
    shape = Shape()
    max_bytes = BODY_BYTES

    async def body(self) -> bytes:
        if not hasattr(self, "_body"):
            chunks, arrived = [], 0
            async for chunk in self.stream():
                chunks.append(chunk)
                arrived += len(chunk)
                if arrived > self.max_bytes:
                    raise body_too_large(self.max_bytes)
            self._body = b"".join(chunks)
        return self._body

    async def json(self) -> Any:
        if not hasattr(self, "_json"):
            body = await self.body()
            read = partial(read_body, body, self.max_depth, self.shape)
            if len(body) > LARGE_BYTES:
                self._json = await asyncio.get_running_loop().run_in_executor(get_api(self).readers, charged(read))
            else:
                self._json = read()
        return self._json


def read_body(body: bytes, max_depth: int, shape: Shape) -> Any:
    value = parse(body, max_depth=max_depth)
    refuse_many_members(value, shape)
    return value


class StrictRoute(APIRoute):
    """A route whose body is read strictly, and which takes no query parameters but its own."""

    request_class = StrictRequest
    # Paths that look like this one and are another route's, which has not this method.
    others_paths: frozenset[str] = frozenset()

    def get_route_handler(self) -> Callable[[Request], Awaitable[Response]]:  # type: ignore[override]
        handle = super().get_route_handler()
        parameters = _query_parameters(self.dependant)
        takes_json = self.body_field is not None
        shape = shape_of(None if self.body_field is None else self.body_field.field_info.annotation)
        max_bytes = most_bytes(shape) if takes_json else BODY_BYTES

        async def strictly(request: Request) -> Response:
            if request.scope["path"] in self.others_paths:
                raise HTTPException(405)
            check_query(request, parameters)
            _check_path(request.path_params)
            if takes_json:
                check_media_type(request, JSON_TYPES)
                refuse_announced(request.headers.get("content-length", ""), max_bytes)
            strict = self.request_class(request.scope, request.receive)
            strict.shape, strict.max_bytes = shape, max_bytes
            return await handle(strict)

        return strictly


def most_bytes(shape: Shape) -> int:
    """Small, unless a model says that it is sent parameters or results of tasks."""
    return max((getattr(model, "max_body_bytes", SMALL_BODY_BYTES) for model in shape.models), default=BODY_BYTES)


def make_strict(router: APIRouter) -> None:
    """An included router keeps the routes that it has made, so each of them is told by itself."""
    for route in router.routes:
        if type(route) is APIRoute:
            route.__class__ = StrictRoute
            if not iscoroutinefunction(route.endpoint):
                # FastAPI rebuilds the dependant from the endpoint when the router is included.
                route.endpoint = in_turn(route.endpoint)
            route.app = request_response(route.get_route_handler())


def keep_paths_apart(routes: Sequence[StrictRoute]) -> None:
    """`DELETE /workers/register` is not the removal of a worker of that name."""
    fixed: dict[str, set[str]] = {}
    for route in routes:
        if "{" not in route.path:
            fixed.setdefault(route.path, set()).update(route.methods or ())
    for route in routes:
        if "{" in route.path:
            route.others_paths |= frozenset(
                path
                for path, methods in fixed.items()
                if route.path_regex.match(path) and methods.isdisjoint(route.methods or ())
            )


def check_media_type(request: Request, accepted: Sequence[str]) -> str | None:
    """The media type of the body, which is one of these; None if there is no body."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    has_body = "transfer-encoding" in request.headers or request.headers.get("content-length", "0") != "0"
    if media_type in accepted or ("application/json" in accepted and _is_json(media_type)):
        return media_type
    if not media_type and not has_body:
        return None
    raise Problem(
        415,
        "media_type_not_supported",
        f"a body of type {media_type!r} is not understood here" if media_type else "the type of the body is missing",
        remedy=f"Send it with `Content-Type: {accepted[0]}`.",
        pointer="/header/content-type",
    )


def _is_json(media_type: str) -> bool:
    return media_type.startswith("application/") and media_type.endswith("+json")


def _query_parameters(dependant: Dependant) -> dict[str, bool]:
    """Name → whether it may be given several times; those of the route's dependencies too."""
    names: dict[str, bool] = {}
    for dependency in dependant.dependencies:
        names |= _query_parameters(dependency)
    for field in dependant.query_params:
        annotation = field.field_info.annotation
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            for name, inner in annotation.model_fields.items():
                names[inner.alias or name] = _is_list(inner.annotation)
        else:
            names[field.alias] = _is_list(annotation)
    return names


def _is_list(annotation: Any) -> bool:
    origin = typing.get_origin(annotation)
    if origin in (typing.Union, types.UnionType):
        return any(_is_list(choice) for choice in typing.get_args(annotation))
    if origin is typing.Annotated:
        return _is_list(typing.get_args(annotation)[0])
    return origin in (list, set, frozenset, tuple) or annotation in (list, set, frozenset, tuple)


def check_query(request: HTTPConnection, parameters: Mapping[str, bool]) -> None:
    items = request.query_params.multi_items()
    places: list[tuple[str, str]] = []
    all_of_them = _all_of(parameters)
    for name, times in Counter(name for name, _ in items).items():
        pointer = json_pointer("query", name[:100])
        if name not in parameters:
            # To look for what was meant takes long: not for more names than somebody mistypes.
            close = get_close_matches(name[:100], parameters, n=1) if len(places) < MOST_GUESSES else []
            hint = f"did you mean `{close[0]}`?" if close else all_of_them
            places.append((pointer, f"there is no such query parameter; {hint}"))
        elif times > 1 and not parameters[name]:
            places.append((pointer, "given more than once: keep one"))
    places += [
        (json_pointer("query", name[:100]), "a NUL character: remove it") for name, text in items if "\0" in text
    ]
    if places:
        what = places[0][1] if len(places) == 1 else f"{len(places)} things are wrong with the query"
        raise Problem(422, "invalid_request", what, places=places)


def _all_of(parameters: Mapping[str, bool]) -> str:
    return f"there are {', '.join(f'`{name}`' for name in parameters)}" if parameters else "this route takes none"


def _check_path(values: Mapping[str, Any]) -> None:
    for name, text in values.items():
        if "\0" in str(text):
            raise Problem(422, "invalid_request", "a NUL character: remove it", pointer=json_pointer("path", name))
