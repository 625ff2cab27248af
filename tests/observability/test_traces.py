"""One trace from the call that submits a job to what its handlers do, as a collector receives it."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from rmhdag.models.scopes import Scope
from rmhdag.store import api_keys, workflows
from rmhdag.workflow import definition_hash, definition_json
from rmhdag.workflow.definition import WorkflowDefinition
from tests.faults.processes import SHORT_LEASES, Cluster
from tests.observability.conftest import ROOT, SECRET, StartReceiver, start_worker, workflow
from tests.observability.receiver import ReceivedSpan, Receiver

CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def variables(cluster: Cluster, **more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("RMHDAG_", "OTEL_"))}
    return {**kept, **SHORT_LEASES, "RMHDAG_DATABASE_URL": cluster.dsn, "PYTHONPATH": str(ROOT), **more}


@contextmanager
def running_api(cluster: Cluster, **more: str) -> Iterator[httpx.Client]:
    """`rmhdag api` as a process of its own, and somebody who may submit."""
    key = api_keys.create_key(cluster.conn, "test", [Scope.SUBMIT, Scope.READ], created_by="test")[1]
    process = subprocess.Popen(
        [sys.executable, "-m", "rmhdag.cli", "api", "--port", "0"],
        env=variables(cluster, **more),
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        said = process.stderr.readline()
        found = re.search(r"http://\S+", said)
        assert found, said
        headers = {"Authorization": f"Bearer {key}"}
        with httpx.Client(base_url=found[0], headers=headers, timeout=30, trust_env=False) as client:
            yield client
        end(process)
    finally:
        process.kill()
        process.communicate()


def submit(client: httpx.Client, **headers: Any) -> str:
    answer = client.post("/api/v1/jobs", json={"workflow_id": "traced"}, headers=headers)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["job_id"])


def end(process: subprocess.Popen[Any]) -> None:
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0


def register(cluster: Cluster, definition: WorkflowDefinition) -> None:
    stored = workflows.StoredWorkflow(
        definition.workflow_id, definition.version, definition_hash(definition), definition_json(definition)
    )
    workflows.register_workflow(cluster.conn, "default", stored, "test", {}, development=True)


def output_of(cluster: Cluster, job_id: str, node_id: str) -> Any:
    return cluster.one("SELECT output FROM dag_task_results WHERE job_id = %s AND node_id = %s", job_id, node_id)


def test_one_trace_leads_from_the_call_to_the_spans_of_the_handlers(
    cluster: Cluster, start_receiver: StartReceiver
) -> None:
    receiver = start_receiver()
    register(cluster, workflow("spans.plain", "spans.light"))
    orchestrator = cluster.orchestrator(OTEL_EXPORTER_OTLP_ENDPOINT=receiver.url)
    worker = start_worker(cluster, OTEL_EXPORTER_OTLP_ENDPOINT=receiver.url)
    with running_api(cluster, OTEL_EXPORTER_OTLP_ENDPOINT=receiver.url) as client:
        client.get(f"/api/v1/jobs?token={SECRET}", headers={"traceparent": CALLER})
        job_id = submit(client, traceparent=CALLER)
        assert cluster.wait_for_end(job_id) == ["completed"]
    # Each sends what it still has before it ends, children included.
    end(worker)
    end(orchestrator)

    call = receiver.named("POST /api/v1/jobs")
    job = receiver.named("job")
    tasks = {handler: receiver.named(f"task {handler}") for handler in ("spans.plain", "spans.light")}
    assert call.service == "rmhdag-api"
    assert call.trace_id == CALLER.split("-")[1]
    assert call.parent_id == CALLER.split("-")[2]
    assert (job.service, job.parent_id) == ("rmhdag-orchestrator", call.span_id)
    assert job.attributes["rmhdag.job_id"] == job_id
    assert job.attributes["rmhdag.status"] == "completed"
    for number, (handler, task) in enumerate(tasks.items()):
        inside = receiver.named(f"inside {handler.removeprefix('spans.')}")
        assert (task.service, task.parent_id) == ("rmhdag-worker", job.span_id)
        assert (inside.service, inside.parent_id) == ("rmhdag-worker", task.span_id)
        assert output_of(cluster, job_id, f"n{number}") == {"trace_parent": task.trace_parent}
        assert task.attributes["rmhdag.job_id"] == job_id
        assert task.attributes["rmhdag.node_id"] == f"n{number}"
        assert task.attributes["rmhdag.attempt"] == 1
        assert task.attributes["rmhdag.lease_epoch"] == 1
        assert task.attributes["rmhdag.outcome"] == "completed"
    assert {span.trace_id for span in receiver.spans} == {call.trace_id}
    assert not any(span.is_error for span in receiver.spans)
    assert receiver.named("GET /api/v1/jobs").attributes["url.query"] == "token"
    assert not any(SECRET.encode() in body for body in receiver.bodies)


def is_job(job_id: str, span: ReceivedSpan) -> bool:
    return span.name == "job" and span.attributes["rmhdag.job_id"] == job_id


def test_tasks_that_fail_or_kill_their_process_have_spans_too(cluster: Cluster, start_receiver: StartReceiver) -> None:
    receiver = start_receiver()
    cluster.orchestrator(OTEL_EXPORTER_OTLP_ENDPOINT=receiver.url)
    start_worker(cluster, OTEL_EXPORTER_OTLP_ENDPOINT=receiver.url)
    failed = cluster.submit(workflow("spans.fail"))
    died = cluster.submit(workflow("spans.die"))
    assert cluster.wait_for_end(failed, died) == ["failed", "failed"]
    for job_id, handler, kind in ((failed, "spans.fail", "handler_error"), (died, "spans.die", "worker_died")):
        task = receiver.named(f"task {handler}")
        job = receiver.wait_for(partial(is_job, job_id))
        assert task.is_error
        assert task.attributes["rmhdag.outcome"] == "failed"
        assert task.attributes["error.type"] == kind
        # Nobody had begun a trace: the job is its root.
        assert (task.trace_id, task.parent_id, job.parent_id) == (job.trace_id, job.span_id, "")
        assert job.is_error
    assert not any(SECRET.encode() in body for body in receiver.bodies)


def test_a_traceparent_that_makes_no_sense_begins_a_new_trace(cluster: Cluster, start_receiver: StartReceiver) -> None:
    receiver = start_receiver()
    register(cluster, workflow("spans.plain"))
    hostile = ["", "00", "x" * 10_000, f"00-{'0' * 32}-{'1' * 16}-01", f"ff-{'a' * 32}-{'1' * 16}-01", "00-\xff-é-01"]
    with running_api(cluster, OTEL_EXPORTER_OTLP_ENDPOINT=receiver.url) as client:
        for text in hostile:
            submit(client, traceparent=text.encode("latin-1"))
    spans = [span for span in receiver.spans if span.name.startswith("POST")]
    assert len({span.trace_id for span in spans}) == len(hostile)
    assert all(span.parent_id == "" for span in spans)


def test_an_api_that_sends_no_spans_passes_the_trace_on(cluster: Cluster) -> None:
    register(cluster, workflow("spans.plain"))
    with running_api(cluster) as client:
        job_id = submit(client, traceparent=CALLER)
        untraced = submit(client, traceparent="nonsense")
    stored = "SELECT metadata->>'trace_parent' FROM dag_jobs WHERE job_id = %s"
    assert cluster.one(stored, job_id) == CALLER
    assert cluster.one(stored, untraced) is None


def test_the_command_line_begins_a_trace(cluster: Cluster, start_receiver: StartReceiver, tmp_path: Path) -> None:
    receiver = start_receiver()
    register(cluster, workflow("spans.plain"))
    done = subprocess.run(
        [sys.executable, "-m", "rmhdag.cli", "submit", "traced"],
        env=variables(cluster, OTEL_EXPORTER_OTLP_ENDPOINT=receiver.url, HOME=str(tmp_path)),
        capture_output=True,
        text=True,
        check=True,
    )
    span = receiver.named("submit")
    stored = cluster.one("SELECT metadata->>'trace_parent' FROM dag_jobs WHERE job_id = %s", done.stdout.strip())
    # The job belongs to the request that the command sent, which belongs to the trace that the command began.
    assert stored.split("-")[1] == span.trace_parent.split("-")[1]
    assert span.service == "rmhdag-cli"


def test_whoever_samples_nothing_sends_nothing(cluster: Cluster, start_receiver: StartReceiver) -> None:
    receiver = start_receiver()
    given = {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url, "OTEL_TRACES_SAMPLER": "always_off"}
    orchestrator, worker = cluster.orchestrator(**given), start_worker(cluster, **given)
    job_id = cluster.submit(workflow("spans.plain"))
    assert cluster.wait_for_end(job_id) == ["completed"]
    end(worker)
    end(orchestrator)
    assert not receiver.calls.is_set()
    # The decision travels along: nobody further down samples it either.
    assert output_of(cluster, job_id, "n0")["trace_parent"].endswith("-00")


def nobody() -> str:
    """An address where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"http://127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize("kind", ["down", "hangs", "fails", "nonsense"])
def test_jobs_complete_whatever_the_collector_does(cluster: Cluster, start_receiver: StartReceiver, kind: str) -> None:
    receiver: Receiver | None = None
    if kind in ("hangs", "fails"):
        receiver = start_receiver(hangs=kind == "hangs", status=500)
    url = receiver.url if receiver is not None else nobody() if kind == "down" else "localhost:4317"
    given = {"OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_EXPORTER_OTLP_TIMEOUT": "1", "OTEL_BSP_SCHEDULE_DELAY": "50"}
    orchestrator, worker = cluster.orchestrator(**given), start_worker(cluster, **given)
    job_ids = [cluster.submit(workflow("spans.plain", "spans.light")) for _ in range(5)]
    assert set(cluster.wait_for_end(*job_ids)) == {"completed"}
    cluster.wait_for(lambda: cluster.logs().count("traces_not_exported") == 2, "both say that nothing arrives")
    more = cluster.submit(workflow("spans.plain"))
    assert cluster.wait_for_end(more) == ["completed"]
    end(worker)
    end(orchestrator)
    # One warning each, however often it failed.
    assert cluster.logs().count("traces_not_exported") == 2
    cluster.check_rows()


def test_azure_monitor_receives_spans_by_its_own_exporter(start_receiver: StartReceiver) -> None:
    receiver = start_receiver()
    script = (
        "import sys\n"
        "from rmhdag.observability import traces\n"
        "traces.configure_traces('rmhdag-test', traces.TraceSettings(None, sys.argv[1]))\n"
        "with traces.span('a span of ours'): print(traces.current_trace_parent())\n"
        "traces.close_traces()"
    )
    told = f"InstrumentationKey=0123abcd-0123-4567-89ab-0123456789ab;IngestionEndpoint={receiver.url}"
    done = subprocess.run([sys.executable, "-c", script, told], capture_output=True, text=True, check=True, timeout=60)
    sent = b"".join(receiver.bodies).decode()
    assert "a span of ours" in sent
    assert done.stdout.split("-")[1] in sent
