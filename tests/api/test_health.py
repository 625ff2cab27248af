"""Whether the platform is well, and what is said when it is not."""

import json
from typing import Any

import pytest

from rmhdag.models.api.health import HealthStatus
from rmhdag.models.scopes import Scope
from rmhdag.store.connection import connect
from rmhdag.store.server_health import DeadRows, Server
from rmhdag.views.health import judge_dead_rows, judge_server
from tests.api.serving import Served, served
from tests.engine.definitions import task, workflow
from tests.orchestrator.platform import Platform
from tests.store.waiting import wait_until


def checks(told: dict[str, Any], component: str) -> dict[str, dict[str, Any]]:
    return {check["name"]: check for check in told["components"][component]["checks"]}


def test_a_platform_with_all_its_parts_is_well(api: Served, platform: Platform) -> None:
    platform.seat()
    client = api.client(Scope.READ)
    answer = client.get("/api/v1/health")
    told = answer.json()
    assert told["components"].keys() == {"orchestrators", "database", "messaging", "workers", "system"}
    for component in ("orchestrators", "messaging", "workers"):
        assert told["components"][component]["status"] == "HEALTHY", told["components"][component]
    assert answer.status_code == 200
    assert client.get("/health").json()["components"].keys() == told["components"].keys()
    for part in told["components"].values():
        for check in part["checks"]:
            assert check["value"]
            assert check["threshold"]
            assert check["meaning"], check["name"]
            assert (check["remedy"] is None) == (check["status"] == "HEALTHY")


def test_without_an_orchestrator_nothing_is_well(api: Served, platform: Platform) -> None:
    answer = api.client(Scope.READ).get("/health")
    assert answer.status_code == 503
    assert "retry-after" in answer.headers
    told = answer.json()
    assert told["status"] == "UNHEALTHY"
    alive = checks(told, "orchestrators")["alive"]
    assert (alive["status"], alive["value"]) == ("UNHEALTHY", "0")
    assert "rmhdag orchestrator" in alive["remedy"]


def test_missing_names_of_queues_are_unhealthy(migrated_database: str, platform: Platform) -> None:
    platform.seat()
    with served(migrated_database, queues=()) as api:
        answer = api.client(Scope.READ).get("/health")
    assert answer.status_code == 503
    names = checks(answer.json(), "messaging")["queue names"]
    assert names["status"] == "UNHEALTHY"
    assert "WORKER_QUEUE" in names["value"]


def test_silent_processes_and_unserved_queues_are_told(api: Served, platform: Platform) -> None:
    seat = platform.seat()
    platform.submit(workflow(only=task()))
    seat.work()
    client = api.client(Scope.READ)
    unserved = checks(client.get("/health").json(), "workers")["unserved queues"]
    assert (unserved["status"], unserved["value"]) == ("DEGRADED", "light")
    platform.conn.execute("UPDATE dag_workers SET heartbeat_at = now() - interval '1 hour'")
    answer = client.get("/health")
    assert answer.status_code == 503
    found = checks(answer.json(), "workers")
    assert found["alive"]["status"] == "UNHEALTHY"
    assert platform.worker_id in found["silent"]["value"]


def test_tables_that_are_not_shown_or_not_dropped_are_told(api: Served, platform: Platform) -> None:
    platform.seat()
    client = api.client(Scope.READ, Scope.PLATFORM)

    def verdict() -> tuple[str, str]:
        check = checks(client.get("/health").json(), "messaging")["tables in PostGIS"]
        assert (check["remedy"] is None) == (check["status"] == "HEALTHY")
        return check["status"], check["value"]

    assert verdict() == ("HEALTHY", "0 to be shown, 0 to be dropped, overdue by 0 s at most")
    platform.conn.execute(
        """INSERT INTO dag_table_places (table_name, owner, status, last_error, next_attempt_at) VALUES
            ('late', 'job', 'pending', NULL, clock_timestamp() - interval '1 hour'),
            ('lost', 'job', 'dead', 'load it again', clock_timestamp())"""
    )
    platform.conn.execute(
        """INSERT INTO dag_data_tables (
            table_id, table_name, stored_name, geometry_type, feature_count, state, next_attempt_at
        ) SELECT repeat('a', 64), 'old', 'old_1', 'MultiPoint', 1, 'dropping', clock_timestamp() - interval '2 hours'"""
    )
    status, value = verdict()
    assert status == "DEGRADED"
    assert value.startswith("1 to be shown, 1 to be dropped, overdue by 72")
    assert value.endswith("1 given up, the newest is lost: load it again")
    lines = client.get("/metrics").text.splitlines()
    assert 'rmhdag_backlog_rows{table="table_places"} 1.0' in lines
    assert 'rmhdag_backlog_rows{table="table_drops"} 1.0' in lines
    assert "rmhdag_dead_table_places 1.0" in lines


def test_tasks_whose_handler_no_live_worker_has_are_told(api: Served, platform: Platform) -> None:
    seat = platform.seat()
    job_id = platform.submit(workflow(only=task()))
    seat.work()
    client = api.client(Scope.READ)

    def told(queues: list[str], handlers: list[str] | None, **columns: Any) -> tuple[str, str]:
        """The check, and the reason of the job."""
        row = {"queues": json.dumps(queues), "handlers": json.dumps(handlers), "draining": False, **columns}
        platform.conn.execute(
            "UPDATE dag_workers SET queues = %(queues)s::jsonb, handlers = NULLIF(%(handlers)s::jsonb, 'null'),"
            " draining = %(draining)s, heartbeat_at = clock_timestamp()",
            row,
        )
        found = checks(client.get("/health").json(), "workers")["missing handlers"]
        reason = client.get(f"/api/v1/jobs/{job_id}").json()["reason"]
        assert (found["remedy"] is None) == (found["status"] == "HEALTHY")
        return found["value"], reason["reason_code"]

    assert told(["light"], ["sleep", "echo"]) == ("none", "waits_for_worker")
    assert told(["light"], None) == ("none", "waits_for_worker"), "it did not say what it has"
    assert told(["light"], ["sleep"]) == ("echo (1 tasks in light)", "waits_for_handler")
    reason = client.get(f"/api/v1/jobs/{job_id}").json()["reason"]
    assert reason["reason_text"] == (
        "Waiting for a worker that has the handler echo: none of the live workers of queue light (1) has it."
    )
    assert "`rmhdag worker --queue light --handlers MODULE`" in reason["hint"]
    assert "`rmhdag.handlers.examples`" in reason["hint"], "workers in production do not load them by default"
    metric = 'rmhdag_unserved_tasks{handler="echo",queue="light"} 1.0'
    wait_until(lambda: metric in client.get("/metrics").text)
    # That nobody serves the queue at all is another check.
    assert told(["heavy"], ["echo"]) == ("none", "waits_for_worker")
    assert told(["light"], ["echo"], draining=True) == ("none", "waits_for_worker")


def test_what_hurts_the_database_is_told(api: Served, platform: Platform) -> None:
    platform.seat()
    with connect(api.dsn, "holder") as holder, connect(api.dsn, "waiter", lock_timeout_seconds=0) as waiter:
        holder.execute("LOCK TABLE dagapp.dag_payloads IN ACCESS EXCLUSIVE MODE")
        with waiter.pipeline():
            waiter.execute("SELECT FROM dagapp.dag_payloads")
            client = api.client(Scope.READ)
            blocked = wait_until(
                lambda: (found := checks(client.get("/health").json(), "database")["blocked"])["value"] == "1" and found
            )
            holder.rollback()
    assert blocked["status"] == "DEGRADED"
    assert "pg_blocking_pids" in blocked["remedy"]


WELL = Server(
    connections=10,
    max_connections=100,
    oldest_transaction_seconds=60,
    idle_in_transaction_seconds=5,
    blocked=0,
    transaction_age=1_000_000_000,
    is_durable=True,
)


def test_a_server_at_its_thresholds_is_still_well() -> None:
    assert {check.status for check in judge_server(WELL)} == {HealthStatus.HEALTHY}
    assert judge_dead_rows(DeadRows("dag_inbox", 100_000, 0)).status is HealthStatus.HEALTHY


@pytest.mark.parametrize(
    ("server", "name", "status"),
    [
        (WELL._replace(oldest_transaction_seconds=61), "oldest transaction", "DEGRADED"),
        (WELL._replace(oldest_transaction_seconds=3601), "oldest transaction", "UNHEALTHY"),
        (WELL._replace(idle_in_transaction_seconds=6), "idle in transaction", "DEGRADED"),
        (WELL._replace(connections=81), "connections", "DEGRADED"),
        (WELL._replace(connections=96), "connections", "UNHEALTHY"),
        (WELL._replace(blocked=1), "blocked", "DEGRADED"),
        (WELL._replace(transaction_age=1_950_000_000), "transaction ids", "UNHEALTHY"),
        (WELL._replace(is_durable=False), "durability", "DEGRADED"),
    ],
)
def test_beyond_a_threshold_there_is_a_remedy(server: Server, name: str, status: str) -> None:
    ill = [check for check in judge_server(server) if check.status is not HealthStatus.HEALTHY]
    assert [(check.name, check.status) for check in ill] == [(name, status)]
    assert ill[0].remedy


def test_dead_rows_that_pile_up_are_told() -> None:
    found = judge_dead_rows(DeadRows("dag_inbox", 100_101, 100))
    assert found.status is HealthStatus.DEGRADED
    assert "dag_inbox" in found.value


@pytest.mark.parametrize(("behind", "status"), [((None, 4000.0), "DEGRADED"), ((4000.0, 12.0), "HEALTHY")])
def test_retention_that_falls_behind_everywhere_is_degraded(
    api: Served, platform: Platform, behind: tuple[float | None, ...], status: str
) -> None:
    for seconds in behind:
        seat = platform.seat()
        stats = json.dumps({"retention_behind_seconds": seconds, "pruned_rows": {"dag_jobs": 3}})
        platform.conn.execute("UPDATE dag_orchestrators SET stats = %s WHERE owner_id = %s", [stats, seat.me])
    client = api.client(Scope.READ, Scope.PLATFORM)
    check = checks(client.get("/health").json(), "orchestrators")["retention"]
    assert check["status"] == status
    shown = client.get("/metrics").text
    assert 'rmhdag_pruned_rows_total{table="dag_jobs"} 6.0' in shown
    assert f"rmhdag_retention_behind_seconds {min(one for one in behind if one)}" in shown
