"""A connection for tests that leave nothing behind: one database for all of them, rolled back after each."""

import uuid
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from rmhdag.embedded import EmbeddedPostgres
from rmhdag.store.connection import connect


@pytest.fixture(scope="session")
def shared_database(postgres: EmbeddedPostgres, migrated_template: str) -> str:
    return postgres.create_database(f"shared_{uuid.uuid4().hex}", template=migrated_template)


@pytest.fixture
def conn(shared_database: str) -> Iterator[psycopg.Connection[Any]]:
    """Inside a transaction that is rolled back at the end."""
    with connect(shared_database, "test", idle_in_transaction_timeout_seconds=60) as connection:
        yield connection
        connection.rollback()
