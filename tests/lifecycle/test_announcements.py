"""External services learn of decisions: the calls are rows of the transaction that decides."""

from __future__ import annotations

import pytest

from rmhdag.services.asset_commands import delete_asset, roll_back
from rmhdag.services.callbacks.destinations import Rules
from rmhdag.services.callbacks.settings import CallbackSettings
from rmhdag.services.commands import decide
from tests.lifecycle.reviewing import (
    PUBLIC,
    RESTRICTED,
    approve,
    clear,
    content,
    gated_workflow,
    key_of,
    make_revision,
    reject,
    reviewed_workflow,
    revoke,
)
from tests.orchestrator.assets import place_order
from tests.orchestrator.outside.calling import calls, put
from tests.orchestrator.platform import Platform
from tests.orchestrator.test_publishing import report

NEW = ("approval", "pending", 0)


@pytest.fixture
def service(platform: Platform) -> None:
    rules = CallbackSettings(rules=Rules(frozenset({"127.0.0.1:9"})), allow_plain=True)
    put(platform, rules, "atlas", "webhook", url="http://127.0.0.1:9/")


def test_public_content_is_announced_with_its_approval(platform: Platform, service: None) -> None:
    platform.register(reviewed_workflow())
    key = key_of(make_revision(platform, platform.seat()))
    assert calls(platform) == []
    assert approve(platform, key).notices == ("external service 'atlas' (webhook) will be notified",)
    assert calls(platform) == [NEW]
    revoked = revoke(platform, key)
    assert revoked.notices == ("external service 'atlas' had not been notified yet, and will not be",)
    assert [status for _, status, _ in calls(platform)] == ["cancelled"]


def test_restricted_content_is_announced_when_it_is_cleared(platform: Platform, service: None) -> None:
    platform.register(reviewed_workflow())
    key = key_of(make_revision(platform, platform.seat()))
    assert "public" in approve(platform, key, clearance=RESTRICTED).notices[0]
    assert calls(platform) == []
    clear(platform, key)
    assert calls(platform) == [NEW]
    delete_asset(platform.conn, "default", key.asset_id, issued_by="ann")
    assert [status for _, status, _ in calls(platform)] == ["cancelled"]


def test_a_deletion_withdraws_every_revision_that_was_announced(platform: Platform, service: None) -> None:
    platform.register(reviewed_workflow())
    seat = platform.seat()
    for number in (1, 2):
        key = key_of(make_revision(platform, seat, number))
        approve(platform, key)
    delete_asset(platform.conn, "default", key.asset_id, issued_by="ann")
    assert [status for _, status, _ in calls(platform)] == ["cancelled", "cancelled"]


def test_a_rollback_to_public_content_is_announced(platform: Platform, service: None) -> None:
    platform.register(reviewed_workflow())
    seat = platform.seat()
    for number, clearance in ((1, PUBLIC), (2, RESTRICTED), (3, PUBLIC)):
        key = key_of(make_revision(platform, seat, number))
        approve(platform, key, clearance=clearance)
    roll_back(platform.conn, "default", key.asset_id, 1, issued_by="ann")
    roll_back(platform.conn, "default", key.asset_id, 2, issued_by="ann")
    announced = platform.conn.execute(
        "SELECT revision, requested_by FROM dag_service_calls ORDER BY revision"
    ).fetchall()
    assert announced == [(1, "rita"), (3, "rita"), (4, "ann")]


def test_without_a_service_an_approval_succeeds_and_says_so(platform: Platform) -> None:
    platform.register(reviewed_workflow())
    seat = platform.seat()
    key = key_of(make_revision(platform, seat))
    decided = approve(platform, key)
    assert (decided.state, decided.served) == ("approved", 1)
    assert "configured" in decided.notices[0]
    other = key_of(make_revision(platform, seat, 2))
    assert reject(platform, other).notices == ()
    assert calls(platform) == []


def test_content_approved_at_a_node_is_announced_when_its_job_is_completed(platform: Platform, service: None) -> None:
    definition = gated_workflow()
    platform.register(definition)
    seat = platform.seat()
    ordered = place_order(platform.conn, workflow_id=definition.workflow_id, input_params={"n": 1})
    seat.work()
    [claimed] = platform.claim()
    report(platform, claimed, content(1))
    seat.work()
    job_id = ordered.request.job_id
    assert job_id is not None
    decide(platform.conn, job_id, "ask", approved=True, issued_by="rita", clearance=PUBLIC, answer_seconds=0)
    seat.work()
    assert calls(platform) == []
    platform.finish(seat)
    assert platform.job(job_id)["status"] == "completed"
    assert calls(platform) == [NEW]
