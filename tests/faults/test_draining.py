"""Processes that are drained from afar: what they have is finished or goes elsewhere, and they end with 0."""

from __future__ import annotations

import pytest

from rmhdag.models.scopes import Scope
from rmhdag.store import processes
from tests.api.serving import served
from tests.faults.processes import Cluster
from tests.faults.test_processes import owner, running, sleeper

BY_ANN = {"namespace": "default", "actor": "ann"}
STARTED = "SELECT count(*) FROM dag_workers"


@pytest.mark.parametrize("way", ["database", "http"])
def test_a_drained_worker_finishes_its_task_and_ends_with_0(cluster: Cluster, way: str) -> None:
    cluster.orchestrator()
    if way == "http":
        cluster.over_http()
    worker = cluster.worker("--stop-seconds", "60")
    cluster.wait_for(lambda: cluster.one(STARTED), "the worker is there")
    job_id = cluster.submit_held()
    cluster.wait_for(lambda: running(cluster, job_id), "the task runs")
    worker_id = cluster.one("SELECT worker_id FROM dag_workers")
    assert processes.drain_worker(cluster.conn, worker_id, **BY_ANN)
    assert cluster.one("SELECT draining FROM dag_workers"), "seen at once"
    other = cluster.submit(sleeper(0))
    asked = "SELECT drain_requested_at FROM dag_workers"
    cluster.wait_for(lambda: cluster.one(f"SELECT heartbeat_at > ({asked}) + interval '1 s' FROM dag_workers"), "beats")
    assert worker.poll() is None, "its task has time"
    cluster.release()
    assert worker.wait(30) == 0, cluster.logs()
    finished = "SELECT status::text FROM dag_task_results WHERE job_id = %s AND node_id = 'nap'"
    assert cluster.one(finished, job_id) == "completed"
    assert cluster.one(STARTED) == 0
    cluster.worker()
    assert cluster.wait_for_end(job_id, other) == ["completed", "completed"]
    noted = "SELECT actor || ' ' || subject FROM dag_audit WHERE action = 'worker.drain'"
    assert cluster.one(noted) == f"ann {worker_id}"
    cluster.check_rows()


def test_a_task_that_outlives_the_stop_time_goes_to_another_worker(cluster: Cluster) -> None:
    cluster.orchestrator()
    worker = cluster.worker("--stop-seconds", "3")
    job_id = cluster.submit_held()
    cluster.wait_for(lambda: running(cluster, job_id), "the task runs")
    worker_id = cluster.one("SELECT worker_id FROM dag_workers")
    cluster.worker()
    cluster.wait_for(lambda: cluster.one(STARTED) == 2, "another one is there")
    assert processes.drain_worker(cluster.conn, worker_id, **BY_ANN)
    assert worker.wait(30) == 0, cluster.logs()
    cluster.release()
    assert cluster.wait_for_end(job_id) == ["completed"]
    assert cluster.one("SELECT max(attempt) FROM dag_node_states") == 1, "no attempt is used up"
    cluster.check_rows()


def test_a_drained_orchestrator_hands_its_jobs_over_and_ends_with_0(cluster: Cluster) -> None:
    first = cluster.orchestrator()
    cluster.worker()
    job_id = cluster.submit_held()
    cluster.wait_for(lambda: running(cluster, job_id), "the task runs")
    before = owner(cluster, job_id)
    assert before is not None
    cluster.orchestrator()
    cluster.wait_for(lambda: cluster.one("SELECT count(*) FROM dag_orchestrators") == 2, "another one is there")
    assert processes.drain_orchestrator(cluster.conn, before, **BY_ANN)
    assert first.wait(30) == 0, cluster.logs()
    cluster.wait_for(lambda: owner(cluster, job_id) not in (None, before), "the other one has the job")
    cluster.release()
    assert cluster.wait_for_end(job_id) == ["completed"]
    cluster.check_rows()


def test_who_may_drain_over_http(cluster: Cluster) -> None:
    """Administrators of the namespace that alone a worker serves; the platform's operators for all others."""
    there = "INSERT INTO dag_workers (worker_id, host, process_id, version, slots, serves_namespace) VALUES "
    ours, theirs, orchestrator = "a" * 32, "b" * 32, "c" * 32
    cluster.conn.execute(f"{there} ('{ours}', 'h', 1, '0', 1, NULL), ('{theirs}', 'h', 1, '0', 1, 'x')".encode())
    processes.register_orchestrator(cluster.conn, orchestrator, "h", 1, "0")
    with served(cluster.dsn) as api:
        admin, operator = api.client(Scope.ADMIN), api.client(Scope.OPERATE)
        platform = api.client(Scope.PLATFORM, Scope.READ)
        tenant = api.client(Scope.ADMIN, namespace="x")
        for path, refused in ((f"workers/{ours}", 404), (f"orchestrators/{orchestrator}", 403)):
            assert operator.post(f"/api/v1/{path}/drain").status_code == 403
            assert tenant.post(f"/api/v1/{path}/drain").status_code == refused
            assert admin.post(f"/api/v1/{path}/drain").status_code == refused
            answer = platform.post(f"/api/v1/{path}/drain")
            assert answer.json() == {"process": path.partition("/")[2], "draining": True}
            assert platform.post(f"/api/v1/{path}/drain").status_code == 200, "asked again it changes nothing"
        assert admin.post(f"/api/v1/workers/{theirs}/drain").status_code == 404
        assert platform.post(f"/api/v1/workers/{'d' * 32}/drain").status_code == 404
        assert platform.post(f"/api/v1/orchestrators/{'d' * 32}/drain").status_code == 404
        listed = {one["worker_id"]: one["draining"] for one in platform.get("/api/v1/workers").json()["workers"]}
        assert (listed[ours], listed[theirs]) == (True, False)
        assert tenant.post(f"/api/v1/workers/{theirs}/drain").status_code == 200
        assert platform.get("/api/v1/orchestrators").json()["orchestrators"][0]["stopping"]
