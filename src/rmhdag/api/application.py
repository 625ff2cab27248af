"""The application: all routes, with errors as problems and limits on what comes in."""

from __future__ import annotations

import pkgutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

from fastapi import APIRouter, FastAPI
from starlette.concurrency import run_in_threadpool
from starlette.routing import BaseRoute
from starlette.types import Lifespan

import rmhdag
from rmhdag.api import problems, routes
from rmhdag.api.context import Api, ApiSettings
from rmhdag.api.cross_origin import CrossOrigin
from rmhdag.api.identity import Authentication
from rmhdag.api.limits import BodyLimits
from rmhdag.api.openapi import describe, operation_name
from rmhdag.api.request_meters import Meters, RequestMeters
from rmhdag.api.security_headers import SecurityHeaders
from rmhdag.api.strict_requests import StrictRoute, keep_paths_apart, make_strict
from rmhdag.api.tracing import TELEMETRY, PassedOnTrace
from rmhdag.api.views.memory import Memory

ERRORS: dict[int | str, dict[str, Any]] = {
    "4XX": {"model": problems.ProblemBody, "description": "Refused; the body says what is wrong and where"},
    "5XX": {"model": problems.ProblemBody, "description": "Not possible now"},
}


def build(settings: ApiSettings) -> FastAPI:
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
    problems.install(app)
    app.router.routes.extend(all_routes().included)
    app.state.methods = [(route.path, route.path_regex, route.methods) for route in all_routes().strict]
    describe(app)
    # The last one is the outermost.
    app.add_middleware(PassedOnTrace)
    app.add_middleware(Authentication)
    app.add_middleware(BodyLimits, max_body_bytes=settings.max_body_bytes, body_seconds=settings.body_seconds)
    if settings.origins:
        app.add_middleware(CrossOrigin, origins=settings.origins)
    app.add_middleware(SecurityHeaders)
    app.add_middleware(RequestMeters, meters=app.state.meters)
    return app


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


def find_routers() -> list[APIRouter]:
    names = sorted(module.name for module in pkgutil.iter_modules(routes.__path__))
    return [import_module(f"{routes.__name__}.{name}").router for name in names]
