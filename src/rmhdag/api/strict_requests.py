"""Requests read strictly, whatever the route: the body's type, its JSON, and no query parameters but the known ones."""

from __future__ import annotations

import asyncio
import types
import typing
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from typing import Any

from fastapi import APIRouter, HTTPException, Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.requests import HTTPConnection
from fastapi.routing import APIRoute, request_response
from pydantic import BaseModel

from rmhdag.api.context import get_api
from rmhdag.api.member_counts import refuse_many_members
from rmhdag.api.problems import Problem
from rmhdag.api.strict_json import parse
from rmhdag.models.json_values import MAX_DEPTH, json_pointer

JSON_TYPES = ("application/json",)
# To hand over what is smaller would take longer than to read it.
LARGE_BYTES = 64 * 1024
MOST_GUESSES = 10


class StrictRequest(Request):
    max_depth = MAX_DEPTH
    # What the body has to be.
    annotation: Any = None

    async def json(self) -> Any:
        if not hasattr(self, "_json"):
            body = await self.body()
            read = partial(read_body, body, self.max_depth, self.annotation)
            if len(body) > LARGE_BYTES:
                self._json = await asyncio.get_running_loop().run_in_executor(get_api(self).readers, read)
            else:
                self._json = read()
        return self._json


def read_body(body: bytes, max_depth: int, annotation: Any) -> Any:
    value = parse(body, max_depth=max_depth)
    refuse_many_members(value, annotation)
    return value


class StrictRoute(APIRoute):
    """A route whose body is read strictly, and which takes no query parameters but its own."""

    request_class = StrictRequest
    # Paths that look like this one and are another route's, which has not this method.
    others_paths: frozenset[str] = frozenset()

    def get_route_handler(self) -> Callable[[Request], Awaitable[Response]]:  # type: ignore[override]
        handle = super().get_route_handler()
        known = _query_parameters(self.dependant)
        takes_json = self.body_field is not None
        annotation = None if self.body_field is None else self.body_field.field_info.annotation

        async def strictly(request: Request) -> Response:
            if request.scope["path"] in self.others_paths:
                raise HTTPException(405)
            check_query(request, known)
            _check_path(request.path_params)
            if takes_json:
                check_media_type(request, JSON_TYPES)
            strict = self.request_class(request.scope, request.receive)
            strict.annotation = annotation
            return await handle(strict)

        return strictly


def make_strict(router: APIRouter) -> None:
    """An included router keeps the routes that it has made, so each of them is told by itself."""
    for route in router.routes:
        if type(route) is APIRoute:
            route.__class__ = StrictRoute
            route.app = request_response(route.get_route_handler())


def keep_paths_apart(routes: Sequence[StrictRoute]) -> None:
    """`DELETE /workers/register` is not the removal of a worker of that name."""
    fixed: dict[str, set[str]] = {}
    for route in routes:
        if "{" not in route.path:
            fixed.setdefault(route.path, set()).update(route.methods or ())
    for route in routes:
        if "{" in route.path:
            route.others_paths = frozenset(
                path
                for path, methods in fixed.items()
                if route.path_regex.match(path) and methods.isdisjoint(route.methods or ())
            )


def check_media_type(request: Request, accepted: Sequence[str]) -> str | None:
    """The media type of the body, which is one of these; None if there is no body."""
    given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    has_body = "transfer-encoding" in request.headers or request.headers.get("content-length", "0") != "0"
    if given in accepted or ("application/json" in accepted and _is_json(given)):
        return given
    if not given and not has_body:
        return None
    raise Problem(
        415,
        "media_type_not_supported",
        f"a body of type {given!r} is not understood here" if given else "the type of the body is not told",
        remedy=f"Send it with `Content-Type: {accepted[0]}`.",
        pointer="/header/content-type",
    )


def _is_json(media_type: str) -> bool:
    return media_type.startswith("application/") and media_type.endswith("+json")


def _query_parameters(dependant: Dependant) -> dict[str, bool]:
    """Name → whether it may be given several times; those of the route's dependencies too."""
    known: dict[str, bool] = {}
    for dependency in dependant.dependencies:
        known |= _query_parameters(dependency)
    for field in dependant.query_params:
        annotation = field.field_info.annotation
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            for name, inner in annotation.model_fields.items():
                known[inner.alias or name] = _is_list(inner.annotation)
        else:
            known[field.alias] = _is_list(annotation)
    return known


def _is_list(annotation: Any) -> bool:
    origin = typing.get_origin(annotation)
    if origin in (typing.Union, types.UnionType):
        return any(_is_list(choice) for choice in typing.get_args(annotation))
    if origin is typing.Annotated:
        return _is_list(typing.get_args(annotation)[0])
    return origin in (list, set, frozenset, tuple) or annotation in (list, set, frozenset, tuple)


def check_query(request: HTTPConnection, known: Mapping[str, bool]) -> None:
    given = request.query_params.multi_items()
    places: list[tuple[str, str]] = []
    all_of_them = _all_of(known)
    for name, times in Counter(name for name, _ in given).items():
        pointer = json_pointer("query", name[:100])
        if name not in known:
            # To look for what was meant takes long: not for more names than somebody mistypes.
            close = get_close_matches(name[:100], known, n=1) if len(places) < MOST_GUESSES else []
            hint = f"did you mean `{close[0]}`?" if close else all_of_them
            places.append((pointer, f"there is no such query parameter; {hint}"))
        elif times > 1 and not known[name]:
            places.append((pointer, "given more than once: keep one"))
    places += [
        (json_pointer("query", name[:100]), "a NUL character: remove it") for name, text in given if "\0" in text
    ]
    if places:
        what = places[0][1] if len(places) == 1 else f"{len(places)} things are wrong with the query"
        raise Problem(422, "invalid_request", what, places=places)


def _all_of(known: Mapping[str, bool]) -> str:
    return f"there are {', '.join(f'`{name}`' for name in known)}" if known else "there are none here"


def _check_path(given: Mapping[str, Any]) -> None:
    for name, text in given.items():
        if "\0" in str(text):
            raise Problem(422, "invalid_request", "a NUL character: remove it", pointer=json_pointer("path", name))
