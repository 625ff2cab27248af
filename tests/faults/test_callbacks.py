"""F39, I10: receivers misbehave and orchestrators die; every callback arrives, each try under the same id."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Iterator

import pytest

from rmhdag.services.callbacks.destinations import Rules
from rmhdag.services.submissions import submit
from rmhdag.store import workflows
from rmhdag.workflow import definition_hash, definition_json
from tests.engine.definitions import task, workflow
from tests.faults.processes import Cluster
from tests.orchestrator.callbacks.sink import Sink, answer, drip, hang, hang_up, reset

JOBS = 24
FAILS = [answer(500), reset, hang_up, answer(302, "Location: /elsewhere"), answer(429), drip(b"", b"H")]


@pytest.fixture
def sink() -> Iterator[Sink]:
    with Sink() as made:
        yield made


def orchestrator(cluster: Cluster, sink: Sink, **variables: str) -> subprocess.Popen[bytes]:
    """Tries of a second, and so leases of seven; as many retries as it takes."""
    return cluster.orchestrator(
        RMHDAG_CALLBACK_HOSTS=sink.host,
        RMHDAG_CALLBACK_RETRY_SECONDS=",".join(["0.1"] * 40),
        RMHDAG_CALLBACK_TIMEOUT_SEC="1",
        **variables,
    )


def submit_jobs(cluster: Cluster, sink: Sink, count: int) -> list[str]:
    definition = workflow(a=task())
    stored = workflows.StoredWorkflow(
        definition.workflow_id, definition.version, definition_hash(definition), definition_json(definition)
    )
    workflows.register_workflow(cluster.conn, "default", stored, "test", {}, development=True)
    return [
        submit(
            cluster.conn,
            definition.workflow_id,
            {},
            submitted_by="test",
            callback_url=sink.url(f"/{number % 4}?n={number}"),
            callback_rules=Rules(frozenset({sink.host})),
        )
        for number in range(count)
    ]


def check_deliveries(cluster: Cluster, sink: Sink, job_ids: list[str]) -> None:
    """I10: all are delivered, nothing was sent that is not in the outbox, and each message has one id."""
    unsettled = "SELECT count(*) FROM dag_callbacks WHERE status <> 'delivered'"
    cluster.wait_for(
        lambda: cluster.one("SELECT count(*) FROM dag_callbacks") == len(job_ids) and cluster.one(unsettled) == 0,
        "all callbacks are delivered",
    )
    rows = dict(cluster.conn.execute("SELECT url, callback_id FROM dag_callbacks").fetchall())
    assert len(rows) == len(job_ids)
    ids = {sink.url(got.target): got.message_id for got in sink.received}
    assert ids == rows
    assert {(sink.url(got.target), got.message_id) for got in sink.received} == set(rows.items())
    assert len({(got.target, got.body) for got in sink.received}) == len(rows)


def test_none_is_lost_when_one_of_two_orchestrators_is_killed(cluster: Cluster, sink: Sink) -> None:
    for number in range(4):
        sink.script[f"/{number}"] = [*FAILS, hang, hang, answer(200)]
    first, _ = orchestrator(cluster, sink), orchestrator(cluster, sink)
    cluster.worker()
    job_ids = submit_jobs(cluster, sink, JOBS)
    cluster.wait_for(lambda: len(sink.received) > 8, "callbacks are under way")
    cluster.kill(first)
    assert cluster.wait_for_end(*job_ids) == ["completed"] * JOBS
    check_deliveries(cluster, sink, job_ids)
    assert max(Counter(got.message_id for got in sink.received).values()) > 1
    cluster.check_rows()


@pytest.mark.parametrize("point", ["settle_tries.before_commit", "settle_tries.after_commit"])
def test_an_orchestrator_dies_with_what_it_knows_of_a_try(cluster: Cluster, sink: Sink, point: str) -> None:
    doomed = orchestrator(cluster, sink, RMHDAG_CRASH_AT=point)
    cluster.worker()
    job_ids = submit_jobs(cluster, sink, 3)
    assert doomed.wait(30) == 137
    orchestrator(cluster, sink)
    check_deliveries(cluster, sink, job_ids)


@pytest.mark.parametrize("point", ["claim_callbacks.before_commit", "claim_callbacks.after_commit"])
def test_an_orchestrator_dies_with_a_claim(cluster: Cluster, sink: Sink, point: str) -> None:
    sink.script["/0"] = [answer(500)]
    first = orchestrator(cluster, sink)
    cluster.worker()
    job_ids = submit_jobs(cluster, sink, 1)
    cluster.wait_for(lambda: sink.received, "a first try")
    cluster.kill(first)
    cluster.conn.execute("UPDATE dag_callbacks SET next_attempt_at = clock_timestamp()")
    sink.script["/0"] = [answer(200)]
    assert orchestrator(cluster, sink, RMHDAG_CRASH_AT=point).wait(30) == 137
    orchestrator(cluster, sink)
    check_deliveries(cluster, sink, job_ids)
