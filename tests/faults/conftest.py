from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rmhdag.embedded import EmbeddedPostgres
from tests.conftest import Servers
from tests.faults.processes import Cluster


@pytest.fixture(scope="session")
def fault_server(servers: Servers) -> EmbeddedPostgres:
    """One kind of server is enough here: the SQL runs on both kinds in tests/orchestrator and tests/store."""
    return servers.running("wheel18")


@pytest.fixture(scope="session")
def fault_template(servers: Servers, fault_server: EmbeddedPostgres) -> str:
    return servers.migrated_template(fault_server)


@pytest.fixture
def cluster(fault_server: EmbeddedPostgres, fault_template: str, tmp_path: Path) -> Iterator[Cluster]:
    name = f"fault_{tmp_path.name.lower().replace('-', '_')[-40:]}"
    made = Cluster(fault_server.create_database(name, template=fault_template), tmp_path)
    yield made
    made.close()
    fault_server.drop_database(name)
