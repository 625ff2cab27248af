"""Kills, freezes, hand-overs and a database that goes away, with real processes."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from rmhdag.embedded import EmbeddedPostgres
from rmhdag.workflow.definition import RetryRule, TaskNode, TaskSpec, WorkflowDefinition
from tests.faults.processes import Cluster
from tests.faults.test_crash_points import mixed

ONCE = RetryRule(max_attempts=1)


def task(handler: str, params: dict[str, Any], *following: str, retry: RetryRule = ONCE, **more: Any) -> TaskNode:
    return TaskNode(task=TaskSpec(handler=handler, queue="light", params=params, retry=retry, **more), next=following)


def sleeper(seconds: float) -> WorkflowDefinition:
    """One attempt only: whatever happens to its worker must not be the node's failure."""
    nodes = {"nap": task("sleep", {"seconds": seconds}, "after"), "after": task("echo", {})}
    return WorkflowDefinition(workflow_id="sleeper", name="Sleeper", nodes=dict(nodes))


def freeze(process: subprocess.Popen[bytes]) -> None:
    os.killpg(process.pid, signal.SIGSTOP)


def thaw(process: subprocess.Popen[bytes]) -> None:
    os.killpg(process.pid, signal.SIGCONT)


def running(cluster: Cluster, job_id: str) -> bool:
    query = "SELECT count(*) FROM dag_queue_messages WHERE job_id = %s AND started_at IS NOT NULL"
    return bool(cluster.one(query, job_id))


def owner(cluster: Cluster, job_id: str) -> str | None:
    found: str | None = cluster.one("SELECT owner_id FROM dag_jobs WHERE job_id = %s", job_id)
    return found


@pytest.mark.parametrize("over_http", [False, True])
def test_f1_a_worker_is_killed_in_the_middle_of_a_task(cluster: Cluster, over_http: bool) -> None:
    cluster.orchestrator()
    if over_http:
        cluster.over_http()
    doomed = cluster.worker()
    job_id = cluster.submit_held()
    cluster.wait_for(lambda: running(cluster, job_id), "the task runs")
    cluster.kill(doomed)
    cluster.release()
    cluster.worker()
    assert cluster.wait_for_end(job_id) == ["completed"]
    query = "SELECT lease_losses, attempt FROM dag_node_states WHERE job_id = %s AND node_id = 'nap'"
    assert cluster.conn.execute(query, [job_id]).fetchone() == (1, 1)
    cluster.check_rows()


@pytest.mark.parametrize("over_http", [False, True])
def test_f5_a_frozen_worker_wakes_and_its_report_is_refused(cluster: Cluster, over_http: bool) -> None:
    cluster.orchestrator()
    if over_http:
        cluster.over_http()
    frozen = cluster.worker()
    job_id = cluster.submit_held()
    cluster.wait_for(lambda: running(cluster, job_id), "the task runs")
    freeze(frozen)
    cluster.release()
    cluster.worker()
    assert cluster.wait_for_end(job_id) == ["completed"]
    workers = cluster.one("SELECT count(*) FROM dag_workers")
    thaw(frozen)
    cluster.wait_for(lambda: cluster.one("SELECT count(*) FROM dag_workers") > workers, "it registers anew")
    cluster.check_rows()
    assert cluster.one("SELECT count(*) FROM dag_task_results WHERE status = 'completed'") == 2


def test_f7_a_frozen_orchestrator_wakes_and_writes_nothing(cluster: Cluster) -> None:
    frozen = cluster.orchestrator()
    job_id = cluster.submit(sleeper(3))
    cluster.wait_for(lambda: owner(cluster, job_id), "the job has an owner")
    first = owner(cluster, job_id)
    freeze(frozen)
    cluster.orchestrator()
    cluster.worker()
    cluster.wait_for(lambda: owner(cluster, job_id) != first, "another one takes over")
    thaw(frozen)
    assert cluster.wait_for_end(job_id) == ["completed"]
    assert cluster.one("SELECT owner_epoch FROM dag_jobs WHERE job_id = %s", job_id) == 2
    reclaims = "SELECT count(*) FROM dag_job_events WHERE event_type = 'job_reclaimed'"
    assert cluster.one(reclaims) == 1
    cluster.check_rows()


def test_f8_all_orchestrators_die_and_others_start(cluster: Cluster) -> None:
    doomed = [cluster.orchestrator(), cluster.orchestrator()]
    cluster.worker()
    jobs = [cluster.submit(mixed()) for _ in range(5)]
    cluster.wait_for(lambda: all(owner(cluster, job_id) for job_id in jobs), "all jobs have owners")
    for process in doomed:
        cluster.kill(process)
    cluster.orchestrator()
    assert cluster.wait_for_end(*jobs) == ["completed"] * 5
    cluster.check_rows()


def test_f9_a_graceful_stop_hands_over_and_burns_nothing(cluster: Cluster) -> None:
    leaving, worker = cluster.orchestrator(), cluster.worker()
    job_id = cluster.submit_held()
    cluster.wait_for(lambda: running(cluster, job_id), "the task runs")
    cluster.orchestrator()
    cluster.wait_for(lambda: cluster.one("SELECT count(*) FROM dag_orchestrators") == 2, "the second one is there")
    leaving.send_signal(signal.SIGTERM)
    assert leaving.wait(30) == 0
    cluster.release()
    assert cluster.wait_for_end(job_id) == ["completed"]
    assert cluster.one("SELECT count(*) FROM dag_job_events WHERE event_type = 'node_lost'") == 0
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(40) == 0
    assert cluster.one("SELECT count(*) FROM dag_workers") == 0
    cluster.check_rows()


@pytest.fixture
def folder_of_a_server() -> Iterator[Path]:
    """Reachable for the user that the server runs as; pytest's own folders are not."""
    with TemporaryDirectory(prefix="rmhdag-fault-", dir="/var/tmp") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def test_f11_f12_the_database_is_killed_and_comes_back(folder_of_a_server: Path, tmp_path: Path) -> None:
    from rmhdag.store.migration import apply

    server = EmbeddedPostgres(folder_of_a_server / "data")
    server.start()
    try:
        dsn = server.create_database("platform")
        apply(dsn, "dagapp")
        cluster = Cluster(dsn, tmp_path)
        try:
            cluster.orchestrator()
            cluster.worker()
            jobs = [cluster.submit(mixed()), cluster.submit_held()]
            cluster.wait_for(lambda: running(cluster, jobs[1]), "a task runs")
            assert server.process_id is not None
            os.kill(server.process_id, signal.SIGKILL)
            server.stop()
            server.start()
            cluster.dsn = server.dsn("platform")
            assert cluster.dsn == dsn, "the port stays, so that everybody finds it again"
            cluster.conn.close()
            cluster.conn = cluster.connect()
            cluster.release()
            assert cluster.wait_for_end(*jobs) == ["completed", "completed"], cluster.logs()
            cluster.check_rows()
        finally:
            cluster.close()
    finally:
        server.stop()


def test_f13_backends_are_terminated_again_and_again(cluster: Cluster) -> None:
    cluster.orchestrator()
    cluster.worker()
    jobs = [cluster.submit(mixed()) for _ in range(3)]
    query = """
        SELECT count(pg_terminate_backend(pid)) FROM (
            SELECT pid FROM pg_stat_activity
            WHERE datname = current_database() AND pid <> pg_backend_pid() ORDER BY random() LIMIT 1
        ) AS victim
    """
    for _ in range(12):
        before = cluster.one("SELECT count(*) FROM dag_job_events")
        cluster.one(query)
        cluster.wait_for(
            lambda before=before: (
                cluster.one("SELECT count(*) FROM dag_job_events") > before  # type: ignore[misc]
                or cluster.one("SELECT count(*) FROM dag_jobs WHERE completed_at IS NULL") == 0
            ),
            "work goes on",
        )
    assert cluster.wait_for_end(*jobs) == ["completed"] * 3
    cluster.check_rows()


def test_f17_a_lock_on_the_jobs_table_delays_but_kills_nobody(cluster: Cluster) -> None:
    cluster.orchestrator()
    cluster.worker()
    cluster.wait_for(lambda: cluster.one("SELECT count(*) FROM dag_orchestrators") == 1, "the orchestrator is there")
    with cluster.connect() as other:
        job_id = cluster.submit(mixed())
        with other.transaction():
            other.execute("LOCK TABLE dag_jobs IN ACCESS EXCLUSIVE MODE")
            beats = "SELECT heartbeat_at FROM dag_orchestrators"
            first = cluster.one(beats)
            cluster.wait_for(lambda: cluster.one(beats) != first, "heartbeats survive the lock")
    assert cluster.wait_for_end(job_id) == ["completed"]
    assert cluster.one("SELECT count(*) FROM dag_orchestrators") == 1


@pytest.mark.parametrize("over_http", [False, True])
def test_f28_every_message_three_times(cluster: Cluster, over_http: bool) -> None:
    """Inbox rows are doubled by a trigger: the engine must not care."""
    cluster.conn.execute(
        """
        CREATE FUNCTION dagapp.again() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            IF pg_trigger_depth() < 2 THEN
                INSERT INTO dagapp.dag_inbox (owner_id, job_id, kind, node_id, task_id, lease_epoch, payload)
                SELECT NEW.owner_id, NEW.job_id, NEW.kind, NEW.node_id, NEW.task_id, NEW.lease_epoch, NEW.payload
                FROM generate_series(1, 2);
            END IF;
            RETURN NEW;
        END $$
        """
    )
    cluster.conn.execute("CREATE TRIGGER again AFTER INSERT ON dag_inbox FOR EACH ROW EXECUTE FUNCTION dagapp.again()")
    cluster.orchestrator()
    if over_http:
        cluster.over_http()
    cluster.worker()
    job_id = cluster.submit(mixed())
    assert cluster.wait_for_end(job_id) == ["completed"]
    done = "SELECT count(*) FROM dag_job_events WHERE job_id = %s AND event_type = 'node_completed'"
    assert cluster.one(done, job_id) == 25
    cluster.check_rows()


def test_f29_without_notify_polling_finds_everything(cluster: Cluster) -> None:
    cluster.start("orchestrator", "--no-notify")
    cluster.start("worker", "--no-notify", "--concurrency", "2")
    job_id = cluster.submit(mixed())
    assert cluster.wait_for_end(job_id) == ["completed"]
    cluster.check_rows()


def test_f38_a_task_that_kills_its_worker_ends_as_a_dead_letter(cluster: Cluster) -> None:
    """The parent dies each time; a supervisor starts a new one, as `rmhdag up` does. Its neighbours are spared."""
    cluster.orchestrator()
    nodes = {"killer": task("test.kill_parent", {})}
    definition = WorkflowDefinition(workflow_id="killer", name="Killer", nodes=dict(nodes))
    bad = cluster.submit(definition)
    good: list[str] = []
    for _ in range(6):
        good.extend(cluster.submit(sleeper(seconds)) for seconds in (0.1, 1.5))
        worker = cluster.worker()
        cluster.wait_for(
            lambda worker=worker: worker.poll() is not None or cluster.status(bad) == "failed",  # type: ignore[misc]
            "the worker dies of it, or it is given up",
        )
        if cluster.status(bad) == "failed":
            break
    assert cluster.status(bad) == "failed"
    assert set(cluster.wait_for_end(*good)) == {"completed"}
    assert cluster.one("SELECT array_agg(job_id) FROM dag_dead_letters") == [bad]
    cluster.check_rows()


def test_f42_a_job_keeps_the_version_it_began_with(cluster: Cluster) -> None:
    cluster.orchestrator()
    cluster.worker()
    job_id = cluster.submit_held()
    cluster.wait_for(lambda: running(cluster, job_id), "the task runs")
    changed = WorkflowDefinition(workflow_id="held", name="Changed", nodes={"other": task("fail", {})})
    newer = cluster.submit(changed)
    cluster.release()
    assert cluster.wait_for_end(job_id, newer) == ["completed", "failed"]
    nodes = cluster.conn.execute("SELECT node_id FROM dag_node_states WHERE job_id = %s", [job_id]).fetchall()
    assert {row[0] for row in nodes} == {"nap", "after"}


@pytest.mark.parametrize("moment", ["before", "after"])
def test_the_heir_dies_too(cluster: Cluster, moment: str) -> None:
    first = cluster.orchestrator()
    cluster.worker()
    job_id = cluster.submit_held()
    cluster.wait_for(lambda: owner(cluster, job_id), "the job has an owner")
    heir = cluster.orchestrator(RMHDAG_CRASH_AT=f"claim_orphaned_jobs.{moment}_commit")
    cluster.wait_for(lambda: cluster.one("SELECT count(*) FROM dag_orchestrators") == 2, "the heir is there")
    cluster.kill(first)
    assert heir.wait(30) == 137
    cluster.release()
    cluster.orchestrator()
    assert cluster.wait_for_end(job_id) == ["completed"]
    cluster.check_rows()


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_leaving_orchestrator_dies(cluster: Cluster, moment: str) -> None:
    leaving = cluster.orchestrator(RMHDAG_CRASH_AT=f"release_jobs.{moment}_commit")
    cluster.worker()
    job_id = cluster.submit_held()
    cluster.wait_for(lambda: owner(cluster, job_id), "the job has an owner")
    leaving.send_signal(signal.SIGTERM)
    assert leaving.wait(30) == 137
    cluster.release()
    cluster.orchestrator()
    assert cluster.wait_for_end(job_id) == ["completed"]
    cluster.check_rows()


@pytest.mark.parametrize("moment", ["before", "after"])
def test_whoever_finds_a_dead_worker_dies(cluster: Cluster, moment: str) -> None:
    finder = cluster.orchestrator(RMHDAG_CRASH_AT=f"report_lost_tasks.{moment}_commit")
    worker = cluster.worker()
    job_id = cluster.submit_held()
    cluster.wait_for(lambda: running(cluster, job_id), "the task runs")
    cluster.kill(worker)
    assert finder.wait(30) == 137
    cluster.release()
    cluster.orchestrator()
    cluster.worker()
    assert cluster.wait_for_end(job_id) == ["completed"]
    cluster.check_rows()


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_worker_dies_when_it_takes_a_suspect(cluster: Cluster, moment: str) -> None:
    cluster.orchestrator()
    job_id = cluster.submit_held()
    losses = "SELECT lease_losses FROM dag_node_states WHERE node_id = 'nap'"
    runs = "SELECT true FROM dag_node_states WHERE node_id = 'nap' AND lease_losses = %s AND status = 'running'"
    for number in range(2):
        killed = cluster.worker()
        cluster.wait_for(partial(cluster.one, runs, number), "the task runs")
        cluster.kill(killed)
    assert cluster.worker(RMHDAG_CRASH_AT=f"claim_suspect.{moment}_commit").wait(30) == 137
    cluster.release()
    cluster.worker()
    assert cluster.wait_for_end(job_id) == ["completed"]
    assert cluster.one(losses) == 2, "it did not run"
    cluster.check_rows()


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("site", ["release_tasks", "unregister_worker"])
def test_a_leaving_worker_dies(cluster: Cluster, site: str, moment: str) -> None:
    cluster.orchestrator()
    # A start is marked after half a second: of shorter naps it would be seen by luck only.
    nodes = {f"n{number}": task("sleep", {"seconds": 2}) for number in range(8)}
    job_id = cluster.submit(WorkflowDefinition(workflow_id="naps", name="Naps", nodes=dict(nodes)))
    leaving = cluster.worker(RMHDAG_CRASH_AT=f"{site}.{moment}_commit")
    cluster.wait_for(lambda: running(cluster, job_id), "a task runs")
    leaving.send_signal(signal.SIGTERM)
    assert leaving.wait(40) in (0, 137)
    cluster.worker()
    assert cluster.wait_for_end(job_id) == ["completed"]
    cluster.check_rows()
