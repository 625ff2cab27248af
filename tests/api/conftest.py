from collections.abc import Iterator

import pytest

from rmhdag.embedded import EmbeddedPostgres
from tests.api.serving import ServedHere, served
from tests.conftest import required_binaries
from tests.orchestrator.platform import Platform


@pytest.fixture(scope="session", params=["wheel18"])
def postgres(request: pytest.FixtureRequest) -> Iterator[EmbeddedPostgres]:
    """One kind is enough here: SQL is tested on both by the tests of the store, and `test_every_route` runs on both."""
    with EmbeddedPostgres.temporary(binaries=required_binaries(request.param)) as server:
        yield server


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
