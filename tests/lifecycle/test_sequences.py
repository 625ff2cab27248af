"""Approve, reject, overwrite, revoke, roll back: the lifecycle cases in their order, and what each leaves behind."""

from __future__ import annotations

from typing import Any

import pytest

from rmhdag.assets.reviews import ReviewConflict
from rmhdag.models.assets import PlatformReview
from rmhdag.services.asset_commands import delete_asset, roll_back
from rmhdag.services.reruns import plan_rerun_of, rerun_job
from rmhdag.views.assets import read_request
from tests.lifecycle.reviewing import (
    PUBLIC,
    RESTRICTED,
    approve,
    audited,
    check_agreement,
    key_of,
    make_revision,
    reject,
    reviewed_workflow,
    revision_row,
    revoke,
    served,
    set_platform,
    shown,
    told,
)
from tests.orchestrator.assets import asset_of, place_order, raster_workflow, revisions_of, rows
from tests.orchestrator.platform import Platform, Seat


@pytest.fixture
def ready(platform: Platform) -> Platform:
    platform.register(reviewed_workflow())
    return platform


def states(platform: Platform) -> list[str]:
    return [row["review_state"] for row in rows(platform, "SELECT * FROM dag_asset_revisions ORDER BY revision")]


def catalogue_rows(platform: Platform) -> list[dict[str, Any]]:
    return rows(platform, "SELECT * FROM dag_catalogue_entries ORDER BY item_id")


def test_approve_reject_overwrite_approve_revoke_overwrite_approve(ready: Platform) -> None:
    """The lifecycle cases as one history; after each step everything agrees."""
    seat = ready.seat()
    first = key_of(make_revision(ready, seat, 1))
    approve(ready, first)
    check_agreement(ready.conn)
    second = key_of(make_revision(ready, seat, 2))
    reject(ready, second)
    assert served(ready.conn) == 1
    check_agreement(ready.conn)
    third = key_of(make_revision(ready, seat, 3))
    approve(ready, third)
    assert shown(ready.conn) == [("both", 3, 3), ("of-3", 3, 3)]
    check_agreement(ready.conn)
    revoke(ready, third)
    assert shown(ready.conn) == [("both", 1, 1), ("of-1", 1, 1)], "the earlier approved revision comes back"
    check_agreement(ready.conn)
    revoke(ready, first)
    assert (served(ready.conn), shown(ready.conn)) == (None, [])
    check_agreement(ready.conn)
    fourth = key_of(make_revision(ready, seat, 4))
    assert states(ready) == ["revoked", "rejected", "revoked", "pending_review"]
    approve(ready, fourth)
    assert shown(ready.conn) == [("both", 4, 4), ("of-4", 4, 4)]
    check_agreement(ready.conn)
    assert [action for action, _ in audited(ready)] == [
        f"review.{step}" for step in ("approve", "reject", "approve", "revoke", "revoke", "approve")
    ]


def test_reprocessing_leaves_approved_content_untouched(ready: Platform) -> None:
    seat = ready.seat()
    ordered = make_revision(ready, seat, 1)
    approve(ready, key_of(ordered))
    before = (catalogue_rows(ready), rows(ready, "SELECT * FROM dag_blob_assets WHERE revision = 1"))
    again = make_revision(ready, seat, 2)
    after = (catalogue_rows(ready), rows(ready, "SELECT * FROM dag_blob_assets WHERE revision = 1"))
    assert after == before
    asset = asset_of(ready, ordered)
    assert (asset["current_revision"], asset["latest_revision"], asset["approval_state"]) == (1, 2, "pending_review")
    reject(ready, key_of(again))
    assert (catalogue_rows(ready), served(ready.conn)) == (before[0], 1)
    check_agreement(ready.conn)


def test_a_failed_reprocessing_changes_nothing(ready: Platform) -> None:
    seat = ready.seat()
    ordered = make_revision(ready, seat, 1)
    approve(ready, key_of(ordered), clearance=RESTRICTED)
    failing = place_order(ready.conn, input_params={"n": 2})
    seat.work()
    for _ in range(4):
        ready.conn.execute("UPDATE dag_node_states SET next_attempt_at = now() WHERE next_attempt_at IS NOT NULL")
        seat.work()
        ready.fail(*ready.claim())
        seat.work()
    assert revisions_of(ready, failing)[1]["status"] == "failed"
    asset = asset_of(ready, ordered)
    assert (asset["approval_state"], asset["classification"]) == ("approved", "restricted")
    with pytest.raises(ReviewConflict, match="no content") as refusal:
        approve(ready, key_of(failing))
    assert refusal.value.expected == "completed"
    check_agreement(ready.conn)


def test_an_order_for_what_waits_for_review_closes_that_review(ready: Platform) -> None:
    seat = ready.seat()
    first = make_revision(ready, seat, 1, callback_url="https://partner.example.org/hook")
    place_order(ready.conn, input_params={"n": 2}, submitted_by="bob", client_id="bob")
    row = revision_row(ready, key_of(first))
    assert (row["review_state"], row["decided_by"]) == ("superseded", "bob")
    assert row["decision_reason"] == "revision 2 has replaced it"
    assert audited(ready) == [("review.supersede", "bob")]
    assert told(ready)[-1] == ("superseded", "failed")
    with pytest.raises(ReviewConflict, match="`superseded`") as refusal:
        approve(ready, key_of(first))
    assert "revision 2" in (refusal.value.remedy or "")
    check_agreement(ready.conn)


def test_a_superseded_job_that_completes_all_the_same_is_not_served(ready: Platform) -> None:
    from tests.lifecycle.reviewing import content
    from tests.orchestrator.test_publishing import report

    seat = ready.seat()
    ordered = place_order(ready.conn, input_params={"n": 1})
    seat.work()
    [claimed] = ready.claim()
    report(ready, claimed, content(1))
    place_order(ready.conn, input_params={"n": 2}, supersede=True)
    seat.work()
    first = revisions_of(ready, ordered)[0]
    assert (first["status"], first["review_state"]) == ("completed", "superseded")
    assert (served(ready.conn), shown(ready.conn)) == (None, [])
    check_agreement(ready.conn)


def test_a_rerun_gets_a_review_of_its_own(ready: Platform) -> None:
    seat = ready.seat()
    ordered = make_revision(ready, seat, 1)
    approve(ready, key_of(ordered))
    rerun_job(ready.conn, plan_rerun_of(ready.conn, str(ordered.request.job_id), everything=True), issued_by="ann")
    platform_finish(ready, seat, 2)
    assert states(ready) == ["approved", "pending_review"]
    assert served(ready.conn) == 1
    check_agreement(ready.conn)


def platform_finish(platform: Platform, seat: Seat, number: int) -> None:
    from tests.lifecycle.reviewing import content
    from tests.orchestrator.test_publishing import report

    seat.work()
    [claimed] = platform.claim()
    report(platform, claimed, content(number))
    seat.work()


def test_a_rollback_to_approved_content_is_served_at_once(ready: Platform) -> None:
    seat = ready.seat()
    first = key_of(make_revision(ready, seat, 1))
    approve(ready, first, clearance=RESTRICTED)
    second = key_of(make_revision(ready, seat, 2))
    approve(ready, second)
    assert roll_back(ready.conn, "default", first.asset_id, 1, issued_by="ann") == 3
    row = revision_row(ready, first._replace(revision=3))
    assert (row["review_state"], row["clearance"], row["decided_by"]) == ("approved", "restricted", "rita")
    assert shown(ready.conn) == [("both", 1, 3), ("of-1", 1, 3)]
    check_agreement(ready.conn)
    revoke(ready, first._replace(revision=3))
    assert shown(ready.conn) == [("both", 2, 2), ("of-2", 2, 2)]
    check_agreement(ready.conn)


@pytest.mark.parametrize("state", ["pending_review", "rejected", "revoked"])
def test_a_rollback_brings_back_nothing_that_may_not_be_served(ready: Platform, state: str) -> None:
    seat = ready.seat()
    approve(ready, key_of(make_revision(ready, seat, 1)))
    second = key_of(make_revision(ready, seat, 2))
    if state == "rejected":
        reject(ready, second)
    elif state == "revoked":
        approve(ready, second)
        revoke(ready, second)
    with pytest.raises(ReviewConflict, match="cannot come back"):
        roll_back(ready.conn, "default", second.asset_id, 2, issued_by="ann")
    assert served(ready.conn) == 1
    check_agreement(ready.conn)


def test_a_rollback_closes_a_review_that_waits(ready: Platform) -> None:
    seat = ready.seat()
    first = key_of(make_revision(ready, seat, 1))
    approve(ready, first)
    approve(ready, key_of(make_revision(ready, seat, 2)))
    make_revision(ready, seat, 3)
    assert roll_back(ready.conn, "default", first.asset_id, 1, issued_by="ann") == 4
    assert states(ready) == ["approved", "approved", "superseded", "approved"]
    assert served(ready.conn) == 4
    check_agreement(ready.conn)


def test_content_from_before_there_were_reviews_gets_one_when_it_comes_back(platform: Platform) -> None:
    platform.register(raster_workflow())
    seat = platform.seat()
    first = key_of(make_revision(platform, seat, 1))
    make_revision(platform, seat, 2)
    set_platform(platform.conn, PlatformReview.REQUIRED)
    roll_back(platform.conn, "default", first.asset_id, 1, issued_by="ann")
    assert states(platform) == ["none", "none", "pending_review"]
    assert served(platform.conn) == 2
    check_agreement(platform.conn)
    approve(platform, first._replace(revision=3))
    assert shown(platform.conn) == [("both", 1, 3), ("of-1", 1, 3)]
    check_agreement(platform.conn)


def test_a_deleted_asset_that_comes_back_waits_for_its_review(ready: Platform) -> None:
    seat = ready.seat()
    first = key_of(make_revision(ready, seat, 1))
    approve(ready, first)
    delete_asset(ready.conn, "default", first.asset_id, issued_by="ann")
    second = key_of(make_revision(ready, seat, 2))
    approve(ready, second)
    assert shown(ready.conn) == [("both", 2, 2), ("of-2", 2, 2)]
    check_agreement(ready.conn)


def test_an_order_may_name_the_version_that_it_builds_on(ready: Platform) -> None:
    seat = ready.seat()
    with pytest.raises(ReviewConflict, match="serves no version"):
        place_order(ready.conn, previous_version="v1")
    first = make_revision(ready, seat, 1)
    ready.conn.execute("UPDATE dag_asset_revisions SET version_label = 'v1'")
    with pytest.raises(ReviewConflict, match="serves no version"):
        place_order(ready.conn, input_params={"n": 2}, previous_version="v1")
    approve(ready, key_of(first))
    with pytest.raises(ReviewConflict, match="serves version 'v1', not 'v0'") as refusal:
        place_order(ready.conn, input_params={"n": 2}, previous_version="v0")
    assert refusal.value.expected == "v1"
    assert ready.count("dag_asset_revisions") == 1
    ordered = place_order(ready.conn, input_params={"n": 2}, previous_version="v1")
    assert ordered.request.revision == 2


def test_how_an_order_stands_follows_its_review(ready: Platform) -> None:
    seat = ready.seat()
    ordered = make_revision(ready, seat, 1)

    def request() -> Any:
        view = read_request(ready.conn, "default", ordered.request.request_id)
        assert view is not None
        return view

    waiting = request()
    assert (waiting.status, waiting.result, waiting.completed_at) == ("awaiting_approval", None, None)
    approve(ready, key_of(ordered), clearance=PUBLIC)
    assert (request().status, request().result) == ("completed", {"n": 1})
    revoke(ready, key_of(ordered), reason="wrong licence")
    assert (request().status, request().result, request().error) == ("failed", None, "revoked: wrong licence")
    ready.conn.execute("UPDATE dag_api_requests SET job_id = NULL")
    assert request().status == "failed", "after its job was deleted"
