from collections.abc import Iterator

import pytest

from rmhdag.api.streams.listener import StreamLimits
from tests.api.serving import ServedHere, served
from tests.orchestrator.platform import Platform


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
