"""A platform with one public revision, and services on loopback that it notifies."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rmhdag.orchestrator.duties.service_calls import Announcer
from rmhdag.services.callbacks.destinations import Rules
from rmhdag.services.callbacks.settings import CallbackSettings
from rmhdag.store import crash_points
from rmhdag.store.batch_rows import RevisionKey
from tests.orchestrator.assets import raster_workflow
from tests.orchestrator.callbacks.sink import Sink
from tests.orchestrator.outside.factory_server import FactoryServer
from tests.orchestrator.platform import Platform
from tests.orchestrator.test_published_revisions import make
from tests.orchestrator.test_publishing import blob, item


@pytest.fixture
def sink() -> Iterator[Sink]:
    with Sink() as made:
        yield made


@pytest.fixture
def factory() -> Iterator[FactoryServer]:
    with FactoryServer() as made:
        yield made


@pytest.fixture
def settings(sink: Sink, factory: FactoryServer) -> CallbackSettings:
    rules = Rules(frozenset({sink.host, factory.host}))
    return CallbackSettings(rules=rules, schedule_seconds=(0.0, 0.0), total_seconds=5, allow_plain=True)


@pytest.fixture
def announcer(settings: CallbackSettings) -> Iterator[Announcer]:
    yield Announcer(settings)
    crash_points.disarm()


@pytest.fixture
def key(platform: Platform) -> RevisionKey:
    """A revision that is served and public."""
    platform.register(raster_workflow())
    ordered = make(platform, platform.seat(), (blob(), item("i")))
    asset_id: str = ordered.request.asset_id
    platform.conn.execute("UPDATE dag_asset_revisions SET review_state = 'approved', clearance = 'public'")
    return RevisionKey("default", asset_id, 1)
