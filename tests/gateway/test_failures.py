"""The gateway killed, the API away, the database away: clear answers, nothing lost, no order doubled."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from rmhdag.cli.run_api import listen
from rmhdag.embedded import EmbeddedPostgres
from rmhdag.machine.python import python_command
from rmhdag.models.scopes import Scope
from rmhdag.store.connection import connect, enter_schema
from rmhdag.store.migration import apply
from tests.api.serving import NO_TLS
from tests.api.serving import served as served_api
from tests.api.test_stopped_database import stopped
from tests.gateway.orders import ORDER, count_orders, order
from tests.gateway.serving import Served, gateway_dsn, make_key, served_gateway
from tests.orchestrator.assets import raster_workflow
from tests.orchestrator.platform import Platform
from tests.store.waiting import wait_until

SECONDS = 60.0


def wait_for_status(client: httpx.Client, path: str, status: int) -> httpx.Response:
    deadline = time.monotonic() + SECONDS
    while True:
        try:
            answer = client.get(path)
            if answer.status_code == status:
                return answer
        except httpx.TransportError:
            pass
        assert time.monotonic() < deadline, f"{path} never answered {status}"


def check_away(answer: httpx.Response) -> None:
    assert answer.status_code == 503, answer.text
    assert int(answer.headers["retry-after"]) >= 1
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["code"] == "unavailable"


@pytest.fixture
def own_server() -> Iterator[EmbeddedPostgres]:
    """That a test may stop."""
    with EmbeddedPostgres.temporary() as server:
        yield server


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def test_without_settings_only_liveness_is_served(migrated_database: str) -> None:
    with served_gateway(
        migrated_database, "http://127.0.0.1:9", gateway_database_url=None, gateway_key=None, orchestrator_url=None
    ) as running:
        client = running.with_key(None)
        assert client.get("/livez").json() == {"alive": True}
        ready = client.get("/readyz")
        assert ready.status_code == 503
        assert set(ready.json()["checks"]) == {"env_vars", "database", "orchestrator"}
        assert not any(check["passed"] for check in ready.json()["checks"].values())
        for path in ("/platform/me", "/openapi.json", "/nothing"):
            answer = client.get(path)
            assert (answer.status_code, answer.json()["code"]) == (503, "starting")


def test_nothing_is_served_until_the_api_answers_and_the_key_is_good(migrated_database: str) -> None:
    listener = listen("127.0.0.1", 0)
    port = listener.getsockname()[1]
    listener.close()
    with served_gateway(migrated_database, f"http://127.0.0.1:{port}") as running:
        client = running.client()
        checks = client.get("/readyz").json()["checks"]
        assert {name: check["passed"] for name, check in checks.items()} == {
            "env_vars": True,
            "database": True,
            "orchestrator": False,
        }
        assert client.get("/platform/me").status_code == 503
        with served_api(migrated_database, listener=listen("127.0.0.1", port)):
            # The checks are tried again.
            wait_for_status(client, "/platform/me", 200)
            assert client.get("/readyz").status_code in (200, 503)
            wait_for_status(client, "/readyz", 200)


def test_a_role_that_can_write_is_refused(migrated_database: str, api: Served) -> None:
    gateway_dsn(migrated_database)
    with served_gateway(migrated_database, api.url, gateway_database_url=migrated_database) as running:
        ready = running.with_key(None).get("/readyz")
        assert ready.status_code == 503
        assert "can write" in ready.json()["checks"]["database"]["problem"]


def test_a_key_without_the_scope_is_refused(migrated_database: str, api: Served) -> None:
    key = make_key(migrated_database, Scope.ADMIN, Scope.PLATFORM, name="not a gateway")
    with served_gateway(migrated_database, api.url, gateway_key=key) as running:
        assert not running.with_key(None).get("/readyz").json()["checks"]["orchestrator"]["passed"]


def test_the_api_goes_away_and_comes_back(migrated_database: str) -> None:
    platform = Platform(migrated_database)
    platform.register(raster_workflow())
    listener = listen("127.0.0.1", 0)
    port = listener.getsockname()[1]
    try:
        with (
            served_api(migrated_database, listener=listener) as api,
            served_gateway(migrated_database, api.url) as running,
        ):
            client = running.client()
            first = order(client).json()["request_id"]
            api.stop()
            deadline = time.monotonic() + SECONDS
            while (away := client.post("/platform/submit", json={**ORDER, "request_id": "later"})).status_code != 503:
                assert time.monotonic() < deadline
            check_away(away)
            assert away.json()["request_id"] == "later"
            # What needs no command is still answered.
            assert client.get(f"/platform/status/{first}").status_code == 200
            placed = count_orders(platform)
            with served_api(migrated_database, listener=listen("127.0.0.1", port)):
                order(client, request_id="later")
                order(client, request_id="later")
                assert count_orders(platform) == max(placed, 2)
    finally:
        platform.close()


def test_the_database_goes_away_and_comes_back(own_server: EmbeddedPostgres) -> None:
    dsn = own_server.create_database("gateway")
    apply(dsn)
    platform = Platform(dsn)
    platform.register(raster_workflow())
    with served_api(dsn, statement_seconds=1.0, patience_seconds=1.5) as api, served_gateway(dsn, api.url) as running:
        client = running.client()
        request_id = order(client, headers={"Idempotency-Key": "k"}).json()["request_id"]
        path = f"/platform/status/{request_id}"
        assert client.get(path).status_code == 200
        platform.close()
        with stopped(dsn):
            check_away(client.get(path))
            check_away(client.post("/platform/submit", json=ORDER, headers={"Idempotency-Key": "k"}))
            assert client.get("/livez").status_code == 200
        wait_for_status(client, path, 200)
        wait_for_status(client, "/readyz", 200)
        deadline = time.monotonic() + SECONDS
        while True:
            again = client.post("/platform/submit", json=ORDER, headers={"Idempotency-Key": "k"})
            if again.status_code != 503:
                break
            assert time.monotonic() < deadline
        assert (again.status_code, again.json()["request_id"]) == (202, request_id)
        assert again.headers["idempotency-replayed"] == "true"
    counting = Platform(dsn)
    try:
        assert count_orders(counting) == 1
    finally:
        counting.close()


@contextmanager
def gateway_process(environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(python_command("rmhdag.cli", "gateway"), env={**os.environ, **environment})
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def client_at(port: int, key: str) -> httpx.Client:
    return httpx.Client(
        base_url=f"http://127.0.0.1:{port}",
        headers={"Authorization": f"Bearer {key}"},
        timeout=30,
        trust_env=False,
        verify=NO_TLS,
    )


def test_a_killed_gateway_loses_and_doubles_nothing(migrated_database: str, tmp_path: Path) -> None:
    platform = Platform(migrated_database)
    platform.register(raster_workflow())
    key = make_key(migrated_database, Scope.B2B, name="acme")
    port = closed_port()
    try:
        with served_api(migrated_database) as api:
            environment = {
                "RMHDAG_HOME": str(tmp_path),
                "RMHDAG_GATEWAY_DATABASE_URL": gateway_dsn(migrated_database),
                "RMHDAG_GATEWAY_KEY": make_key(migrated_database, Scope.GATEWAY, name="gateway"),
                "RMHDAG_ORCHESTRATOR_URL": api.url,
                "RMHDAG_GATEWAY_PORT": str(port),
            }
            placed = set()
            with client_at(port, key) as client:
                for number in range(3):
                    with gateway_process(environment) as process:
                        wait_for_status(client, "/readyz", 200)
                        refs = {"dataset_id": "1", "resource_id": f"r{number}"}
                        placed.add(
                            order(client, headers={"Idempotency-Key": f"k{number}"}, platform_refs=refs).json()[
                                "request_id"
                            ]
                        )
                        process.kill()
                        process.wait()
                    with gateway_process(environment):
                        wait_for_status(client, "/readyz", 200)
                        again = order(client, headers={"Idempotency-Key": f"k{number}"}, platform_refs=refs)
                        assert again.headers["idempotency-replayed"] == "true"
                        assert again.json()["request_id"] in placed
            assert count_orders(platform) == len(placed) == 3
    finally:
        platform.close()


def test_a_gateway_killed_in_the_middle_of_an_order_doubles_nothing(migrated_database: str, tmp_path: Path) -> None:
    """The API has the order and cannot write it yet: the partner learns nothing, and repeats it."""
    platform = Platform(migrated_database)
    platform.register(raster_workflow())
    key = make_key(migrated_database, Scope.B2B, name="acme")
    port = closed_port()
    heads = {"Idempotency-Key": "k"}
    try:
        with served_api(migrated_database) as api, client_at(port, key) as client:
            environment = {
                "RMHDAG_HOME": str(tmp_path),
                "RMHDAG_GATEWAY_DATABASE_URL": gateway_dsn(migrated_database),
                "RMHDAG_GATEWAY_KEY": make_key(migrated_database, Scope.GATEWAY, name="gateway"),
                "RMHDAG_ORCHESTRATOR_URL": api.url,
                "RMHDAG_GATEWAY_PORT": str(port),
            }
            with gateway_process(environment) as process, connect(migrated_database, "lock") as lock:
                wait_for_status(client, "/readyz", 200)
                enter_schema(lock, "dagapp")
                lock.execute("LOCK TABLE dag_api_requests IN EXCLUSIVE MODE")
                with ThreadPoolExecutor(1) as pool:
                    lost = pool.submit(client.post, "/platform/submit", json=ORDER, headers=heads)
                    wait_until(lambda: is_waiting_for_a_lock(platform))
                    process.kill()
                    with pytest.raises(httpx.TransportError):
                        lost.result()
                lock.rollback()
            with gateway_process(environment):
                wait_for_status(client, "/readyz", 200)
                first = order(client, headers=heads).json()["request_id"]
                assert order(client, headers=heads).json()["request_id"] == first
            assert count_orders(platform) == 1
    finally:
        platform.close()


def is_waiting_for_a_lock(platform: Platform) -> bool:
    return platform.conn.execute("SELECT FROM pg_locks WHERE NOT granted LIMIT 1").fetchone() is not None
