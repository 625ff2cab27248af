from collections.abc import Iterator
from pathlib import Path

import pytest

from rmhdag.api.streams.listener import StreamLimits
from tests.api.serving import ServedHere, served
from tests.orchestrator.platform import Platform

HERE = Path(__file__).parent
ON_BOTH = "test_what_belongs_to_another_namespace_is_unknown"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """One kind of PostgreSQL is enough here: SQL is tested on both by the tests of the store, and a walk uses both."""

    def is_spared(item: pytest.Item) -> bool:
        return HERE in item.path.parents and "debian15" in item.name and not item.name.startswith(ON_BOTH)

    spared = [item for item in items if is_spared(item)]
    if spared:
        config.hook.pytest_deselected(items=spared)
        items[:] = [item for item in items if not is_spared(item)]


@pytest.fixture
def stream_limits() -> StreamLimits:
    """Tests ask for others by parametrizing this."""
    return StreamLimits()


@pytest.fixture
def api(migrated_database: str, stream_limits: StreamLimits) -> Iterator[ServedHere]:
    with served(migrated_database, stream_limits=stream_limits) as running:
        yield running


@pytest.fixture
def platform(migrated_database: str) -> Iterator[Platform]:
    """An orchestrator and a worker that take turns when told to, in the database of the API."""
    made = Platform(migrated_database)
    yield made
    made.close()
