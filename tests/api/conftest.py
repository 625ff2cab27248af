from collections.abc import Iterator

import pytest

from tests.api.serving import ServedHere, served
from tests.orchestrator.platform import Platform


@pytest.fixture
def api(migrated_database: str) -> Iterator[ServedHere]:
    with served(migrated_database) as running:
        yield running


@pytest.fixture
def platform(migrated_database: str) -> Iterator[Platform]:
    """An orchestrator and a worker that take turns when told to, in the database of the API."""
    made = Platform(migrated_database)
    yield made
    made.close()
