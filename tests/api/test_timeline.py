"""The events of a job over HTTP."""

import httpx
import pytest

from rmhdag.models.scopes import Scope
from rmhdag.views.timeline import Summaries
from tests.api.serving import Served
from tests.engine.definitions import AT_ONCE, fan, task, workflow
from tests.orchestrator.platform import Platform


def run_with_a_retry(platform: Platform) -> str:
    job_id = platform.submit(workflow(first=task("last", retry=AT_ONCE), last=task()))
    seat = platform.seat()
    seat.work()
    platform.fail(*platform.claim())
    platform.finish(seat)
    assert platform.job(job_id)["status"] == "completed"
    return job_id


def test_a_timeline_tells_everything_in_sentences(api: Served, platform: Platform) -> None:
    job_id = run_with_a_retry(platform)
    told = api.client(Scope.READ).get(f"/api/v1/jobs/{job_id}/timeline").json()
    types = [event["event_type"] for event in told["events"]]
    assert types == platform.events(job_id)
    assert (types[0], types[-1]) == ("job_created", "job_completed")
    assert told["next_after"] is None
    ids = [event["event_id"] for event in told["events"]]
    assert ids == sorted(ids)
    failed = next(event for event in told["events"] if event["event_type"] == "node_failed")
    assert failed["message"] == "first failed (handler error), and will be tried again: boom."
    assert failed["status"] == "warning"
    summary = told["summary"]
    assert summary["total_events"] == len(types) == sum(summary["event_counts"].values())
    assert summary["event_counts"]["node_failed"] == 1
    assert summary["nodes_with_retries"] == ["first"]
    assert summary["first_event"] == told["events"][0]["timestamp"]
    assert summary["last_event"] == told["events"][-1]["timestamp"]
    assert summary["duration_seconds"] > 0


def pages(client: httpx.Client, path: str, **given: str | int) -> list[dict[str, object]]:
    events: list[dict[str, object]] = []
    after: int | None = 0
    while after is not None:
        page = client.get(path, params={**given, "after": after}).json()
        assert page["summary"]["total_events"] >= len(page["events"])
        events += page["events"]
        after = page["next_after"]
    return events


def test_pages_join_without_a_gap(api: Served, platform: Platform) -> None:
    job_id = run_with_a_retry(platform)
    client = api.client(Scope.READ)
    path = f"/api/v1/jobs/{job_id}/timeline"
    assert pages(client, path, limit=2) == client.get(path).json()["events"]


def test_a_timeline_can_be_narrowed(api: Served, platform: Platform) -> None:
    job_id = run_with_a_retry(platform)
    client = api.client(Scope.READ)
    some = client.get(f"/api/v1/jobs/{job_id}/timeline?event_types=node_failed&event_types=job_completed").json()
    assert [event["event_type"] for event in some["events"]] == ["node_failed", "job_completed"]
    node = client.get(f"/api/v1/jobs/{job_id}/nodes/first/timeline").json()
    assert {event["node_id"] for event in node["events"]} == {"first"}
    assert node["summary"]["total_events"] == len(node["events"])
    assert node["summary"]["nodes_with_retries"] == ["first"]


def test_a_large_summary_counts_what_has_come_since(platform: Platform) -> None:
    summarise = Summaries(remembered_events=1)
    job_id = platform.submit(fan(), {"items": [1, 2, 3]})
    seat = platform.seat()
    seat.work()
    before = summarise(platform.conn, job_id)
    assert before.total_events == len(platform.events(job_id))
    platform.finish(seat)
    after = summarise(platform.conn, job_id)
    assert after.total_events == len(platform.events(job_id)) > before.total_events
    assert after.first_event == before.first_event


@pytest.mark.parametrize("path", ["timeline", "nodes/first/timeline", "progress", "nodes/first/progress"])
def test_jobs_of_others_are_unknown(api: Served, platform: Platform, path: str) -> None:
    job_id = run_with_a_retry(platform)
    stranger = api.client(Scope.ADMIN, namespace="elsewhere")
    theirs = stranger.get(f"/api/v1/jobs/{job_id}/{path}")
    nobodys = stranger.get(f"/api/v1/jobs/{'0' * 32}/{path}")
    assert theirs.status_code == nobodys.status_code == 404
    assert theirs.text.replace(job_id, "X") == nobodys.text.replace("0" * 32, "X")


@pytest.mark.parametrize("query", ["limit=0", "limit=1001", "after=-1", "after=9223372036854775808", "event_types=x"])
def test_bad_questions_are_refused(api: Served, query: str) -> None:
    answer = api.client(Scope.READ).get(f"/api/v1/jobs/{'0' * 32}/timeline?{query}")
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"].startswith(f"/query/{query.partition('=')[0]}")


def test_an_unknown_node_is_told_so(api: Served, platform: Platform) -> None:
    job_id = run_with_a_retry(platform)
    answer = api.client(Scope.READ).get(f"/api/v1/jobs/{job_id}/nodes/third/timeline")
    assert answer.status_code == 404
    assert "third" in answer.json()["detail"]
