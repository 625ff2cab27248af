"""What a status says beside its state: words, the last change, missing parts, and how long it can be seen."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import httpx

from rmhdag.models.events import ErrorKind
from rmhdag.workflow import load
from tests.gateway.orders import order
from tests.gateway.serving import Served
from tests.orchestrator.platform import Platform

TOLERANT = """
workflow_id: tolerant
nodes:
  each:
    type: fan_out
    source: [1, 2, 3]
    task: {handler: echo, queue: light, retry: {max_attempts: 1}}
    next: all
  all: {type: fan_in, aggregation: collect, tolerate: {count: 2}, next: END}
"""


def place(client: httpx.Client, workflow_id: str) -> str:
    answer = client.post("/platform/submit", json={"workflow_id": workflow_id})
    assert answer.status_code == 202, answer.text
    return str(answer.json()["request_id"])


def status(gateway: Served, client: httpx.Client, request_id: str) -> Any:
    """What was counted may be a second old."""
    gateway.gateway.reads._progress.clear()
    return client.get(f"/platform/status/{request_id}").json()


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


def test_words_and_times_follow_the_work(gateway: Served, platform: Platform, chain_of_four: str) -> None:
    client, seat = gateway.client(), platform.seat()
    request_id = place(client, chain_of_four)
    first = status(gateway, client, request_id)
    assert first["progress"]["message"] == "waits to be started"
    assert first["expires_at"] is None
    assert at(first["updated_at"]) >= at(first["submitted_at"])
    seat.work()
    running = status(gateway, client, request_id)
    platform.succeed(*platform.claim())
    seat.work()
    later = status(gateway, client, request_id)
    done, steps = (int(word) for word in later["progress"]["message"].split() if word.isdecimal())
    assert later["progress"]["message"] == f"{done} of {steps} steps are done"
    assert running["progress"]["message"] == f"{done - 1} of {steps} steps are done"
    assert at(later["updated_at"]) > at(running["updated_at"]) > at(first["submitted_at"])
    platform.finish(seat)
    ended = status(gateway, client, request_id)
    assert (ended["progress"]["message"], ended["partial"]) == ("completed", False)
    # Kept for the days of retention, because it makes no data of a platform.
    assert at(ended["expires_at"]) - at(ended["completed_at"]) == timedelta(days=30)
    results = client.get(f"/platform/results/{request_id}").json()
    assert (results["expires_at"], results["partial"]) == (ended["expires_at"], False)


def test_data_of_a_platform_does_not_expire(gateway: Served, platform: Platform) -> None:
    client = gateway.client()
    request_id = order(client).json()["request_id"]
    platform.finish(platform.seat())
    ended = status(gateway, client, request_id)
    assert (ended["status"], ended["expires_at"]) == ("completed", None)


def test_an_order_that_was_completed_without_some_parts_says_so(gateway: Served, platform: Platform) -> None:
    platform.register(load(TOLERANT).definition)
    client, seat = gateway.client(), platform.seat()
    request_id = place(client, "tolerant")
    seat.work()
    bad, *good = platform.claim()
    platform.fail(bad, kind=ErrorKind.NON_RETRYABLE)
    platform.succeed(*good)
    seat.work()
    ended = status(gateway, client, request_id)
    assert (ended["status"], ended["partial"]) == ("completed", True)
    assert ended["progress"] == {"percent": 100.0, "message": "completed without 1 part that failed"}
    assert client.get(f"/platform/results/{request_id}").json()["partial"] is True


def test_an_order_that_is_being_cancelled_and_a_failed_one(gateway: Served, platform: Platform) -> None:
    client, seat = gateway.client(), platform.seat()
    request_id = order(client).json()["request_id"]
    seat.work()
    platform.claim()
    assert client.post(f"/platform/requests/{request_id}/cancel", json={}).status_code == 202
    assert status(gateway, client, request_id)["progress"]["message"] in ("is being cancelled", "cancelled")
    seat.work()
    for task_of_job in platform.claim():
        platform.fail(task_of_job)
    seat.work()
    ended = status(gateway, client, request_id)
    if ended["status"] == "failed":
        assert ended["progress"]["message"] == "cancelled"
    assert ended["partial"] is False


def test_what_is_final_is_counted_although_it_was_asked_for_a_moment_before(
    gateway: Served, platform: Platform
) -> None:
    platform.register(load(TOLERANT).definition)
    client, seat = gateway.client(), platform.seat()
    request_id = place(client, "tolerant")
    seat.work()
    bad, *good = platform.claim()
    assert client.get(f"/platform/status/{request_id}").json()["partial"] is False
    platform.fail(bad, kind=ErrorKind.NON_RETRYABLE)
    platform.succeed(*good)
    seat.work()
    ended = client.get(f"/platform/status/{request_id}").json()
    assert (ended["status"], ended["partial"]) == ("completed", True)
    assert ended["progress"]["message"] == "completed without 1 part that failed"
