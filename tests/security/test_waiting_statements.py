"""Statements of one namespace that wait for a lock keep no other namespace waiting, wherever they come from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial

import httpx
import psycopg
import pytest

from rmhdag.api.streams.shared_reads import AT_ONCE
from rmhdag.models.scopes import Scope
from rmhdag.store.connection import connect, enter_schema
from tests.api.serving import ServedHere, served
from tests.store.waiting import wait_until

CONNECTIONS = 8
CALLS = 24
# A lock is waited for as long as it is held, and held as long as the test likes.
patient_connect = partial(connect, lock_timeout_seconds=0, idle_in_transaction_timeout_seconds=0)


@pytest.fixture
def api(migrated_database: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[ServedHere]:
    # The statements outlast the test, so that no end of theirs lets beta in by chance. Who waits for a connection waits
    # long enough for a busy machine to bring all calls; who would never get one is refused all the same.
    monkeypatch.setattr("rmhdag.api.context.connect", patient_connect)
    monkeypatch.setattr("rmhdag.api.processor_time.PATIENCE_SECONDS", 60.0)
    with served(migrated_database, connections=CONNECTIONS, statement_seconds=60.0, patience_seconds=10.0) as running:
        yield running


@pytest.fixture
def beta(api: ServedHere) -> httpx.Client:
    """It has called before: the API knows whose its key is."""
    client = api.client(Scope.READ, namespace="beta")
    assert client.get("/api/v1/me").status_code == 200
    return client


@contextmanager
def locked(dsn: str, statement: str) -> Iterator[None]:
    """The lock is held by a transaction until the block ends."""
    with patient_connect(dsn, "test:lock") as conn:
        enter_schema(conn, "dagapp")
        conn.execute(statement)
        yield
        conn.rollback()


def waiting_statements(conn: psycopg.Connection[tuple[int]]) -> int:
    row = conn.execute(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        " AND application_name LIKE 'rmhdag:api%'"
    ).fetchone()
    assert row is not None
    return row[0]


def check_others(api: ServedHere, beta: httpx.Client, waiting: int) -> None:
    """All calls of alpha have come, and so many of them wait for the lock: beta is answered, and no more wait."""
    with connect(api.dsn, "test:watch", autocommit=True) as conn:
        wait_until(lambda: api.open_connections() >= 2 * CALLS)
        wait_until(lambda: waiting_statements(conn) >= waiting)
        for _ in range(5):
            answer = beta.get("/api/v1/jobs")
            assert answer.status_code == 200, answer.text
        assert waiting_statements(conn) == waiting


def check_beta(api: ServedHere, beta: httpx.Client, statement: str, attack: Callable[[], object], waiting: int) -> None:
    """While `attack` runs many times at once against the lock, beta is answered."""
    with ExitStack() as stack:
        pool = stack.enter_context(ThreadPoolExecutor(CALLS))
        stack.enter_context(locked(api.dsn, statement))
        calls = [pool.submit(attack) for _ in range(CALLS)]
        check_others(api, beta, waiting)
    for call in calls:
        call.result()


def test_endpoints_that_wait_leave_connections_to_others(api: ServedHere, beta: httpx.Client) -> None:
    alpha = api.client(Scope.ADMIN, namespace="alpha")
    alpha.get("/api/v1/me")
    answers: list[int] = []
    check_beta(
        api,
        beta,
        "LOCK TABLE dag_callbacks IN ACCESS EXCLUSIVE MODE",
        lambda: answers.append(alpha.get("/api/v1/callbacks").status_code),
        waiting=CONNECTIONS * 3 // 4,
    )
    assert set(answers) == {200}


def test_streams_that_wait_leave_connections_to_others(api: ServedHere, beta: httpx.Client) -> None:
    key = api.key(Scope.READ, namespace="alpha")
    places = iter(range(1, CALLS + 1))

    def listen() -> int:
        """At a place of its own each, so that none shares a read with another."""
        client = api.anonymous(headers={"Authorization": f"Bearer {key}"})
        with client.stream("GET", "/api/v1/events/stream", params={"after": f"{next(places)}.0."}) as answer:
            for _ in answer.iter_bytes():
                pass
            return answer.status_code

    with ExitStack() as stack:
        pool = stack.enter_context(ThreadPoolExecutor(CALLS))
        stack.callback(api.stop)
        stack.enter_context(locked(api.dsn, "LOCK TABLE dag_job_events IN ACCESS EXCLUSIVE MODE"))
        calls = [pool.submit(listen) for _ in range(CALLS)]
        check_others(api, beta, AT_ONCE)
    assert {call.result() for call in calls} == {200}


def test_keys_that_wait_leave_connections_to_others(api: ServedHere, beta: httpx.Client) -> None:
    """The use of a key that rested for long is written down, which waits for whoever changes that key."""
    alpha = api.client(Scope.READ, namespace="alpha", name="rested")
    unknown = [api.client(Scope.READ, namespace="alpha", name="rested") for _ in range(CALLS - 1)]
    assert alpha.get("/api/v1/me").status_code == 200
    with connect(api.dsn, "test", autocommit=True) as conn:
        enter_schema(conn, "dagapp")
        conn.execute("UPDATE dag_api_keys SET last_used_at = now() - interval '1 day' WHERE name = 'rested'")
    clients = iter([alpha, *unknown])
    check_beta(
        api,
        beta,
        "SELECT 1 FROM dag_api_keys WHERE name = 'rested' FOR UPDATE",
        lambda: next(clients).get("/api/v1/me"),
        waiting=2,  # one that is known, and one of all that are not
    )
