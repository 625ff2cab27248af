"""Metrics over HTTP, and for Prometheus."""

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from rmhdag.models.scopes import Scope
from rmhdag.views import exposition
from tests.api.promlint import lint
from tests.api.serving import Served
from tests.engine.definitions import ONCE, fan, task, workflow
from tests.orchestrator.platform import Platform


def run_some(platform: Platform) -> None:
    """Two jobs complete, one fails, one waits."""
    seat = platform.seat()
    definition = fan(retry=ONCE)
    for _ in range(2):
        platform.submit(definition, {"items": [1, 2, 3]})
        platform.finish(seat)
    platform.submit(definition, {"items": [1, 2]})
    seat.work()
    platform.fail(*platform.claim(1))
    platform.finish(seat)
    platform.submit(definition, {"items": []})


def test_workflows_and_their_nodes(api: Served, platform: Platform) -> None:
    run_some(platform)
    client = api.client(Scope.READ)
    told = client.get("/api/v1/metrics/workflows").json()
    assert told["period"]["since"] < told["period"]["until"]
    [one] = told["workflows"]
    assert {name: one[name] for name in ("workflow_id", "total_jobs", "completed", "failed", "cancelled")} == {
        "workflow_id": "under_test",
        "total_jobs": 4,
        "completed": 2,
        "failed": 1,
        "cancelled": 0,
    }
    assert one["success_rate"] == 66.67
    assert 0 < one["p50_duration_seconds"] <= one["p95_duration_seconds"]
    assert {"node_id": "split", "count": 1, "error": "boom"} in one["common_failures"]
    nodes = {node["node_id"]: node for node in client.get("/api/v1/metrics/workflows/under_test/nodes").json()["nodes"]}
    assert nodes.keys() == {"split", "join", "after"}
    split = nodes["split"]
    assert (split["total_executions"], split["completed"], split["failed"]) == (8, 7, 1)
    assert nodes["after"]["total_executions"] == 2
    assert nodes["join"]["success_rate"] == 66.67


def test_failures_and_throughput(api: Served, platform: Platform) -> None:
    run_some(platform)
    client = api.client(Scope.READ)
    told = client.get("/api/v1/metrics/failures?limit=1").json()
    assert told["total_failures"] == 2
    assert told["unique_errors"] == 2
    assert len(told["failures"]) == 1
    for minutes in (5, 60):
        shown = client.get(f"/api/v1/metrics/throughput?hours=2&bucket_minutes={minutes}").json()
        assert sum(bucket["jobs_completed"] for bucket in shown["buckets"]) == 2
        assert len(shown["buckets"]) in (120 // minutes + 1, 120 // minutes + 2)
        assert {bucket["avg_duration_seconds"] for bucket in shown["buckets"] if not bucket["jobs_completed"]} == {None}


def test_others_see_nothing_of_it(api: Served, platform: Platform) -> None:
    run_some(platform)
    stranger = api.client(Scope.ADMIN, namespace="elsewhere")
    assert stranger.get("/api/v1/metrics/workflows").json()["workflows"] == []
    assert stranger.get("/api/v1/metrics/failures").json()["total_failures"] == 0
    assert stranger.get("/api/v1/metrics/workflows/under_test/nodes").status_code == 404
    assert sum(one["jobs_completed"] for one in stranger.get("/api/v1/metrics/throughput").json()["buckets"]) == 0
    assert samples(stranger)["rmhdag_jobs", "pending"] == 0


@pytest.mark.parametrize(
    ("path", "wrong"),
    [
        ("workflows?days=0", "days"),
        ("workflows?days=91", "days"),
        ("workflows?workflow_id=%25", "workflow_id"),
        ("failures?limit=101", "limit"),
        ("throughput?hours=169", "hours"),
        ("throughput?bucket_minutes=0", "bucket_minutes"),
    ],
)
def test_bad_questions_are_refused(api: Served, path: str, wrong: str) -> None:
    answer = api.client(Scope.READ).get(f"/api/v1/metrics/{path}")
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == f"/query/{wrong}"


def test_a_workflow_that_never_ran_has_no_nodes_yet(api: Served, platform: Platform) -> None:
    platform.register(workflow(only=task()))
    client = api.client(Scope.READ)
    assert client.get("/api/v1/metrics/workflows/under_test/nodes").json()["nodes"] == []
    assert client.get("/api/v1/metrics/workflows/unheard_of/nodes").status_code == 404


def samples(client: httpx.Client) -> dict[tuple[str, str], float]:
    """By name and the last label."""
    answer = client.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    return {
        (sample.name, list(sample.labels.values())[-1] if sample.labels else ""): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def test_prometheus_reads_it(api: Served, platform: Platform) -> None:
    run_some(platform)
    found = samples(api.client(Scope.READ, Scope.PLATFORM))
    assert found["rmhdag_jobs", "pending"] == 1
    assert found["rmhdag_jobs_ended_1d", "completed"] == 2
    assert found["rmhdag_jobs_ended_1d", "failed"] == 1
    assert found["rmhdag_jobs_completed_10m", ""] == 2
    assert found["rmhdag_job_duration_p95_seconds", ""] > 0
    assert found["rmhdag_orchestrators", "alive"] == 1
    assert found["rmhdag_workers", "alive"] == 1
    assert found["rmhdag_database_connections", ""] >= 1
    assert found["rmhdag_backlog_rows", "outbox"] == 0
    assert found["rmhdag_backlog_rows", "callbacks"] == 0
    assert found["rmhdag_backlog_rows", "service_calls"] == found["rmhdag_backlog_rows", "file_deletions"] == 0


def test_promtool_would_find_nothing_wrong(api: Served, platform: Platform) -> None:
    run_some(platform)
    client = api.client(Scope.READ, Scope.PLATFORM)
    client.get("/nowhere")
    text = client.get("/metrics").text
    assert 'rmhdag_api_requests_total{method="GET"' in text
    assert lint(text) == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('# HELP a_seconds A\n# TYPE a_seconds gauge\na_seconds{quantile="0.5"} 1\n', "label quantile"),
        ("# TYPE a gauge\na 1\n", "no help"),
        ("# HELP a A\na 1\n", "no type"),
        ("# HELP a A\n# TYPE a counter\na 1\n", "_total"),
        ("# HELP a_minutes A\n# TYPE a_minutes gauge\na_minutes 1\n", "base unit"),
        ("# HELP a_ms A\n# TYPE a_ms gauge\na_ms 1\n", "abbreviated"),
    ],
)
def test_the_rules_of_promtool_find_what_is_wrong(text: str, problem: str) -> None:
    assert any(problem in line for line in lint(text))


def test_the_busiest_workflows_have_their_names_and_the_others_are_one(
    api: Served, platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exposition, "MOST_WORKFLOWS", 1)
    run_some(platform)
    for name in ("rare", "rarer"):
        platform.submit(workflow(only=task()).model_copy(update={"workflow_id": name}))
    platform.finish(platform.seats[0])
    text = api.client(Scope.READ, Scope.PLATFORM).get("/metrics").text
    assert 'rmhdag_workflow_jobs_ended_1d{status="failed",workflow="under_test"} 1.0' in text
    assert 'rmhdag_workflow_jobs_ended_1d{status="completed",workflow="(others)"} 2.0' in text
    assert "rare" not in text
    assert 'rmhdag_workflow_job_duration_p95_seconds{workflow="under_test"}' in text


def test_requests_are_counted_by_route_and_never_by_what_callers_send(api: Served) -> None:
    client = api.client(Scope.READ, Scope.PLATFORM)
    for number in range(3):
        assert client.get(f"/api/v1/jobs/{number:032}/timeline").status_code == 404
        assert client.get(f"/nowhere/{number}").status_code == 404
    assert client.request("BREW", "/livez").status_code == 405
    text = client.get("/metrics").text
    labels = 'method="GET",route="/api/v1/jobs/{job_id}/timeline",status="404"'
    assert f"rmhdag_api_requests_total{{{labels}}} 3.0" in text
    assert 'rmhdag_api_requests_total{method="GET",route="unknown",status="404"} 3.0' in text
    assert 'method="other"' in text
    assert "nowhere" not in text
    assert 'rmhdag_api_request_seconds_count{method="GET",route="/api/v1/jobs/{job_id}/timeline"} 3.0' in text


def test_a_scrape_is_a_second_old_at_most_and_asks_the_database_once_for_it(api: Served, platform: Platform) -> None:
    client = api.client(Scope.READ)
    first = samples(client)
    platform.submit(workflow(only=task()))
    assert samples(client)["rmhdag_jobs", "pending"] in (first["rmhdag_jobs", "pending"], 1)
    # Another namespace's answer is never taken for ours.
    assert samples(api.client(Scope.READ, namespace="elsewhere"))["rmhdag_jobs", "pending"] == 0
