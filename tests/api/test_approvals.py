"""What waits for a person: listed while it waits, in pages, for its namespace only, cheap however much has ended."""

from __future__ import annotations

from typing import Any

import pytest

from rmhdag.models.scopes import Scope
from rmhdag.services import commands
from rmhdag.store import poison
from rmhdag.views import approvals, reviews
from rmhdag.workflow.definition import ApprovalNode, WorkflowDefinition
from tests.api.serving import ServedHere
from tests.engine.definitions import task, workflow
from tests.orchestrator.platform import Platform, Seat
from tests.store.test_hot_plans import Hot, explain, prepare, scanned
from tests.store.waiting import wait_until

FINISHED = """
INSERT INTO dag_jobs (job_id, workflow_id, workflow_version, workflow_hash, fairness_key, submitted_by, root_job_id,
    status, started_at, completed_at)
  SELECT 'j' || n, 'w', 1, 'h', 'me', 'me', 'j' || n, 'completed', now(), now() FROM generate_series(1, 50000) n;
INSERT INTO dag_node_states (job_id, node_id, status, task_id, completed_at)
  SELECT 'j' || n % 50000, 'n' || n, 'completed', 't' || n, now() FROM generate_series(1, 200000) n;
INSERT INTO dag_waiting_approvals (job_id, node_id, requested_at)
  SELECT 'j' || n, 'ask', now() - n * interval '1 minute' FROM generate_series(1, 5000) n;
"""


def asking(**more: Any) -> WorkflowDefinition:
    return workflow(ask=ApprovalNode(message="Release {{ 1 + 1 }} maps?", next=("after",), **more), after=task())


def waiting(api: ServedHere, **query: Any) -> list[dict[str, Any]]:
    answer = api.client(Scope.READ).get("/api/v1/approvals", params=query)
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["approvals"]
    return found


def test_an_approval_is_listed_until_somebody_decides(api: ServedHere, platform: Platform) -> None:
    seat = platform.seat()
    job_id = platform.submit(asking(approvers=("data-stewards", "otto"), timeout_seconds=600))
    seat.work()
    (found,) = waiting(api)
    assert (found["kind"], found["job_id"], found["node_id"]) == ("job_node", job_id, "ask")
    assert (found["message"], found["approvers"]) == ("Release 2 maps?", ["data-stewards", "otto"])
    assert found["waiting_since"] < found["deadline_at"]
    assert found["command"] == f"rmhdag decide {job_id} ask approve"
    decided = api.client(Scope.OPERATE, name="otto").post(found["decide_path"], json={"decision": "approve"})
    assert decided.status_code in (200, 202), decided.text
    seat.work()
    assert waiting(api) == []


@pytest.mark.parametrize("how", ["cancelled", "timed out", "cannot be handled"])
def test_nobody_is_asked_about_a_job_that_has_ended(api: ServedHere, platform: Platform, how: str) -> None:
    seat = platform.seat()
    job_id = platform.submit(asking(timeout_seconds=1 if how == "timed out" else 600))
    seat.work()
    if how == "cancelled":
        commands.cancel_job(platform.conn, job_id, issued_by="bob", answer_seconds=0)
    elif how == "cannot be handled":
        assert len(waiting(api)) == 1
        assert poison.bury_job(platform.conn, seat.me, job_id, 1, "default", "it makes no sense")

    def has_gone() -> bool:
        seat.work()
        return not waiting(api)

    wait_until(has_gone, 20)


def test_an_approval_that_is_older_than_the_list_is_listed_by_its_next_owner(
    api: ServedHere, platform: Platform
) -> None:
    job_id = platform.submit(asking())
    before = platform.seat()
    before.work()
    platform.conn.execute("DELETE FROM dag_waiting_approvals")
    platform.conn.execute("UPDATE dag_jobs SET owner_id = NULL")
    platform.seat().work()
    assert [(one["job_id"], one["message"]) for one in waiting(api)] == [(job_id, "Release 2 maps?")]


def test_pages_go_from_the_longest_wait_to_the_shortest(api: ServedHere, platform: Platform) -> None:
    seat = platform.seat()
    jobs = []
    for _ in range(5):
        jobs.append(platform.submit(asking()))
        seat.work()
    client = api.client(Scope.READ)
    found: list[str] = []
    cursor = None
    while True:
        query = {"limit": 2} | ({} if cursor is None else {"cursor": cursor})
        page = client.get("/api/v1/approvals", params=query).json()
        assert len(page["approvals"]) <= 2
        found += [one["job_id"] for one in page["approvals"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert found == jobs
    assert client.get("/api/v1/approvals", params={"cursor": "bm9uZQ"}).status_code == 400


def test_other_namespaces_see_nothing_of_it(api: ServedHere, platform: Platform) -> None:
    seat: Seat = platform.seat()
    platform.submit(asking())
    seat.work()
    other = api.client(Scope.ADMIN, namespace="other").get("/api/v1/approvals")
    assert other.json() == {"approvals": [], "next_cursor": None}


def test_the_list_reads_none_of_what_has_ended(platform: Platform) -> None:
    platform.conn.execute(FINISHED.encode())
    platform.conn.execute("SET plan_cache_mode = force_generic_plan")
    first = {"namespace": "default", "limit": 50, **approvals.FIRST._asdict()}
    hot = Hot(reviews.SQL, "waiting_nodes", first | {"requested_at": first["requested_at"].isoformat()}, rows=50)
    for moment in ("not analysed", "analysed"):
        prepare(platform.conn, hot)
        plan = explain(platform.conn, hot)
        assert not scanned(plan) & {"dag_jobs", "dag_node_states"}, f"{moment}: {plan}"
        pages = plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
        assert pages <= 10 * hot.rows, f"{moment}: {pages} pages"
        platform.conn.execute("DEALLOCATE waiting_nodes")
        platform.conn.execute("ANALYZE")
