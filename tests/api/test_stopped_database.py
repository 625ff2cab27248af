"""A database that is there and does not answer: its processes are stopped, its connections stay."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from rmhdag.embedded import EmbeddedPostgres
from rmhdag.models.scopes import Scope
from rmhdag.store.connection import NoAnswerError, connect
from rmhdag.store.migration import apply
from tests.api.serving import served
from tests.conftest import required_binaries
from tests.store.waiting import wait_until

# Far less than a stopped database is stopped for; on a busy machine more than it takes.
BOUNDED_SECONDS = 15.0


@pytest.fixture(scope="module")
def dsn() -> Iterator[str]:
    """Of a server of our own, for the others would stop with it."""
    with EmbeddedPostgres.temporary(binaries=required_binaries("wheel18")) as server:
        made = server.create_database("stopped")
        apply(made)
        yield made


@contextmanager
def stopped(dsn: str) -> Iterator[None]:
    with connect(dsn, "test", autocommit=True) as conn:
        head = conn.execute("SELECT split_part(pg_read_file('postmaster.pid'), chr(10), 1)::int").fetchall()
        # The head first: it would start others for those that stop.
        processes = [pid for (pid,) in head + conn.execute("SELECT pid FROM pg_stat_activity").fetchall()]
        for pid in processes:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in processes:
                os.kill(pid, signal.SIGCONT)


def test_requests_are_answered_while_the_database_is_stopped(dsn: str) -> None:
    with served(dsn, statement_seconds=1.0, patience_seconds=1.5) as api:
        client = api.client(Scope.READ)
        wait_until(lambda: client.get("/api/v1/jobs").status_code == 200)
        with stopped(dsn):
            for path in ["/readyz", "/api/v1/jobs", "/api/v1/events/stream", "/readyz"]:
                began = time.monotonic()
                answer = client.get(path)
                assert answer.status_code == 503
                assert answer.json()["code"] == "database_unavailable"
                assert int(answer.headers["retry-after"]) > 0
                assert time.monotonic() - began < BOUNDED_SECONDS
            assert client.get("/livez").status_code == 200
        wait_until(lambda: client.get("/api/v1/jobs").status_code == 200)


def test_a_connection_without_an_answer_is_closed(dsn: str) -> None:
    with connect(dsn, "test", autocommit=True, answer_seconds=0.2) as conn:
        with pytest.raises(NoAnswerError):
            conn.execute("SELECT pg_sleep(60)")
        assert conn.closed


def test_an_answer_in_time_is_taken(dsn: str) -> None:
    with connect(dsn, "test", autocommit=True, answer_seconds=30) as conn:
        with conn.answering_within(20):
            assert conn.execute("SELECT 1").fetchall() == [(1,)]
        assert conn.answer_seconds == 30
