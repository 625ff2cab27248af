from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.limits.place import Place

HERE = Path(__file__).parent


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """One kind of PostgreSQL is enough here: columns are tested on both by the tests of the store."""
    spared = [item for item in items if HERE in item.path.parents and "debian15" in item.name]
    if spared:
        config.hook.pytest_deselected(items=spared)
        items[:] = [item for item in items if item not in spared]


@pytest.fixture
def place(migrated_database: str) -> Iterator[Place]:
    made = Place(migrated_database)
    yield made
    made.close()
