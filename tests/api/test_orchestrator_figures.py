"""What orchestrators know of themselves, from a real one to the API."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rmhdag.models.scopes import Scope
from rmhdag.orchestrator.context import OrchestratorSettings
from rmhdag.orchestrator.process import Orchestrator
from tests.api.serving import Served
from tests.engine.definitions import ONCE, fan
from tests.orchestrator.platform import Platform
from tests.store.waiting import wait_until


@contextmanager
def running(dsn: str) -> Iterator[Orchestrator]:
    orchestrator = Orchestrator(dsn, "dagapp", OrchestratorSettings(heartbeat_seconds=0.2), {})
    thread = threading.Thread(target=orchestrator.run)
    thread.start()
    try:
        yield orchestrator
    finally:
        orchestrator.stop()
        thread.join(20)
        assert not thread.is_alive()


def test_an_orchestrator_tells_what_it_does(api: Served, platform: Platform) -> None:
    client = api.client(Scope.READ, Scope.PLATFORM)
    assert client.get("/api/v1/orchestrator/status").json() == {"orchestrators": []}
    with running(platform.dsn) as orchestrator:
        job_id = platform.submit(fan(), {"items": [1, 2, 3]})
        while platform.job(job_id)["status"] != "completed":
            platform.succeed(*platform.claim())

        def seen() -> dict[str, Any] | None:
            found = client.get("/api/v1/orchestrator/stats").json()["orchestrators"]
            return found[0] if found and found[0]["jobs_ended"] else None

        stats = wait_until(seen)
        assert stats["owner_id"] == orchestrator.owner_id
        assert (stats["jobs_claimed"], stats["jobs_reclaimed"], stats["jobs_ended"]) == (1, 0, 1)
        assert stats["tasks_dispatched"] == 4
        assert stats["results_processed"] >= 4
        assert 0 < stats["cycle_ms_avg"] <= stats["cycle_ms_p99"]
        assert stats["cycles"] > 1
        assert (stats["errors"], stats["last_error"]) == (0, None)

        def watching() -> dict[str, Any] | None:
            (found,) = client.get("/api/v1/orchestrator/status").json()["orchestrators"]
            return found if found["last_orphan_scan_at"] else None

        status = wait_until(watching)
        assert (status["alive"], status["jobs_owned"], status["backlog"]) == (True, 0, 0)
        assert status["phase"] in ("idle", "inbox", "deciding", "writing")
        assert status["started_at"] <= status["last_orphan_scan_at"] <= status["last_heartbeat_at"]


def test_one_is_shown_or_all(api: Served, platform: Platform) -> None:
    seats = [platform.seat(), platform.seat()]
    client = api.client(Scope.READ)
    assert len(client.get("/api/v1/orchestrator/status").json()["orchestrators"]) == 1
    for part in ("status", "stats"):
        shown = client.get(f"/api/v1/orchestrator/{part}?all=true").json()["orchestrators"]
        assert {one["owner_id"] for one in shown} == {seat.me for seat in seats}


def test_errors_are_for_the_platform_s_operators(api: Served, platform: Platform) -> None:
    platform.seat()
    platform.conn.execute("""UPDATE dag_orchestrators SET stats = '{"errors": 1, "last_error": "KeyError: secret"}'""")
    for part in ("status", "stats"):
        path = f"/api/v1/orchestrator/{part}"
        [seen] = api.client(Scope.ADMIN).get(path).json()["orchestrators"]
        assert (seen["errors"], seen["last_error"]) == (None, None)
        [seen] = api.client(Scope.READ, Scope.PLATFORM).get(path).json()["orchestrators"]
        assert (seen["errors"], seen["last_error"]) == (1, "KeyError: secret")


def test_activity_shows_what_ended_and_what_fails(api: Served, platform: Platform) -> None:
    seat = platform.seat()
    done = platform.submit(fan(retry=ONCE), {"items": []})
    platform.finish(seat)
    failed = platform.submit(fan(retry=ONCE), {"items": [1, 2]})
    seat.work()
    platform.fail(*platform.claim())
    platform.finish(seat)
    stalled = json.dumps({"job_id": failed, "silent_seconds": 400})
    platform.conn.execute(
        "INSERT INTO dag_orchestrator_events (owner_id, event_type, source_app, event_data)"
        " VALUES (%s, 'orchestrator_stall', 'test', %s::jsonb)",
        [seat.me, stalled],
    )
    told = api.client(Scope.READ).get("/api/v1/orchestrator/activity").json()
    assert [job["job_id"] for job in told["completions"]] == [done]
    assert [job["job_id"] for job in told["failures"]] == [failed]
    [handler] = told["failing_handlers"]
    assert (handler["handler"], handler["queue"], handler["failures"], handler["last_error"]) == (
        "echo",
        "light",
        2,
        "boom",
    )
    assert told["failing_queues"] == [{"queue": "light", "failures": 2}]
    assert [event["message"] for event in told["events"]] == [f"Nothing moved in job {failed} for 6m 40s."]
    strangers = api.client(Scope.ADMIN, namespace="elsewhere").get("/api/v1/orchestrator/activity?all=true").json()
    assert not any(strangers.values())
