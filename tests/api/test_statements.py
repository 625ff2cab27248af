"""How many statements it takes to read a job that runs: each is a round trip that the caller waits for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from rmhdag.models.scopes import Scope
from rmhdag.workflow.definition import ApprovalNode, FanInNode, FanOutNode, TaskNode, TaskSpec, WorkflowDefinition
from tests.api.serving import ServedHere, served
from tests.api.statements import fewest_statements
from tests.engine.definitions import fan, task, workflow
from tests.orchestrator.platform import Platform


@pytest.fixture
def api(migrated_database: str) -> Iterator[ServedHere]:
    with served(migrated_database, connections=1) as running:
        yield running


@pytest.fixture
def client(api: ServedHere) -> httpx.Client:
    return api.client(Scope.READ)


def running(platform: Platform, definition: WorkflowDefinition, params: dict[str, Any] | None = None) -> str:
    job_id = platform.submit(definition, params)
    platform.seat().work()
    return job_id


def everything() -> WorkflowDefinition:
    """A fan-out, an approval, and a task whose queue only its handler names."""
    return workflow(
        split=FanOutNode(source="{{ inputs.items }}", task=TaskSpec(handler="echo", queue="light")),
        gather=FanInNode(source_node="split"),
        ask=ApprovalNode(message="Release {{ inputs.items | length }} maps?"),
        own=TaskNode(task=TaskSpec(handler="has.own.queue")),
    )


def test_the_count_is_that_of_the_wire(api: ServedHere, client: httpx.Client) -> None:
    assert client.get("/api/v1/jobs").status_code == 200

    def twice() -> None:
        with api.pool.connection() as conn:
            conn.execute("SELECT 1")
            conn.execute("SELECT %s::int", [2])
            conn.execute("")

    assert fewest_statements(api, twice) == 2


@pytest.mark.parametrize(
    ("part", "most"), [("", 3), ("/nodes", 3), ("/graph", 3), ("/overview", 3), ("/progress", 5), ("/timeline", 4)]
)
def test_a_running_job_is_read_in_few_statements(
    api: ServedHere, client: httpx.Client, platform: Platform, part: str, most: int
) -> None:
    """One of them is for the key. It may be fewer: a process remembers how long a workflow's nodes usually take."""
    job_id = running(platform, workflow(first=task(), second=task()))
    path = f"/api/v1/jobs/{job_id}{part}"
    assert client.get(path).status_code == 200
    assert fewest_statements(api, lambda: client.get(path)) <= most


@pytest.mark.parametrize(("part", "most"), [("", 4), ("/overview?reasons=true", 4), ("/graph", 4)])
def test_nor_do_fan_outs_approvals_and_handlers_with_queues_cost_more(
    api: ServedHere, client: httpx.Client, platform: Platform, part: str, most: int
) -> None:
    platform.conn.execute("INSERT INTO dag_handlers (handler, queue, version) VALUES ('has.own.queue', 'own', '1')")
    job_id = running(platform, everything(), {"items": [1, 2, 3]})
    path = f"/api/v1/jobs/{job_id}{part}"
    body = client.get(path).json()
    assert body["status"] == "running"
    assert fewest_statements(api, lambda: client.get(path)) <= most


def test_what_a_job_waits_for_is_read_without_its_owner(client: httpx.Client, platform: Platform) -> None:
    """The rows are enough: of the parameters and outputs that the owner has in memory nothing is needed."""
    platform.conn.execute("INSERT INTO dag_handlers (handler, queue, version) VALUES ('has.own.queue', 'own', '1')")
    job_id = running(platform, everything(), {"items": [1, 2, 3]})
    nodes = client.get(f"/api/v1/jobs/{job_id}/overview?reasons=true").json()["nodes"]
    reasons = {node["node_id"]: (node["reason"] or {}).get("reason_text") for node in nodes}
    assert reasons["ask"] == "Waiting for a person to approve or reject: Release 3 maps?"
    assert reasons["split"] == "0 of 3 children settled, 3 under way."
    assert reasons["own"] == "Waiting for a free worker (queue own)."
    child = client.get(f"/api/v1/jobs/{job_id}/nodes/split__1").json()
    assert child["reason"]["reason_text"] == "Waiting for a free worker (queue light)."
    assert child["reason"]["hint"] == "No worker serves queue light: start one with `rmhdag worker --queue light`."


def test_a_branch_that_was_not_taken_is_not_waited_for(client: httpx.Client, platform: Platform) -> None:
    seat = platform.seat()
    job_id = platform.submit(fan(), {"items": [1, 2]})
    seat.work()
    platform.succeed(*platform.claim(1))
    seat.work()
    reason = client.get(f"/api/v1/jobs/{job_id}").json()["reason"]
    assert reason["node_id"] == "split"
    assert reason["reason_text"] == "1 of 2 children settled, 1 under way."
