"""A job with its nodes in one answer."""

from __future__ import annotations

from rmhdag.models.scopes import Scope
from tests.api.serving import Served
from tests.engine.definitions import task, workflow
from tests.orchestrator.platform import Platform


def test_nodes_in_their_order_with_reasons_on_request(api: Served, platform: Platform) -> None:
    client = api.client(Scope.READ)
    definition = workflow(a_last=task(), first=task("a_last"))
    job_id = platform.submit(definition)
    waiting = client.get(f"/api/v1/jobs/{job_id}/overview").json()
    assert (waiting["status"], waiting["nodes"], waiting["node_counts"]["total"]) == ("pending", [], 0)
    platform.seat().work()
    plain = client.get(f"/api/v1/jobs/{job_id}/overview").json()
    assert [node["node_id"] for node in plain["nodes"]] == ["first", "a_last"]
    assert [node["reason"] for node in plain["nodes"]] == [None, None]
    told = client.get(f"/api/v1/jobs/{job_id}/overview", params={"reasons": True}).json()
    assert told["nodes"][1]["reason"]["reason_text"].startswith("Waiting for first")
    missing = client.get("/api/v1/jobs/0190a0b0c0d07e0f8a0b0c0d0e0f0a0b/overview")
    assert missing.status_code == 404
