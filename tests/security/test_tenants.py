"""What tenants see and take of each other: names of handlers, processes, metrics, errors, the platform itself."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import httpx
import pytest

from rmhdag.api.context import ApiSettings
from rmhdag.models.scopes import Scope
from rmhdag.picture.layout import layout
from rmhdag.services.registrations import handler_queues, known_handlers, stored_form
from rmhdag.services.submissions import submit
from rmhdag.store import tasks, workers
from rmhdag.store.workflows import register_workflow
from rmhdag.views.exposition import take_snapshot
from rmhdag.workflow.definition import WorkflowDefinition
from tests.api.serving import Served, served
from tests.engine.definitions import task, workflow
from tests.orchestrator.platform import Platform

NAME = "beta.next_model"
QUEUE = "light"
OWN_HANDLER = {"handler": NAME, "queue": None}


@pytest.fixture
def api(migrated_database: str) -> Iterator[Served]:
    with served(migrated_database) as running:
        yield running


@pytest.fixture
def platform(migrated_database: str) -> Iterator[Platform]:
    made = Platform(migrated_database)
    yield made
    made.close()


def register(api: Served, namespace: str, *handlers: dict[str, Any], host: str = "somewhere") -> httpx.Response:
    """A worker of the namespace, over HTTP."""
    return api.client(Scope.WORKER, namespace=namespace).post(
        "/api/v1/workers/register",
        json={
            "worker_id": uuid4().hex,
            "host": host,
            "version": "1",
            "slots": 1,
            "queues": [QUEUE, f"{namespace}-queue"],
            "handlers": list(handlers),
        },
    )


def submit_in(platform: Platform, namespace: str, definition: WorkflowDefinition) -> None:
    drawn = layout(definition).as_json()
    register_workflow(platform.conn, namespace, stored_form(definition), "test", drawn, development=True)
    submit(platform.conn, definition.workflow_id, {}, submitted_by="ann", namespace=namespace)


def manifest(handler: str, queue: str | None = None) -> dict[str, Any]:
    return {"handler": handler, "queue": queue, "version": "1"}


def handler_of(api: Served, namespace: str, name: str) -> httpx.Response:
    return api.client(Scope.READ, namespace=namespace).get(f"/api/v1/handlers/{name}")


def test_a_name_that_another_namespace_has_taken_is_free(api: Served, platform: Platform) -> None:
    assert register(api, "alpha", manifest(NAME, "alpha-queue")).status_code == 200
    assert handler_of(api, "beta", NAME).status_code == 404
    assert register(api, "beta", manifest(NAME, "beta-queue")).status_code == 200
    for namespace in ("alpha", "beta"):
        assert handler_of(api, namespace, NAME).json()["queue"] == f"{namespace}-queue"
        assert handler_queues(platform.conn, namespace)[NAME] == f"{namespace}-queue"
    assert NAME not in handler_queues(platform.conn)
    assert NAME not in known_handlers(platform.conn, "default")


def test_what_an_older_version_kept_for_a_namespace_is_still_its_own(api: Served, platform: Platform) -> None:
    platform.conn.execute(
        "INSERT INTO dag_handlers (handler, queue, serves_namespace, version) VALUES (%s, 'old', 'alpha', '1')", [NAME]
    )
    assert handler_of(api, "alpha", NAME).json()["queue"] == "old"
    assert register(api, "beta", manifest(NAME, "beta-queue")).status_code == 200
    assert handler_of(api, "beta", NAME).json()["queue"] == "beta-queue"
    register(api, "alpha", manifest(NAME, "new"))
    assert handler_of(api, "alpha", NAME).json()["queue"] == "new"
    shared = manifest(NAME, "all") | {"description": "", "params_schema": {}, "aliases": []}
    workers.register_handlers(platform.conn, [shared])
    assert {handler_of(api, name, NAME).json()["queue"] for name in ("alpha", "beta", "default")} == {"all"}


def test_a_job_goes_to_the_queue_of_its_own_namespace_s_handler(api: Served, platform: Platform) -> None:
    register(api, "alpha", manifest(NAME, "alpha-queue"))
    register(api, "beta", manifest(NAME, "beta-queue"))
    made = task()
    definition = workflow(one=made.model_copy(update={"task": made.task.model_copy(update=OWN_HANDLER)}))
    for namespace in ("alpha", "beta"):
        submit_in(platform, namespace, definition)
    platform.seat().work()
    found = dict(platform.conn.execute("SELECT namespace, queue FROM dag_queue_messages").fetchall())
    assert found == {"alpha": "alpha-queue", "beta": "beta-queue"}


def test_a_tenant_sees_the_workers_that_serve_it(api: Served, platform: Platform) -> None:
    register(api, "alpha", host="alpha-host")
    register(api, "beta", host="beta-secret-host.corp")

    def hosts(*scopes: Scope, namespace: str) -> set[str]:
        found = api.client(*scopes, namespace=namespace).get("/api/v1/workers").json()["workers"]
        return {one["host"] for one in found}

    shared = hosts(Scope.READ, namespace="gamma")
    assert "alpha-host" not in shared
    assert hosts(Scope.ADMIN, namespace="alpha") == shared | {"alpha-host"}
    assert hosts(Scope.READ, Scope.PLATFORM, namespace="gamma") == shared | {"alpha-host", "beta-secret-host.corp"}


def test_what_a_shared_worker_does_for_others_is_not_shown(api: Served, platform: Platform) -> None:
    platform.seat()
    register(api, "alpha", host="alpha-host")
    platform.conn.execute("""UPDATE dag_workers SET stats = '{"tasks_done": 47, "sizes": {"leases": 1}, "lives": 1}'""")

    def stats(*scopes: Scope) -> list[dict[str, Any]]:
        workers = api.client(*scopes, namespace="alpha").get("/api/v1/workers").json()["workers"]
        return [one["stats"] for one in sorted(workers, key=lambda one: one["host"] == "alpha-host")]

    everything = {"tasks_done": 47, "sizes": {"leases": 1}, "lives": 1}
    assert stats(Scope.ADMIN) == [{"lives": 1}, everything]
    assert stats(Scope.READ, Scope.PLATFORM) == [everything, everything]


def test_health_and_metrics_of_a_tenant_count_what_serves_it(api: Served, platform: Platform) -> None:
    platform.seat()
    before = api.client(Scope.READ, namespace="alpha").get("/health").text
    register(api, "beta", host="beta-secret-host.corp")
    after = api.client(Scope.READ, namespace="alpha").get("/health").json()
    alive = next(one for one in after["components"]["workers"]["checks"] if one["name"] == "alive")
    assert alive["value"] in before
    for of_platform in (False, True):
        snapshot = take_snapshot(platform.conn, ApiSettings(dsn=api.dsn), "alpha", of_platform=of_platform)
        names = {family.name for family in snapshot.collect()}
        for name in ("rmhdag_tasks_dispatched", "rmhdag_database_connections", "rmhdag_backlog_rows"):
            assert (name in names) is of_platform
    assert "rmhdag_api_requests" not in api.client(Scope.ADMIN).get("/metrics").text
    assert "rmhdag_api_requests" in api.client(Scope.READ, Scope.PLATFORM).get("/metrics").text


def test_errors_of_orchestrators_are_not_a_tenant_s_to_read(api: Served, platform: Platform) -> None:
    seat = platform.seat()
    platform.conn.execute("""UPDATE dag_orchestrators SET stats = '{"errors": 1, "last_error": "secret of beta"}'""")
    platform.conn.execute(
        "INSERT INTO dag_orchestrator_events (owner_id, event_type, source_app, error_message)"
        " VALUES (%s, 'orchestrator_error', 'test', 'secret of beta')",
        [seat.me],
    )
    paths = ["orchestrators", "orchestrator/status", "orchestrator/stats", "orchestrator/activity?all=true"]
    tenant, operator = api.client(Scope.ADMIN), api.client(Scope.READ, Scope.PLATFORM)
    for path in paths:
        assert "secret of beta" not in tenant.get(f"/api/v1/{path}").text, path
        assert "secret of beta" in operator.get(f"/api/v1/{path}").text, path


def test_an_administrator_of_a_namespace_is_not_the_platform_s(api: Served) -> None:
    admin, operator = api.client(Scope.ADMIN, namespace="alpha"), api.client(Scope.PLATFORM)
    calls = [("GET", "bootstrap/ddl"), ("POST", "bootstrap/migrate?confirm=yes"), ("GET", "retention")]
    for method, path in calls:
        answer = admin.request(method, f"/api/v1/{path}")
        assert (answer.status_code, answer.json()["code"]) == (403, "scope_missing"), path
        assert operator.request(method, f"/api/v1/{path}").status_code == 200, path
    assert operator.get("/api/v1/jobs").status_code == 403, "it includes nothing else"


def test_nobody_makes_a_platform_key_who_has_none(api: Served) -> None:
    wanted = {"name": "more", "scopes": ["platform"]}
    assert api.client(Scope.ADMIN).post("/api/v1/keys", json=wanted).status_code == 403
    assert api.client(Scope.ADMIN, Scope.PLATFORM).post("/api/v1/keys", json=wanted).status_code == 201


def test_a_worker_that_waits_hears_nothing_of_other_namespaces(api: Served, platform: Platform) -> None:
    submit_in(platform, "beta", workflow(one=task()))
    platform.seat().work()
    assert tasks.waiting_namespaces(platform.conn, [QUEUE, "empty"]) == {(QUEUE, "beta")}
    assert tasks.waiting_namespaces(platform.conn, [QUEUE], limit=1) == {(QUEUE, None)}

    def wait(namespace: str) -> dict[str, Any]:
        client = api.client(Scope.WORKER, namespace=namespace)
        place = client.post("/api/v1/tasks/wait", json={"queues": [QUEUE], "wait_seconds": 0}).json()["place"]
        body = {"queues": [QUEUE], "wait_seconds": 3, "after": place}
        found: dict[str, Any] = client.post("/api/v1/tasks/wait", json=body, timeout=30).json()
        return found

    async def both() -> list[dict[str, Any]]:
        return list(await asyncio.gather(*(asyncio.to_thread(wait, name) for name in ("alpha", "beta"))))

    alpha, beta = asyncio.run(both())
    assert (alpha["rang"], beta["rang"]) == (False, True)
