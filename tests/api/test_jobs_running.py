"""Jobs that move: shown, cancelled, retried, rerun and decided over HTTP while real processes run them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from rmhdag.embedded import EmbeddedPostgres
from rmhdag.models.scopes import Scope
from rmhdag.store.migration import apply
from tests.api.running import Running, scratch
from tests.api.serving import served
from tests.api.test_foundation import problem
from tests.conftest import required_binaries
from tests.faults.processes import Cluster


@pytest.fixture(scope="module")
def up() -> Iterator[Running]:
    """One kind of server: what differs between them is SQL, which is tried on both beside the store."""
    folder = scratch()
    with EmbeddedPostgres.temporary(binaries=required_binaries("wheel18")) as server:
        dsn = server.create_database("running")
        apply(dsn)
        cluster = Cluster(dsn, folder)
        try:
            cluster.orchestrator()
            cluster.worker()
            with served(dsn, orphan_seconds=1.5) as api:
                yield Running(api, cluster)
        finally:
            cluster.close()
    shutil.rmtree(folder)


def test_a_job_is_shown_from_its_start_to_its_result(up: Running) -> None:
    job = up.end_of(up.submit("flaky", fails=False))
    assert job["status"] == "completed"
    assert job["node_counts"] == {
        "total": 8,
        "completed": 7,
        "skipped": 1,
        **dict.fromkeys(("pending", "ready", "dispatched", "running", "failed", "cancelled"), 0),
    }
    assert job["result_data"]["fine"]["message"].startswith("Hello")
    assert job["reason"] is None
    assert job["duration_seconds"] > 0


def test_nodes_come_with_their_children_only_on_request(up: Running) -> None:
    job_id = up.submit("flaky", numbers=list(range(7)))
    up.end_of(job_id)
    nodes = {node["node_id"]: node for node in up.get(f"jobs/{job_id}/nodes")["nodes"]}
    assert set(nodes) == {"split", "gather", "judge", "broken", "fine"}
    assert (nodes["split"]["type"], nodes["split"]["children_total"]) == ("fan_out", 7)
    assert (nodes["broken"]["handler"], nodes["broken"]["queue"]) == ("fail", "light")
    assert nodes["broken"]["error_message"] == "RuntimeError: no luck today"
    assert len(up.get(f"jobs/{job_id}/nodes", children=True)["nodes"]) == 12
    failed = up.get(f"jobs/{job_id}/nodes", status=["failed", "skipped"])["nodes"]
    assert [node["node_id"] for node in failed] == ["broken", "fine"]


@pytest.mark.parametrize("query", [{}, {"children": True}, {"parent": "split"}])
def test_pages_of_nodes_meet_each_once(up: Running, query: dict[str, Any]) -> None:
    job_id = up.submit("flaky", numbers=list(range(12)))
    up.end_of(job_id)
    whole = [node["node_id"] for node in up.get(f"jobs/{job_id}/nodes", **query)["nodes"]]
    seen: list[str] = []
    cursor = None
    while True:
        page = up.get(f"jobs/{job_id}/nodes", limit=2, **query, **({} if cursor is None else {"cursor": cursor}))
        seen += [node["node_id"] for node in page["nodes"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert seen == whole
    assert len(seen) == len(set(seen)) == {0: 5, 1: 17 if "children" in query else 12}[len(query)]
    if "parent" in query:
        assert seen == [f"split__{index}" for index in range(12)]


def test_one_node_with_what_it_was_given_and_made(up: Running) -> None:
    job_id = up.submit("flaky")
    up.end_of(job_id)
    child = up.get(f"jobs/{job_id}/nodes/split__1")
    assert (child["input_params"], child["output"]) == ({"value": 2}, {"echoed_params": {"value": 2}})
    assert (child["type"], child["handler"], child["parent_node_id"]) == ("task", "echo", "split")
    split = up.get(f"jobs/{job_id}/nodes/split")
    assert (split["children"]["total"], split["children"]["completed"]) == (3, 3)
    assert up.get(f"jobs/{job_id}/nodes/broken")["error_kind"] == "handler_error"
    found = problem(up.client.get(f"/api/v1/jobs/{job_id}/nodes/spilt"), 404, "not_found")
    assert found["remedy"] == "Did you mean `split`?"


def test_what_a_job_waits_for_is_said(up: Running) -> None:
    job_id = up.submit("release")
    up.wait_for_node(job_id, "ask", "running")
    reason = up.get(f"jobs/{job_id}")["reason"]
    assert reason["reason_code"] == "waits_for_approval"
    assert reason["reason_text"].endswith("(approvers: data-stewards, ada) to approve or reject: Release 2 maps?")
    assert reason["hint"] == f"`rmhdag decide {job_id} ask approve`, or `reject`."
    asked = [event for event in up.get(f"jobs/{job_id}/timeline")["events"] if event["event_type"] == "node_running"]
    assert asked[0]["data"] == {
        "waits_for": "approval",
        "message": "Release 2 maps?",
        "approvers": ["data-stewards", "ada"],
    }
    assert up.get(f"jobs/{job_id}/nodes/last")["reason"]["reason_code"] == "waits_for_dependencies"
    lonely = up.submit("lonely")
    up.wait_for_node(lonely, "only", "dispatched")
    reason = up.get(f"jobs/{lonely}")["reason"]
    assert (reason["node_id"], reason["reason_code"]) == ("only", "waits_for_worker")
    assert "No worker serves queue heavy" in reason["hint"]
    for waiting in (job_id, lonely):
        assert up.post(f"jobs/{waiting}/cancel").status_code == 200


def test_an_approval_is_decided_once(up: Running) -> None:
    job_id = up.submit("release")
    up.wait_for_node(job_id, "ask", "running")
    decided = up.post(f"jobs/{job_id}/nodes/ask/decide", {"decision": "approve", "reason": "fine"})
    assert (decided.status_code, decided.json()["outcome"]) == (200, "applied")
    assert up.end_of(job_id)["status"] == "completed"
    problem(up.post(f"jobs/{job_id}/nodes/ask/decide", {"decision": "reject"}), 409, "refused")
    problem(up.post(f"jobs/{job_id}/nodes/ask/decide", {"decision": "perhaps"}), 422, "invalid_request")
    problem(up.post(f"jobs/{job_id}/nodes/nobody/decide", {"decision": "reject"}), 404, "not_found")


def test_a_rejection_fails_the_job(up: Running) -> None:
    job_id = up.submit("release")
    up.wait_for_node(job_id, "ask", "running")
    assert up.post(f"jobs/{job_id}/nodes/ask/decide", {"decision": "reject", "reason": "clouds"}).status_code == 200
    job = up.end_of(job_id)
    assert job["status"] == "failed"
    assert "clouds" in job["error_message"]


def test_a_job_is_cancelled_once(up: Running) -> None:
    job_id = up.submit("slow")
    up.wait_for_node(job_id, "nap", "running")
    answer = up.post(f"jobs/{job_id}/cancel", {"reason": "wrong area"})
    assert (answer.status_code, answer.json()["outcome"]) == (200, "applied")
    # A caller that asks twice has what it wanted.
    assert up.post(f"jobs/{job_id}/cancel").json()["outcome"] == "applied"
    assert up.end_of(job_id)["status"] == "cancelled"
    late = up.post(f"jobs/{job_id}/cancel")
    assert (late.status_code, late.json()["outcome"]) == (200, "applied")
    assert late.json()["reason"] == "the job is already cancelled"
    again = up.post(f"jobs/{job_id}/retry")
    assert again.json()["again"] == ["nap", "last"]
    # Its owner answers at once; while it is being claimed, it has none.
    up.wait_for_node(again.json()["job_id"], "nap", "running")
    assert up.post(f"jobs/{again.json()['job_id']}/cancel").status_code == 200


def test_a_node_is_tried_at_once_that_would_wait_for_an_hour(up: Running) -> None:
    job_id = up.submit("patient")
    up.wait(
        lambda: up.get(f"jobs/{job_id}/nodes")["nodes"][:1] and up.get(f"jobs/{job_id}/nodes/broken")["attempt"] == 2
    )
    assert up.get(f"jobs/{job_id}")["reason"]["reason_code"] == "waits_for_retry"
    assert up.post(f"jobs/{job_id}/nodes/broken/retry").status_code == 200
    assert up.end_of(job_id)["status"] == "failed"
    problem(up.post(f"jobs/{job_id}/nodes/broken/retry"), 409, "refused")


def test_a_retry_runs_again_what_failed(up: Running) -> None:
    job_id = up.submit("flaky")
    up.end_of(job_id)
    preview = up.post(f"jobs/{job_id}/retry", {"dry_run": True})
    assert preview.status_code == 200
    assert (preview.json()["job_id"], preview.json()["again"]) == (None, ["broken", "fine"])
    made = up.post(f"jobs/{job_id}/retry", {"idempotency_key": "once more"})
    assert made.status_code == 201
    repeated = up.post(f"jobs/{job_id}/retry", {"idempotency_key": "once more"})
    assert (repeated.status_code, repeated.headers["idempotency-replayed"]) == (200, "true")
    assert repeated.json()["job_id"] == made.json()["job_id"]
    again = up.end_of(made.json()["job_id"])
    assert (again["status"], again["rerun_of"], again["submitted_by"]) == ("failed", job_id, "ada")
    assert up.get(f"jobs/{job_id}")["reruns"] == [{"job_id": again["job_id"], "status": "failed"}]
    assert [job["job_id"] for job in up.get("jobs", root_job_id=job_id)["jobs"]] == [again["job_id"], job_id]
    assert [job["job_id"] for job in up.get("jobs", rerun_of=job_id)["jobs"]] == [again["job_id"]]
    states = up.get(f"jobs/{again['job_id']}/graph")["states"]
    assert (states["split"]["taken_over"], states["broken"]["taken_over"]) == (True, False)


def test_a_rerun_with_other_parameters_mends_the_job(up: Running) -> None:
    job_id = up.submit("flaky")
    up.end_of(job_id)
    made = up.post(f"jobs/{job_id}/rerun", {"input_params": {"fails": False}})
    assert (made.status_code, made.json()["reused"]) == (201, ["split", "gather"])
    mended = up.end_of(made.json()["job_id"])
    assert (mended["status"], mended["input_params"]["fails"]) == ("completed", False)
    problem(up.post(f"jobs/{mended['job_id']}/retry"), 409, "nothing_to_rerun")
    assert up.post(f"jobs/{mended['job_id']}/rerun", {"dry_run": True, "everything": True}).json()["reused"] == []
    behind = up.post(f"jobs/{mended['job_id']}/rerun", {"dry_run": True, "from_nodes": ["judge"]}).json()
    assert behind["again"] == ["judge", "broken", "fine"]
    wrong = up.post(f"jobs/{job_id}/rerun", {"input_params": {"fails": "yes"}})
    assert problem(wrong, 422, "invalid_parameters")["errors"][0]["pointer"] == "/input_params/fails"  # type: ignore[index]
    problem(up.post(f"jobs/{job_id}/rerun", {"from_nodes": ["nobody"]}), 422, "unknown_node")
    problem(up.post(f"jobs/{job_id}/rerun", {"from_nodes": ["judge"], "everything": True}), 422, "invalid_request")


def test_a_running_job_is_not_rerun(up: Running) -> None:
    job_id = up.submit("release")
    problem(up.post(f"jobs/{job_id}/retry"), 409, "job_not_finished")
    problem(up.post(f"jobs/{job_id}/rerun", {"everything": True}), 409, "job_not_finished")
    up.wait_for_node(job_id, "ask", "running")
    assert up.post(f"jobs/{job_id}/cancel").status_code == 200


def test_a_graph_has_fan_outs_as_counts(up: Running) -> None:
    small, large = up.submit("flaky", numbers=[1]), up.submit("flaky", numbers=list(range(300)))
    sizes = {}
    for job_id in (small, large):
        up.end_of(job_id)
        answer = up.client.get(f"/api/v1/jobs/{job_id}/graph")
        graph = answer.json()
        sizes[job_id] = len(answer.content)
        assert {"split", "gather", "judge", "broken", "fine"} <= {node["id"] for node in graph["structure"]["nodes"]}
    assert graph["states"]["split"]["children"]["completed"] == 300
    assert abs(sizes[large] - sizes[small]) < 100
    again = up.client.get(f"/api/v1/jobs/{large}/graph", headers={"If-None-Match": answer.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert up.get(f"jobs/{large}/graph", structure=False)["structure"] is None
    first = up.client.get(f"/api/v1/jobs/{small}/graph/structure")
    assert first.json() == graph["structure"]
    other = up.client.get(f"/api/v1/jobs/{large}/graph/structure", headers={"If-None-Match": first.headers["etag"]})
    assert other.status_code == 304


def test_logs_come_in_pages_or_as_their_end(up: Running) -> None:
    job_id = up.submit("flaky", numbers=list(range(5)), fails=False)
    up.end_of(job_id)
    whole = up.wait(lambda: ((page := up.get(f"jobs/{job_id}/logs"))["chunks"] and page) or None)
    assert {chunk["task_id"].startswith(job_id) for chunk in whole["chunks"]} == {True}
    seen, cursor = [], None
    while True:
        page = up.get(f"jobs/{job_id}/logs", limit=1, **({} if cursor is None else {"cursor": cursor}))
        seen += page["chunks"]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert seen == whole["chunks"]
    assert up.get(f"jobs/{job_id}/logs", cursor=page["last_cursor"])["chunks"] == []
    tail = up.get(f"jobs/{job_id}/logs", tail=1)["chunks"]
    assert "".join(chunk["content"] for chunk in tail).splitlines() == whole["chunks"][-1]["content"].splitlines()[-1:]
    query = {"tail": 1, "cursor": page["last_cursor"]}
    problem(up.client.get(f"/api/v1/jobs/{job_id}/logs", params=query), 422, "tail_or_cursor")


def test_nodes_and_tasks_across_jobs(up: Running) -> None:
    done = up.submit("flaky", numbers=[4])
    up.end_of(done)
    busy = up.submit("slow")
    up.wait_for_node(busy, "nap", "running")
    running = up.get("nodes", status="running", handler="sleep")["nodes"]
    assert {node["node_id"] for node in running} == {"nap"}
    assert running[0]["job_id"] == busy
    broken = up.get("nodes", status="failed", handler="fail", queue="light")["nodes"]
    assert done in {node["job_id"] for node in broken}
    assert up.get("nodes", queue="nowhere") == {"nodes": [], "next_cursor": None}
    tasks = up.get("tasks", status="running")["tasks"]
    assert {(task["handler"], task["queue"], task["status"]) for task in tasks} == {("sleep", "light", "running")}
    assert tasks[0]["job_id"] == busy
    of_job = up.get("tasks", job_id=done)["tasks"]
    assert sorted((task["node_id"], task["handler"], task["status"]) for task in of_job) == [
        ("broken", "fail", "failed"),
        ("split__0", "echo", "completed"),
    ]
    failed = up.get("tasks", status="failed", job_id=done)["tasks"]
    assert (failed[0]["error_kind"], failed[0]["error_message"]) == ("handler_error", "RuntimeError: no luck today")
    assert up.post(f"jobs/{busy}/cancel").status_code == 200


def key_of(one: dict[str, Any]) -> tuple[Any, ...]:
    """Of a node, or of one lease of a task."""
    return one["job_id"], one["node_id"], one["task_id"], one.get("lease_epoch")


@pytest.mark.parametrize("path", ["nodes", "tasks"])
def test_pages_across_jobs_meet_each_once(up: Running, path: str) -> None:
    for number in range(4):
        up.end_of(up.submit("flaky", numbers=[number, number]))
    whole = up.get(path, limit=500)[path]
    seen: list[Any] = []
    cursor = None
    while True:
        page = up.get(path, limit=3, **({} if cursor is None else {"cursor": cursor}))
        seen += page[path]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    keys = [key_of(one) for one in seen]
    assert len(keys) == len(set(keys)) >= 12
    assert keys[:500] == [key_of(one) for one in whole]


COMMANDS = ["cancel", "retry", "rerun", "nodes/split/retry", "nodes/ask/decide"]


@pytest.mark.parametrize("what", COMMANDS)
def test_commands_need_their_scope_and_their_namespace(up: Running, what: str) -> None:
    job_id = up.submit("release")
    body = {"decision": "approve"} if what.endswith("decide") else None
    reader = up.api.client(Scope.READ, Scope.SUBMIT)
    problem(reader.post(f"/api/v1/jobs/{job_id}/{what}", json=body), 403, "scope_missing")
    stranger = up.api.client(Scope.OPERATE, namespace="north")
    theirs = stranger.post(f"/api/v1/jobs/{job_id}/{what}", json=body)
    unknown = stranger.post(f"/api/v1/jobs/{'0' * 32}/{what}", json=body)
    assert theirs.status_code == unknown.status_code == 404
    assert theirs.text.replace(job_id, "0" * 32) == unknown.text
    assert up.get(f"jobs/{job_id}")["status"] in ("pending", "running")
    up.wait_for_node(job_id, "ask", "running")
    assert up.post(f"jobs/{job_id}/cancel").status_code == 200


VIEWS = ["", "/nodes", "/nodes/ask", "/graph", "/graph/structure", "/logs", "/nodes/ask/logs"]


def test_another_namespaces_job_looks_like_an_unknown_one(up: Running) -> None:
    job_id = up.submit("release")
    up.wait_for_node(job_id, "ask", "running")
    stranger = up.api.client(Scope.READ, namespace="north")
    for view in VIEWS:
        theirs = stranger.get(f"/api/v1/jobs/{job_id}{view}")
        unknown = stranger.get(f"/api/v1/jobs/{'0' * 32}{view}")
        assert theirs.status_code == unknown.status_code == 404, view
        assert theirs.text.replace(job_id, "0" * 32) == unknown.text
        assert up.client.get(f"/api/v1/jobs/{job_id}{view}").status_code == 200, view
    for path in ("jobs", "nodes", "tasks"):
        assert stranger.get(f"/api/v1/{path}").json()[path] == []
        assert (
            stranger.get(f"/api/v1/{path}?job_id={job_id}" if path == "tasks" else f"/api/v1/{path}").json()[path] == []
        )
    assert stranger.get(f"/api/v1/jobs?q={job_id}").json()["jobs"] == []
    assert up.post(f"jobs/{job_id}/cancel").status_code == 200


def test_logs_from_a_moment_on(up: Running) -> None:
    job_id = up.submit("flaky")
    up.end_of(job_id)
    for path in (f"jobs/{job_id}/logs", f"jobs/{job_id}/nodes/broken/logs"):
        chunks = up.get(path)["chunks"]
        assert chunks
        assert up.get(path, since=chunks[0]["created_at"])["chunks"] == chunks
        assert up.get(path, since="2100-01-01T00:00:00Z")["chunks"] == []


def test_large_outputs_are_read_with_the_job_that_made_them(up: Running) -> None:
    text = "x" * 1_500_000
    ended = up.end_of(up.submit("large", text=text, others=["y" * 70_000]))
    other = up.end_of(up.submit("large", text="small"))
    digest = ended["result_data"]["first"]["rmhdag:payload"]["sha256"]
    reader = up.api.client(Scope.READ)
    found = reader.get(f"/api/v1/jobs/{ended['job_id']}/payloads/{digest}")
    assert (found.status_code, found.headers["content-type"]) == (200, "application/json")
    assert found.json() == {"echoed_params": {"text": text}}
    child = up.get(f"jobs/{ended['job_id']}/nodes/split__0")["output"]["rmhdag:payload"]["sha256"]
    assert reader.get(f"/api/v1/jobs/{ended['job_id']}/payloads/{child}").status_code == 200
    assert reader.get(f"/api/v1/jobs/{other['job_id']}/payloads/{digest}").status_code == 404
    assert reader.get(f"/api/v1/jobs/{ended['job_id']}/payloads/{'0' * 64}").status_code == 404
