"""What is counted when it is added stays within its quota, however many are added at the same moment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from rmhdag.models.quotas import Quotas
from rmhdag.models.scopes import Scope
from rmhdag.store.connection import connect, enter_schema
from rmhdag.store.identity import new_id
from tests.api.serving import ServedHere, served
from tests.security.test_quotas import YAML
from tests.security.test_waiting_statements import locked, patient_connect, waiting_statements
from tests.store.waiting import wait_until

AT_ONCE = 5
MOST = 2


@pytest.fixture
def api(migrated_database: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[ServedHere]:
    monkeypatch.setattr("rmhdag.api.context.connect", patient_connect)
    quotas = Quotas(workflows=MOST, handlers=MOST, keys=MOST + 1)
    # Workflows are checked here and now: processes that check would take them one after the other.
    with served(migrated_database, quotas=quotas, statement_seconds=60.0, check_processes=None) as running:
        yield running


def add_at_once(api: ServedHere, table: str, add: Callable[[int], httpx.Response]) -> Counter[int]:
    """All of them begin before the first one ends: the table can be read, and not written."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        with locked(api.dsn, f"LOCK TABLE {table} IN SHARE MODE"), connect(api.dsn, "test", autocommit=True) as conn:
            answers = [pool.submit(add, number) for number in range(AT_ONCE)]
            wait_until(lambda: waiting_statements(conn) == AT_ONCE)
        return Counter(answer.result().status_code for answer in answers)


def known_client(api: ServedHere, scope: Scope) -> httpx.Client:
    """The use of its key is written down already."""
    client = api.client(scope, namespace="alpha")
    client.get("/api/v1/me")
    return client


def count(api: ServedHere, query: str) -> int:
    with connect(api.dsn, "test", autocommit=True) as conn:
        enter_schema(conn, "dagapp")
        row = conn.execute(query).fetchone()
    assert row is not None
    return int(row[0])


def test_keys(api: ServedHere) -> None:
    alpha = known_client(api, Scope.ADMIN)
    answers = add_at_once(
        api, "dag_api_keys", lambda number: alpha.post("/api/v1/keys", json={"name": f"k{number}", "scopes": ["read"]})
    )
    assert answers == {201: MOST, 403: AT_ONCE - MOST}
    assert count(api, "SELECT count(*) FROM dag_api_keys WHERE namespace = 'alpha'") == MOST + 1


def test_workflows(api: ServedHere) -> None:
    known_worker = known_client(api, Scope.WORKER)
    alpha = known_client(api, Scope.OPERATE)
    register_worker(known_worker, ["echo"])
    headers = {"Content-Type": "application/yaml"}
    answers = add_at_once(
        api,
        "dag_workflows",
        lambda number: alpha.post("/api/v1/workflows", content=YAML.format(name=f"w{number}"), headers=headers),
    )
    assert answers == {201: MOST, 403: AT_ONCE - MOST}
    assert count(api, "SELECT count(DISTINCT workflow_id) FROM dag_workflows WHERE namespace = 'alpha'") == MOST


def register_worker(worker: httpx.Client, handlers: list[str]) -> httpx.Response:
    body = {"worker_id": new_id(), "host": "h", "process_id": 1, "version": "1", "slots": 1, "queues": ["light"]}
    manifests = [{"handler": name, "queue": "light"} for name in handlers]
    return worker.post("/api/v1/workers/register", json={**body, "handlers": manifests})


def test_handlers(api: ServedHere) -> None:
    worker = known_client(api, Scope.WORKER)
    answers = add_at_once(api, "dag_namespace_handlers", lambda number: register_worker(worker, [f"alpha.h{number}"]))
    assert answers == {200: MOST, 403: AT_ONCE - MOST}
    assert count(api, "SELECT count(*) FROM dag_namespace_handlers WHERE namespace = 'alpha'") == MOST
