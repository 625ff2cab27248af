from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.orchestrator.platform import Platform


@pytest.fixture
def platform(migrated_database: str) -> Iterator[Platform]:
    made = Platform(migrated_database)
    yield made
    made.close()
