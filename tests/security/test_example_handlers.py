"""Handlers that hold a slot for as long as one asks come with workers in development only."""

from __future__ import annotations

from typing import Any

import pytest

from rmhdag.cli.run_worker import worker_settings
from rmhdag.cli.settings import load_settings
from rmhdag.handlers.registry import Registry, load_handlers


def settings_of(**flags: Any) -> bool:
    settings = load_settings(flags).settings
    return worker_settings(settings, ("light",), dsn="postgresql://127.0.0.1/none").examples


def test_a_worker_has_them_in_development_or_if_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RMHDAG_EXAMPLES", raising=False)
    assert [settings_of(development=False), settings_of(development=True)] == [False, True]
    assert settings_of(development=False, examples=True)
    assert not settings_of(development=True, examples=False)


def test_without_them_only_the_others_are_loaded() -> None:
    registry = Registry()
    load_handlers([], registry, examples=False)
    assert registry.find("sleep") is None
