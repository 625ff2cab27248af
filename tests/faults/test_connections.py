"""F15: the server has no connection left. Whoever has one keeps it, the others wait, and nobody is taken for dead."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from rmhdag.store.connection import connect
from tests.faults.processes import Cluster
from tests.faults.test_crash_points import mixed
from tests.faults.test_processes import running

ROLE = "crowded"
# The loop and its nine threads; the doorbell has one more, under another name.
ORCHESTRATOR_CONNECTIONS = 10
MOST = 20
HELD = 15


class Crowd:
    """Connections of somebody else, out of the twenty that there are. The test's own look on from outside."""

    def __init__(self, cluster: Cluster) -> None:
        self._watching = cluster.dsn
        there = conninfo_to_dict(cluster.dsn)
        self.dsn = f"postgresql://{ROLE}:{ROLE}@{there['host']}:{there['port']}/{there['dbname']}"
        self._stack = ExitStack()
        cluster.conn.execute(f"CREATE ROLE {ROLE} LOGIN PASSWORD '{ROLE}' CONNECTION LIMIT {MOST}")
        cluster.conn.execute(f"GRANT ALL ON SCHEMA dagapp TO {ROLE}")
        for kind in ("TABLES", "SEQUENCES"):
            cluster.conn.execute(f"GRANT ALL ON ALL {kind} IN SCHEMA dagapp TO {ROLE}".encode())

    def hold(self, most: int = MOST) -> int:
        """Take what is free, up to so many; returns how many were to be had."""
        for taken in range(most):
            try:
                self._stack.enter_context(connect(self.dsn, "crowd", autocommit=True))
            except psycopg.OperationalError:
                return taken
        return most

    def leave(self) -> None:
        self._stack.close()


@pytest.fixture
def crowd(cluster: Cluster) -> Iterator[Crowd]:
    made = Crowd(cluster)
    cluster.dsn = made.dsn
    yield made
    made.leave()
    for process in cluster.processes:
        cluster.kill(process)
    cluster.conn.execute(f"DROP OWNED BY {ROLE}")
    cluster.conn.execute(f"DROP ROLE {ROLE}")


def wait_until_the_orchestrator_has_its_connections(cluster: Cluster) -> None:
    """On a busy machine its threads connect one after the other, and the crowd must not be there before them."""
    query = """
        SELECT count(*) FILTER (WHERE application_name LIKE 'orchestrator:%%') >= %s
            AND count(*) FILTER (WHERE application_name LIKE 'rmhdag:doorbell:%%') >= 1
        FROM pg_stat_activity WHERE usename = %s
    """
    cluster.wait_for(lambda: cluster.one(query, ORCHESTRATOR_CONNECTIONS, ROLE), "threads and doorbell connected")


def names(cluster: Cluster) -> set[str]:
    query = "SELECT owner_id FROM dag_orchestrators UNION SELECT worker_id FROM dag_workers"
    return {row[0] for row in cluster.conn.execute(query)}


def beats(cluster: Cluster) -> dict[str, Any]:
    query = (
        "SELECT owner_id, heartbeat_at FROM dag_orchestrators UNION ALL SELECT worker_id, heartbeat_at FROM dag_workers"
    )
    return dict(cluster.conn.execute(query).fetchall())


def wait_for_a_lease_of_heartbeats(cluster: Cluster) -> None:
    """Everybody has been heard two leases from now, by the database's clock."""
    until = cluster.one("SELECT clock_timestamp() + interval '3 s'")
    cluster.wait_for(lambda: min(beats(cluster).values()) > until, "heartbeats go on")


def losses(cluster: Cluster) -> int:
    query = "SELECT count(*) FROM dag_job_events WHERE event_type IN ('node_lost', 'job_reclaimed')"
    return int(cluster.one(query))


def test_f15_nobody_dies_when_no_connection_is_left(cluster: Cluster, crowd: Crowd) -> None:
    cluster.orchestrator()
    cluster.worker()
    jobs = [cluster.submit_held()]
    cluster.wait_for(lambda: running(cluster, jobs[0]), "the task runs")
    wait_until_the_orchestrator_has_its_connections(cluster)
    before = names(cluster)
    assert crowd.hold() < HELD
    jobs += [cluster.submit(mixed()) for _ in range(3)]
    wait_for_a_lease_of_heartbeats(cluster)
    assert names(cluster) == before
    crowd.leave()
    cluster.release()
    assert cluster.wait_for_end(*jobs) == ["completed"] * 4, cluster.logs()
    assert (names(cluster), losses(cluster)) == (before, 0)
    cluster.check_rows()


def test_f15_heartbeats_go_on_when_everything_else_has_lost_its_connection(cluster: Cluster, crowd: Crowd) -> None:
    """All but the heartbeats are cut off, and the crowd is quicker to take what is free."""
    cluster.orchestrator()
    cluster.worker()
    jobs = [cluster.submit_held(), cluster.submit(mixed())]
    cluster.wait_for(lambda: running(cluster, jobs[0]), "the task runs")
    wait_until_the_orchestrator_has_its_connections(cluster)
    before = names(cluster)
    crowd.hold()
    cluster.conn.execute(f"ALTER ROLE {ROLE} CONNECTION LIMIT 0")
    cut = """
        SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
        WHERE usename = %s AND application_name <> 'crowd' AND application_name NOT LIKE '%%heartbeat%%'
    """
    assert cluster.one(cut, ROLE) >= 3
    wait_for_a_lease_of_heartbeats(cluster)
    assert names(cluster) == before
    crowd.leave()
    cluster.release()
    cluster.conn.execute(f"ALTER ROLE {ROLE} CONNECTION LIMIT {MOST}")
    assert cluster.wait_for_end(*jobs) == ["completed"] * 2, cluster.logs()
    assert (names(cluster), losses(cluster)) == (before, 0)
    cluster.check_rows()


def test_f15_a_worker_without_a_connection_for_its_heartbeat_takes_no_tasks(cluster: Cluster, crowd: Crowd) -> None:
    """It would be declared dead with them."""
    cluster.orchestrator()
    job_id = cluster.submit(mixed())
    cluster.wait_for(lambda: cluster.one("SELECT count(*) FROM dag_queue_messages"), "a task waits")
    wait_until_the_orchestrator_has_its_connections(cluster)
    cluster.conn.execute(f"ALTER ROLE {ROLE} CONNECTION LIMIT {ORCHESTRATOR_CONNECTIONS + 2}".encode())
    workers = [cluster.worker()]

    def cannot_say_that_it_lives() -> bool:
        """A worker that starts while that check has the last connection ends; it is started again, as by systemd."""
        if workers[-1].poll() is not None:
            workers.append(cluster.worker())
        return "heartbeat_failed" in cluster.logs()

    cluster.wait_for(cannot_say_that_it_lives, "the worker is registered and cannot say that it lives")
    assert cluster.one("SELECT count(*) FROM dag_queue_messages WHERE worker_id IS NOT NULL") == 0
    cluster.conn.execute(f"ALTER ROLE {ROLE} CONNECTION LIMIT {MOST}")
    assert cluster.wait_for_end(job_id) == ["completed"], cluster.logs()
    assert losses(cluster) == 0
    cluster.check_rows()
