"""The application: all routes, with errors as problems and limits on what comes in."""

from __future__ import annotations

import pkgutil
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

from fastapi import APIRouter, FastAPI
from pydantic.warnings import UnsupportedFieldAttributeWarning
from starlette.concurrency import run_in_threadpool
from starlette.routing import BaseRoute
from starlette.types import Lifespan

import rmhdag
from rmhdag.api import problems, routes
from rmhdag.api.body_room import RoomForBodies
from rmhdag.api.context import Api, ApiSettings
from rmhdag.api.cross_origin import CrossOrigin
from rmhdag.api.identity import Authentication
from rmhdag.api.limits import BodyLimits
from rmhdag.api.openapi import describe, operation_name
from rmhdag.api.processor_time import Accounts, ProcessorTime
from rmhdag.api.request_meters import Meters, RequestMeters
from rmhdag.api.security_headers import SecurityHeaders
from rmhdag.api.strict_requests import StrictRoute, keep_paths_apart, make_strict
from rmhdag.api.tracing import TELEMETRY, PassedOnTrace
from rmhdag.views.memory import Memory

ERRORS: dict[int | str, dict[str, Any]] = {
    "4XX": {"model": problems.ProblemBody, "description": "Refused; the body says what is wrong and where"},
    "5XX": {"model": problems.ProblemBody, "description": "Not possible now"},
}


# FastAPI names each body, and Pydantic warns that the name has no effect. FastAPI hides that while it builds a route;
# but our models build their validators at the first request.
warnings.filterwarnings("ignore", "The 'alias' attribute with value", UnsupportedFieldAttributeWarning)


# What the command line calls, where the application runs inside a command: modules of routes by the first part of
# their paths. The others are for workers, browsers and monitoring.
COMMAND_ROUTES = {
    "approvals": "approvals",
    "assets": "assets reviews",
    "attention": "attention",
    "audit": "audit",
    "callbacks": "callbacks",
    "catalogue": "catalogue",
    "clients": "clients",
    "dashboard": "attention",
    "dead-letters": "dead_letters",
    "footprints": "footprints",
    "jobs": "jobs job_labels nodes timeline job_payloads",
    "keys": "keys",
    "me": "me",
    "orchestrators": "processes",
    "platforms": "platforms",
    "promoted": "promoted",
    "promoted-gallery": "promoted",
    "queues": "processes",
    "pulse": "attention",
    "quotas": "quotas",
    "retention": "retention",
    "reviews": "reviews",
    "search": "search",
    "services": "services",
    "submit": "requests",
    "workers": "processes",
    "workflows": "workflows",
}


def build(settings: ApiSettings, *, serves_command: bool = False) -> FastAPI:
    """For a command, `serve_path` adds the routes that it calls."""
    api = Api(settings)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        await run_in_threadpool(api.open)
        try:
            yield
        finally:
            await run_in_threadpool(api.close)

    app = _without_routes(lifespan)
    app.state.api = api
    app.state.meters = Meters()
    app.state.snapshots = Memory(100)
    app.state.served = set()
    problems.install(app)
    app.state.methods = []
    if not serves_command:
        _add(app, all_routes())
        describe(app)
    # The last one is the outermost.
    app.add_middleware(PassedOnTrace)
    app.add_middleware(RoomForBodies)
    app.add_middleware(Accounts)
    app.add_middleware(Authentication)
    app.add_middleware(BodyLimits, max_body_bytes=settings.max_body_bytes, body_seconds=settings.body_seconds)
    if settings.origins:
        app.add_middleware(CrossOrigin, origins=settings.origins)
    app.add_middleware(SecurityHeaders)
    app.add_middleware(RequestMeters, meters=app.state.meters)
    app.add_middleware(ProcessorTime)
    return app


def serve_path(app: FastAPI, path: str) -> None:
    """Add the routes of this path, unless they are there: a command calls one or two kinds, and loads only those."""
    names = COMMAND_ROUTES.get(path.removeprefix("/api/v1/").partition("/")[0], "")
    for name in names.split():
        if name not in app.state.served:
            app.state.served.add(name)
            _add(app, routes_of(name))


def _add(app: FastAPI, routes: Routes) -> None:
    app.router.routes.extend(routes.included)
    app.state.methods += [(route.path, route.path_regex, route.methods) for route in routes.strict]


def _without_routes(lifespan: Lifespan[FastAPI] | None = None) -> FastAPI:
    return FastAPI(
        title="rmhdag",
        version=rmhdag.__version__,
        description="Jobs, their nodes and tasks, and everything that runs them.",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,  # a route of ours, for those who may read
        responses=ERRORS,
        redirect_slashes=False,
        generate_unique_id_function=operation_name,
        telemetry=TELEMETRY,
    )


class Routes(NamedTuple):
    included: list[BaseRoute]
    strict: list[StrictRoute]


@cache
def all_routes() -> Routes:
    """For every application of this process: FastAPI makes their models when they are first asked for, and that takes
    a third of a second.
    """
    host, strict = _without_routes(), []
    for router in find_routers():
        make_strict(router)
        strict += [route for route in router.routes if isinstance(route, StrictRoute)]
        host.include_router(router)
    keep_paths_apart(strict)
    return Routes(host.router.routes, strict)


@cache
def routes_of(name: str) -> Routes:
    """Of one module. They are not included as all of them are: that adds only what their description needs, and builds
    each of them a second time.
    """
    router: APIRouter = import_module(f"{routes.__name__}.{name}").router
    make_strict(router)
    strict = [route for route in router.routes if isinstance(route, StrictRoute)]
    keep_paths_apart(strict)
    return Routes(list(router.routes), strict)


def find_routers() -> list[APIRouter]:
    names = sorted(module.name for module in pkgutil.iter_modules(routes.__path__))
    return [import_module(f"{routes.__name__}.{name}").router for name in names]
