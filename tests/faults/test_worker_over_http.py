"""A worker that has only the API: the API dies and comes back, the key is refused, the driver is never loaded."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rmhdag.models.scopes import Scope
from rmhdag.store.api_keys import create_key
from rmhdag.workflow.definition import WorkflowDefinition
from tests.faults.processes import Cluster
from tests.faults.test_crash_points import mixed
from tests.faults.test_processes import freeze, running, sleeper, task, thaw


def test_the_api_is_killed_again_and_again_and_nothing_is_lost(cluster: Cluster) -> None:
    """Each time in the middle of work: a large output, a checkpoint, children of a fan-out."""
    cluster.orchestrator()
    api = cluster.over_http()
    cluster.worker()
    cluster.wait_for(lambda: cluster.one("SELECT count(*) FROM dag_workers"), "the worker is there")
    jobs = [cluster.submit(mixed()), cluster.submit(sleeper(1))]
    reported = "SELECT count(*) FROM dag_task_results WHERE status = 'completed'"
    for _ in range(3):
        before = cluster.one(reported)
        cluster.wait_for(lambda before=before: cluster.one(reported) > before, "work goes on")  # type: ignore[misc]
        cluster.kill(api)
        api = cluster.api()
    assert cluster.wait_for_end(*jobs) == ["completed", "completed"], cluster.logs()
    assert cluster.one("SELECT count(*) FROM dag_job_events WHERE event_type = 'node_failed'") == 0
    cluster.check_rows()


def test_a_task_that_ends_while_the_api_is_away_is_reported_when_it_is_back(cluster: Cluster, tmp_path: Path) -> None:
    """The outage is shorter than the silence that makes a worker dead: its lease is still its own."""
    cluster.orchestrator(ORPHAN_THRESHOLD_SEC="30")
    api = cluster.over_http()
    cluster.worker()
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    nodes = {"wait": task("test.gate", {"gate": str(gate)})}
    job_id = cluster.submit(WorkflowDefinition(workflow_id="gated", name="Gated", nodes=dict(nodes)))
    cluster.wait_for(lambda: running(cluster, job_id), "the task runs")
    cluster.kill(api)
    with gate.open("w") as opened:
        opened.write("go")
    cluster.api()
    assert cluster.wait_for_end(job_id) == ["completed"]
    assert cluster.one("SELECT max(lease_epoch) FROM dag_task_results") == 1
    assert cluster.one("SELECT count(*) FROM dag_job_events WHERE event_type = 'node_lost'") == 0
    cluster.check_rows()


def test_a_frozen_api_costs_the_worker_its_leases_and_nothing_else(cluster: Cluster) -> None:
    """Heartbeats hang: others declare the worker dead, and what it says later is void."""
    cluster.orchestrator()
    api = cluster.over_http()
    cluster.worker()
    job_id = cluster.submit_held()
    cluster.wait_for(lambda: running(cluster, job_id), "the task runs")
    freeze(api)
    cluster.wait_for(
        lambda: cluster.one("SELECT count(*) FROM dag_job_events WHERE event_type = 'node_lost'"), "it is found lost"
    )
    thaw(api)
    cluster.release()
    assert cluster.wait_for_end(job_id) == ["completed"]
    query = "SELECT lease_losses, attempt FROM dag_node_states WHERE job_id = %s AND node_id = 'nap'"
    assert cluster.conn.execute(query, [job_id]).fetchone() == (1, 1)
    cluster.check_rows()


@pytest.mark.parametrize("scope", [None, Scope.READ])
def test_a_key_that_does_not_open_ends_the_worker_with_a_sentence(cluster: Cluster, scope: Scope | None) -> None:
    cluster.over_http()
    key = "rmhdag_nonsense" if scope is None else create_key(cluster.conn, "reader", [scope], created_by="test")[1]
    worker = cluster.worker(RMHDAG_API_KEY=key)
    assert worker.wait(30) == 5
    said = cluster.logs()
    assert "refuses the key" in said
    assert key not in said
    assert cluster.one("SELECT count(*) FROM dag_workers") == 0


def test_a_key_that_is_revoked_ends_the_worker(cluster: Cluster) -> None:
    cluster.over_http()
    worker = cluster.worker()
    cluster.wait_for(lambda: cluster.one("SELECT count(*) FROM dag_workers"), "the worker is there")
    cluster.conn.execute("UPDATE dag_api_keys SET revoked_at = clock_timestamp()")
    assert worker.wait(30) == 5


def test_without_a_key_there_is_no_worker(cluster: Cluster) -> None:
    worker = cluster.start("worker", "--via-http", "http://127.0.0.1:1", RMHDAG_DATABASE_URL="")
    assert worker.wait(30) == 5
    assert "needs a key" in cluster.logs()


def test_a_graceful_stop_leaves_nothing_behind(cluster: Cluster) -> None:
    """A task that is told to stop goes back with no attempt burned; the worker leaves the register."""
    cluster.orchestrator()
    api = cluster.over_http()
    leaving = cluster.worker()
    job_id = cluster.submit_held()
    cluster.wait_for(lambda: running(cluster, job_id), "the task runs")
    leaving.send_signal(signal.SIGTERM)
    assert leaving.wait(40) == 0
    cluster.release()
    assert cluster.one("SELECT count(*) FROM dag_workers") == 0
    cluster.worker()
    assert cluster.wait_for_end(job_id) == ["completed"]
    assert cluster.one("SELECT count(*) FROM dag_job_events WHERE event_type = 'node_lost'") == 0
    api.send_signal(signal.SIGTERM)
    assert api.wait(4) == 0, "workers that wait do not hold it up"
    cluster.check_rows()


def test_a_worker_over_http_loads_no_driver_of_a_database() -> None:
    """Everything that such a worker imports, and what its command imports, in a process of its own."""
    program = """
import sys
from rmhdag.cli.run_worker import run_over_http, find_queues, worker_settings
from rmhdag.cli.settings import load_settings
from rmhdag.cli import crash, lifeline, observation
from rmhdag.worker.worker import Worker
settings = worker_settings(load_settings({}).settings, ("light",), api_url="http://127.0.0.1:1", api_key="k")
assert type(Worker(settings)._transport).__name__ == "HttpTransport"
drivers = sorted(name for name in sys.modules if name.split(".")[0] in ("psycopg", "psycopg_pool", "sqlalchemy"))
sys.exit(f"loaded: {drivers}" if drivers else 0)
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
