from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rmhdag.embedded import EmbeddedPostgres
from tests.conftest import required_binaries
from tests.faults.processes import Cluster


@pytest.fixture(scope="session")
def fault_server() -> Iterator[EmbeddedPostgres]:
    """One kind of server is enough here: the SQL runs on both kinds in tests/orchestrator and tests/store."""
    with EmbeddedPostgres.temporary(binaries=required_binaries("wheel18")) as server:
        yield server


@pytest.fixture(scope="session")
def fault_template(fault_server: EmbeddedPostgres) -> str:
    from rmhdag.store.migration import apply

    apply(fault_server.create_database("fault_template"), "dagapp")
    return "fault_template"


@pytest.fixture
def cluster(fault_server: EmbeddedPostgres, fault_template: str, tmp_path: Path) -> Iterator[Cluster]:
    name = f"fault_{tmp_path.name.lower().replace('-', '_')[-40:]}"
    made = Cluster(fault_server.create_database(name, template=fault_template), tmp_path)
    yield made
    made.close()
    fault_server.drop_database(name)
