"""The cache of compiled definitions: least recently used ones go, and threads may share it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from rmhdag.engine.plan import Plan
from rmhdag.orchestrator import plans
from rmhdag.orchestrator.plans import Plans
from rmhdag.workflow import definition_hash
from rmhdag.workflow.definition import WorkflowDefinition
from tests.engine.definitions import task, workflow
from tests.orchestrator.platform import Platform, open_connection


def registered(platform: Platform, count: int) -> list[WorkflowDefinition]:
    definitions = [workflow(only=task()).model_copy(update={"workflow_id": f"w{number}"}) for number in range(count)]
    for definition in definitions:
        platform.register(definition)
    return definitions


def ask(cache: Plans, conn: object, definition: WorkflowDefinition) -> Plan:
    key = ("default", definition.workflow_id, definition.version, definition_hash(definition))
    return cache.plan_for(conn, *key)  # type: ignore[arg-type]


def test_the_least_recently_used_plan_is_forgotten(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "MAX_PLANS", 2)
    cache = Plans({})
    often, seldom, third = registered(platform, 3)
    first = ask(cache, platform.conn, often)
    forgotten = ask(cache, platform.conn, seldom)
    assert ask(cache, platform.conn, often) is first
    ask(cache, platform.conn, third)
    assert ask(cache, platform.conn, often) is first
    assert ask(cache, platform.conn, seldom) is not forgotten


def test_threads_share_the_cache(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    """One forgets what another is about to touch: with a plain dictionary that is a KeyError sooner or later."""
    monkeypatch.setattr(plans, "MAX_PLANS", 3)
    cache = Plans({})
    definitions = registered(platform, 6)

    def ask_often(offset: int) -> int:
        with open_connection(platform.dsn) as conn:
            asked = (definitions[(offset + number * (offset + 1)) % 6] for number in range(400))
            return sum(ask(cache, conn, one).definition.workflow_id == one.workflow_id for one in asked)

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(ask_often, range(4))) == [400] * 4
