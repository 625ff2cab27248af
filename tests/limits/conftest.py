from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.limits.place import Place


@pytest.fixture
def place(migrated_database: str) -> Iterator[Place]:
    made = Place(migrated_database)
    yield made
    made.close()
