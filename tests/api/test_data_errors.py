"""Errors and warnings as jobs, nodes, requests and assets show them; and a node that is tried again says why."""

from __future__ import annotations

import re
from typing import Any

import httpx
import pytest

from rmhdag.models.leases import ReturnedLease
from rmhdag.models.scopes import Scope
from rmhdag.store import tasks
from rmhdag.workflow.definition import RetryRule, WorkflowDefinition, WorkflowNode
from tests.api.serving import Served
from tests.engine.definitions import AT_ONCE, fan, task, workflow
from tests.orchestrator.assets import place_order, raster_workflow
from tests.orchestrator.platform import Platform
from tests.orchestrator.test_data_errors import cause, fail, rerun, succeed, warning

HOURS = RetryRule(max_attempts=3, backoff="none", initial_delay_seconds=3_600, jitter=0)


@pytest.fixture
def client(api: Served) -> httpx.Client:
    return api.client(Scope.READ)


def get(client: httpx.Client, path: str, **query: Any) -> dict[str, Any]:
    answer = client.get(f"/api/v1/{path}", params=query)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_a_job_and_its_nodes_show_warnings(client: httpx.Client, platform: Platform) -> None:
    seat = platform.seat()
    job_id = platform.submit(fan(), {"items": [1, 2]})
    seat.work()
    for claimed in platform.claim():
        succeed(platform, claimed, warning())
    platform.finish(seat)
    reused_id = rerun(platform, seat, job_id, from_nodes=["after"])
    for shown in (job_id, reused_id):
        assert get(client, f"jobs/{shown}")["warnings"] == [warning(count=2)]
        assert get(client, f"jobs/{shown}/overview")["warnings"] == [warning(count=2)]
    assert get(client, f"jobs/{job_id}/nodes/split")["warnings"] == [warning(count=2)], "the sum of its children"
    assert get(client, f"jobs/{job_id}/nodes/split__1")["warnings"] == [warning()]
    assert get(client, f"jobs/{job_id}/nodes/after")["warnings"] == []
    children = get(client, f"jobs/{job_id}/nodes", parent="split")["nodes"]
    assert [child["warnings"] for child in children] == [[warning()], [warning()]]
    tasks = get(client, "tasks", job_id=job_id)["tasks"]
    assert sum(len(one["warnings"]) for one in tasks) == 2


def test_a_job_and_its_nodes_show_an_error(client: httpx.Client, platform: Platform) -> None:
    seat = platform.seat()
    job_id = platform.submit(workflow(one=task(retry=AT_ONCE)))
    seat.work()
    [claimed] = platform.claim()
    fail(platform, claimed, cause())
    seat.work()
    for path in (f"jobs/{job_id}", f"jobs/{job_id}/overview", f"jobs/{job_id}/nodes/one"):
        assert get(client, path)["error"] == cause(), path
    assert get(client, f"jobs/{job_id}/overview")["nodes"][0]["error"] == cause()
    assert get(client, f"jobs/{job_id}/nodes")["nodes"][0]["error"] == cause()
    assert get(client, "tasks", job_id=job_id)["tasks"][0]["error"] == cause()


def test_requests_and_revisions_show_both(client: httpx.Client, platform: Platform) -> None:
    seat = platform.seat()
    platform.register(raster_workflow())
    good = place_order(platform.conn).request
    seat.work()
    [claimed] = platform.claim()
    succeed(platform, claimed, warning())
    seat.work()
    bad = place_order(platform.conn, input_params={"n": 2}).request
    seat.work()
    [claimed] = platform.claim()
    fail(platform, claimed, cause())
    seat.work()
    asset = f"assets/{good.asset_id}"

    def check() -> None:
        shown = get(client, f"requests/{good.request_id}")
        assert (shown["warnings"], shown["error"], shown["error_detail"]) == ([warning()], None, None)
        shown = get(client, f"requests/{bad.request_id}")
        assert (shown["status"], shown["warnings"], shown["error_detail"]) == ("failed", [], cause())
        assert get(client, asset)["current"]["warnings"] == [warning()]
        assert get(client, f"{asset}/revisions/1")["warnings"] == [warning()]
        assert get(client, f"{asset}/revisions/2")["error"] == cause()

    check()
    platform.conn.execute("DELETE FROM dag_jobs")
    check()


def retrying(platform: Platform, definition: WorkflowDefinition, params: Any = None) -> str:
    seat = platform.seat()
    job_id = platform.submit(definition, params)
    seat.work()
    for claimed in platform.claim():
        fail(platform, claimed, cause("STORAGE_UNAVAILABLE"))
    seat.work()
    return job_id


def test_a_node_that_waits_for_its_next_attempt_says_why(client: httpx.Client, platform: Platform) -> None:
    job_id = retrying(platform, workflow(one=task(retry=HOURS)))
    told = [
        get(client, f"jobs/{job_id}")["reason"],
        get(client, f"jobs/{job_id}/nodes/one")["reason"],
        get(client, f"jobs/{job_id}/overview", reasons=True)["nodes"][0]["reason"],
    ]
    for reason in told:
        assert reason["reason_code"] == "waits_for_retry"
        assert reason["reason_text"].startswith("Attempt 1 failed: a.tif names no CRS. Attempt 2 is due at 2")
        assert re.search(r" due at [0-9-]{10} [0-9:]{8} UTC\.$", reason["reason_text"])
    node = get(client, f"jobs/{job_id}/nodes/one")
    assert (node["attempt"], node["error_message"]) == (2, "a.tif names no CRS")
    assert node["error"] == cause("STORAGE_UNAVAILABLE")
    state = get(client, f"jobs/{job_id}/graph")["states"]["one"]
    assert (state["attempt"], state["error_message"]) == (2, "a.tif names no CRS")


def test_a_task_that_asked_to_be_called_again_does_not_wait_for_a_worker(
    client: httpx.Client, platform: Platform
) -> None:
    seat = platform.seat()
    job_id = platform.submit(workflow(one=task()))
    seat.work()
    [claimed] = platform.claim()
    later = ReturnedLease(claimed.task_id, claimed.lease_epoch, 3600.0)
    tasks.release_tasks(platform.conn, platform.worker_id, [later])
    seat.work()
    platform.conn.execute("UPDATE dag_workers SET queues = '[\"light\"]'")
    for reason in (get(client, f"jobs/{job_id}")["reason"], get(client, f"jobs/{job_id}/nodes/one")["reason"]):
        assert reason["reason_code"] == "waits_for_due_time"
        assert re.search(r"^Its handler asked to be called again at [0-9-]{10} [0-9:]{8} UTC\.$", reason["reason_text"])
        assert reason["hint"] == f"`rmhdag logs {job_id} --node one` may say why."
    # Nobody is there who could run it when it is due: that is what to know first.
    platform.conn.execute("UPDATE dag_workers SET queues = '[\"heavy\"]'")
    assert get(client, f"jobs/{job_id}")["reason"]["reason_code"] == "waits_for_worker"


def test_a_node_in_its_next_attempt_says_why_there_is_one(client: httpx.Client, platform: Platform) -> None:
    job_id = retrying(platform, workflow(one=task(retry=AT_ONCE)))
    text = get(client, f"jobs/{job_id}/nodes/one")["reason"]["reason_text"]
    assert text == "Attempt 1 failed: a.tif names no CRS. Waiting for a free worker (queue light)."
    assert get(client, f"jobs/{job_id}")["reason"]["reason_text"] == text


def test_a_child_that_waits_for_its_next_attempt_says_why(client: httpx.Client, platform: Platform) -> None:
    job_id = retrying(platform, fan(retry=HOURS), {"items": [1]})
    node = get(client, f"jobs/{job_id}/nodes/split__0")
    assert node["reason"]["reason_text"].startswith("Attempt 1 failed: a.tif names no CRS. Attempt 2 is due at 2")
    assert node["error"] == cause("STORAGE_UNAVAILABLE")


def test_a_node_names_the_child_job_that_it_began(client: httpx.Client, platform: Platform) -> None:
    seat = platform.seat()
    inner = WorkflowDefinition(workflow_id="other", name="Other", nodes={"x": task()})
    platform.register(inner)
    job_id = platform.submit(workflow(sub=WorkflowNode(workflow="other"), plain=task()))
    platform.finish(seat)
    query = "SELECT job_id FROM dag_jobs WHERE parent_job_id = %s"
    [child_id] = [row[0] for row in platform.conn.execute(query, [job_id])]
    shown = {node["node_id"]: node["child_job_id"] for node in get(client, f"jobs/{job_id}/overview")["nodes"]}
    assert shown == {"sub": child_id, "plain": None}
    assert get(client, f"jobs/{job_id}/nodes/sub")["child_job_id"] == child_id
