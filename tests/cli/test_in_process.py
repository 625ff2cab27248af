"""The application inside a command serves what commands call, and loads no more of it than one of them needs."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest
from fastapi.routing import APIRoute

from rmhdag.api.application import COMMAND_ROUTES
from rmhdag.client import calls

# Calls of the client that no command makes.
OF_PROGRAMS = {"about", "events", "files", "health", "requests", "storage"}


def test_every_kind_of_call_is_served() -> None:
    source = Path(calls.__file__).read_text(encoding="utf-8")
    kinds = set(re.findall(r'(?:(?:_get\(|_post\(|return )f?"|/api/v1/)([a-z][a-z-]+)[/"]', source)) - {"true"}
    assert kinds >= {"jobs", "assets", "workflows", "dead-letters", "catalogue"}
    assert kinds == COMMAND_ROUTES.keys() | OF_PROGRAMS


@pytest.mark.parametrize("kind", COMMAND_ROUTES)
def test_a_kind_of_call_names_the_modules_of_its_routes(kind: str) -> None:
    for name in COMMAND_ROUTES[kind].split():
        router = import_module(f"rmhdag.api.routes.{name}").router
        paths = [route.path for route in router.routes if isinstance(route, APIRoute)]
        assert any(re.match(rf"/api/v1/{kind}(/|$)", path) for path in paths), name
