"""A platform that runs, and clients of it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from rmhdag import Client
from rmhdag.embedded import EmbeddedPostgres
from rmhdag.models.scopes import Scope
from rmhdag.store.migration import apply
from tests.api.running import Running, scratch
from tests.api.serving import served
from tests.conftest import required_binaries
from tests.faults.processes import Cluster


@pytest.fixture(scope="session")
def postgres() -> Iterator[EmbeddedPostgres]:
    """One kind of server: the client sees none of it."""
    with EmbeddedPostgres.temporary(binaries=required_binaries("wheel18")) as server:
        yield server


@pytest.fixture(scope="session")
def migrated_template(postgres: EmbeddedPostgres) -> str:
    """On the server above; the fixture of all tests may be on another one in the same process."""
    apply(postgres.create_database("client_template"))
    return "client_template"


@pytest.fixture(scope="session")
def up(postgres: EmbeddedPostgres) -> Iterator[Running]:
    folder = scratch()
    dsn = postgres.create_database("client")
    apply(dsn)
    cluster = Cluster(dsn, folder)
    try:
        cluster.orchestrator()
        cluster.worker()
        with served(dsn, orphan_seconds=1.5) as api:
            yield Running(api, cluster)
    finally:
        cluster.close()
        shutil.rmtree(folder)


@pytest.fixture(scope="session")
def admin_key(up: Running) -> str:
    return up.api.key(Scope.ADMIN, Scope.PLATFORM, name="ada")


@pytest.fixture
def client(up: Running, admin_key: str) -> Iterator[Client]:
    with Client(up.api.url, admin_key) as made:
        yield made
