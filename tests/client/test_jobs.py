"""Jobs through the client, from submission to outputs, while real processes run them."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Any

import pytest

import rmhdag
from rmhdag import AsyncClient, Client
from rmhdag.client import (
    BatchRefused,
    Conflict,
    InvalidRequest,
    JobCancelled,
    JobFailed,
    NotFound,
    RmhdagError,
    WaitTimeout,
)
from rmhdag.client.clients import batches
from rmhdag.models.api.jobs import JobSubmission
from rmhdag.models.api.progress import JobProgress
from rmhdag.models.references import Reference
from rmhdag.models.states import JobStatus
from tests.api.running import Running
from tests.client.answering import Prepared, answering


def test_from_submission_to_outputs(client: Client) -> None:
    told: list[JobProgress] = []
    job = client.submit("flaky", fails=False, numbers=[1, 2])
    assert job.status in (JobStatus.PENDING, JobStatus.RUNNING)
    with pytest.raises(Conflict):
        _ = job.outputs
    assert job.wait(timeout=60, progress=told.append) is job
    assert job.outputs["fine"]["message"].startswith("Hello")
    assert job.result == job.outputs
    assert (told[-1].overall_percent, told[-1].job_id) == (100, job.job_id)
    assert client.job(job.job_id).outputs == job.outputs
    assert [node.node_id for node in job.overview().nodes][:2] == ["split", "gather"]
    assert job.node("split__1").output == {"echoed_params": {"value": 2}}
    assert {node.node_id for node in job.nodes(parent="split")} == {"split__0", "split__1"}


def test_outputs_that_stand_apart_are_fetched(client: Client) -> None:
    text, other = "x" * 70_000, "y" * 70_000
    job = client.submit("large", text=text, others=["small", other]).wait(60)
    assert job.outputs["first"] == {"echoed_params": {"text": text}}
    assert job.view is not None
    assert job.view.result_data is not None
    assert set(job.view.result_data["first"]) == {"rmhdag:payload"}
    assert other in str(job.outputs["gathered"])
    assert client.job(job.job_id).outputs == job.outputs
    assert job.node("first").output == {"echoed_params": {"text": text}}
    assert job.node("split__1").output == {"echoed_params": {"text": other}}
    assert other in str(job.node("gather").output)


def test_awaited_outputs_stand_apart_too(up: Running, admin_key: str) -> None:
    async def talk() -> None:
        async with AsyncClient(up.api.url, admin_key) as client:
            job = await client.submit("large", text="x" * 70_000)
            assert (await job.wait(60)).outputs["first"] == {"echoed_params": {"text": "x" * 70_000}}

    asyncio.run(talk())


def test_outputs_that_nobody_wants_at_once(client: Client) -> None:
    ended = client.submit("large", text="small").wait(60).view
    assert ended is not None
    reference = Reference("a" * 64, 65 * 1024 * 1024).as_json()
    view = ended.model_copy(update={"result_data": {"first": reference}}).model_dump(mode="json")
    with answering(Prepared(200, view)) as server, Client(server.url, "k") as other:
        job = other.job(ended.job_id)
        with pytest.raises(RmhdagError, match="larger than 64 MB") as told:
            _ = job.outputs
    assert told.value.code == "outputs_too_large"
    assert job.view is not None
    assert job.view.result_data == {"first": reference}


def test_a_line_of_progress(client: Client, capsys: pytest.CaptureFixture[str]) -> None:
    client.submit("flaky", fails=False).wait(60, progress=True)
    assert capsys.readouterr().err.endswith("flaky completed 100 % (8/8 nodes)\n")


def test_a_failure_is_raised_and_retried(client: Client) -> None:
    job = client.submit("flaky")
    with pytest.raises(JobFailed, match="no luck today") as failed:
        job.wait(60)
    assert (failed.value.job_id, failed.value.exit_code) == (job.job_id, 1)
    assert job.wait(check=False).status is JobStatus.FAILED
    with pytest.raises(JobFailed):
        _ = job.outputs
    again = job.retry()
    assert again.wait(60, check=False).view is not None
    assert again.view is not None
    assert (again.view.rerun_of, again.status) == (job.job_id, JobStatus.FAILED)
    assert job.rerun({"fails": False}).wait(60).outputs["fine"]
    with pytest.raises(NotFound):
        job.rerun(from_nodes=["nobody"])


def test_waiting_may_be_limited_and_a_job_cancelled(client: Client) -> None:
    job = client.submit("slow")
    with pytest.raises(WaitTimeout) as late:
        job.wait(0.2)
    assert late.value.exit_code == 8
    assert job.cancel("enough").job_id == job.job_id
    with pytest.raises(JobCancelled, match="enough"):
        job.wait(60)
    assert job.cancel().reason == "the job is already cancelled"


def test_a_completed_job_is_not_cancelled(client: Client) -> None:
    job = client.submit("flaky", fails=False).wait(60)
    with pytest.raises(Conflict, match="already completed"):
        job.cancel()


def test_somebody_decides(client: Client, up: Running) -> None:
    job = client.submit("release")
    up.wait_for_node(job.job_id, "ask", "running")
    (waiting,) = [one for one in client.approvals() if one.job_id == job.job_id]
    assert (waiting.node_id, waiting.message, waiting.approvers) == ("ask", "Release 2 maps?", ["data-stewards", "ada"])
    job.decide("ask", approve=True, reason="fine")
    assert job.wait(60).outputs == {"last": {"echoed_params": {"done": True}}}
    assert job.job_id not in [one.job_id for one in client.approvals()]


def test_a_process_that_is_not_there_cannot_be_drained(client: Client) -> None:
    for drain in (client.drain_worker, client.drain_orchestrator):
        with pytest.raises(NotFound):
            drain("d" * 32)


def test_events_from_the_first_to_the_last(client: Client) -> None:
    job = client.submit("flaky", fails=False)
    events = list(job.events())
    assert [event.event_id for event in events] == list(range(1, len(events) + 1))
    assert (events[0].event_type, events[-1].event_type) == ("job_created", "job_completed")
    assert [event.event_id for event in job.events(after=3)] == [event.event_id for event in events[3:]]


def test_logs_are_followed_to_the_end(client: Client) -> None:
    job = client.submit("flaky")
    followed = list(job.logs(follow=True))
    assert any(line.node_id == "broken" and "no luck today" in line.line for line in followed)
    assert sorted(followed) == sorted(job.logs())
    assert {line.node_id for line in job.logs("broken")} == {"broken"}


def test_many_at_once(client: Client) -> None:
    wanted = [{"workflow_id": "flaky", "input_params": {"fails": False, "numbers": []}} for _ in range(3)]
    jobs = client.submit_many(wanted)
    assert jobs[0].status is None
    assert all(job.wait(60).outputs for job in jobs)
    with pytest.raises(BatchRefused) as refused:
        client.submit_many([*wanted, {"workflow_id": "flaki"}, {"workflow_id": "flaky", "input_params": {"x": 1}}])
    assert (sorted(refused.value.jobs), sorted(refused.value.refused)) == ([0, 1, 2], [3, 4])
    assert isinstance(refused.value.refused[3], NotFound)
    assert refused.value.refused[4].errors[0].pointer == "/jobs/4/input_params/x"
    with pytest.raises(InvalidRequest):
        client.submit_many([{"workflow_id": "flaky", "nonsense": 1}])


def test_batches_are_as_large_as_a_server_takes() -> None:
    small = [JobSubmission(workflow_id="w") for _ in range(2_001)]
    assert [len(batch) for batch in batches(small)] == [1_000, 1_000, 1]
    large = [JobSubmission(workflow_id="w", input_params={"text": "x" * size}) for size in (3_000_000, 10, 3_000_000)]
    assert [len(batch) for batch in batches([*large, JobSubmission(workflow_id="w")])] == [2, 2]
    assert list(batches([])) == []


def test_jobs_are_iterated_over_pages(client: Client) -> None:
    made = [client.submit("lonely", correlation_id="paged").job_id for _ in range(5)]
    found = [job.job_id for job in client.jobs(correlation_id="paged", status=["pending", "running"], page_size=2)]
    assert found == made[::-1]


def test_a_job_in_a_notebook(client: Client) -> None:
    job = client.submit("flaky", fails=False)
    job.wait(60)
    shown = job._repr_html_()
    assert job.job_id in shown
    assert "<svg" in shown
    assert "split: completed 3/3" in shown
    assert "completed" in repr(job)


def test_a_notebook_whose_server_is_gone_shows_what_was_last_seen(client: Client) -> None:
    job = client.submit("lonely")
    seen = job.status
    client.close()
    assert seen is not None
    assert seen in job._repr_html_()


def test_many_concurrent_submits(up: Running, admin_key: str) -> None:
    async def one(client: AsyncClient, number: int) -> Any:
        job = await client.submit("flaky", fails=False, numbers=[number])
        await job.wait(100)
        return job.outputs

    async def all_of_them() -> list[Any]:
        async with AsyncClient(up.api.url, admin_key) as client:
            assert (await client.me()).name == "ada"
            return await asyncio.gather(*(one(client, number) for number in range(40)))

    assert len(asyncio.run(all_of_them())) == 40


def test_awaited_streams_and_pages(up: Running, admin_key: str) -> None:
    async def talk() -> None:
        async with AsyncClient(up.api.url, admin_key) as client:
            job = await client.submit("flaky", correlation_id="awaited")
            events = [event async for event in job.events()]
            assert events[-1].event_type == "job_failed"
            assert [line async for line in job.logs("broken", follow=True)]
            assert [one.job_id async for one in client.jobs(correlation_id="awaited")] == [job.job_id]
            with pytest.raises(JobFailed):
                await job.wait()
            with pytest.raises(NotFound):
                await client.job("0190a0b0c0d07e0f8a0b0c0d0e0f0a0b")

    asyncio.run(talk())


def test_a_job_joins_the_trace_of_its_caller(client: Client, up: Running) -> None:
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider

    span = TracerProvider().get_tracer("test").start_span("caller")
    with trace.use_span(span, end_on_exit=True):
        job = client.submit("lonely")
    found = up.cluster.one("SELECT metadata ->> 'trace_parent' FROM dag_jobs WHERE job_id = %s", job.job_id)
    assert found.split("-")[1] == f"{span.get_span_context().trace_id:032x}"


def test_the_client_costs_nothing_until_it_is_used() -> None:
    loaded = "import sys, rmhdag; print('httpx' in sys.modules, 'pydantic' in sys.modules, bool(rmhdag.Client))"
    done = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False", "True"]
    assert not hasattr(rmhdag, "Nothing")
