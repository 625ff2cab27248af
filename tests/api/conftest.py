from collections.abc import Iterator

import pytest

from tests.api.serving import Served, served


@pytest.fixture
def api(migrated_database: str) -> Iterator[Served]:
    with served(migrated_database) as running:
        yield running
