"""Every step of a review, in every state: the legal ones change everything together, the others change nothing."""

from __future__ import annotations

from itertools import product
from threading import Barrier, Thread
from typing import Any

import pytest

from rmhdag.assets.reviews import InvalidDecision, NotAllowedToDecide, ReviewConflict
from rmhdag.models.assets import ApprovalState, PlatformReview
from rmhdag.models.refusals import Kind, Refusal
from rmhdag.models.reviews import REVIEW_STEPS, ReviewStep
from rmhdag.services import reviews
from rmhdag.services.asset_commands import delete_asset
from tests.lifecycle.reviewing import (
    PUBLIC,
    RESTRICTED,
    STEPS,
    approve,
    audited,
    check_agreement,
    clear,
    hash_of,
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
from tests.orchestrator.assets import asset_of, raster_workflow, rows
from tests.orchestrator.platform import Platform, open_connection


@pytest.fixture
def ready(platform: Platform) -> Platform:
    platform.register(reviewed_workflow())
    return platform


def test_nothing_is_served_before_its_approval(ready: Platform) -> None:
    ordered = make_revision(ready, ready.seat())
    key = key_of(ordered)
    assert revision_row(ready, key)["review_state"] == "pending_review"
    assert asset_of(ready, ordered)["approval_state"] == "pending_review"
    assert (served(ready.conn), shown(ready.conn)) == (None, [])
    check_agreement(ready.conn)
    [waiting] = rows(ready, "SELECT * FROM dag_approvals")
    assert (waiting["content_hash"], waiting["requested_by"]) == (hash_of(ready, key), "ann")

    decided = approve(ready, key, clearance=RESTRICTED)
    assert (decided.state, decided.clearance, decided.served) == (ApprovalState.APPROVED, RESTRICTED, 1)
    row = revision_row(ready, key)
    assert (row["review_state"], row["clearance"], row["decided_by"]) == ("approved", "restricted", "rita")
    asset = asset_of(ready, ordered)
    assert (asset["approval_state"], asset["classification"]) == ("approved", "restricted")
    assert shown(ready.conn) == [("both", 1, 1), ("of-1", 1, 1)]
    assert audited(ready) == [("review.approve", "rita")]
    [entry] = rows(ready, "SELECT before, after, subject FROM dag_audit WHERE action = 'review.approve'")
    assert entry["before"]["review_state"] == "pending_review"
    assert entry["after"]["review_state"] == "approved"
    assert entry["after"]["content_hash"] == hash_of(ready, key)
    assert "outputs" not in entry["after"]
    check_agreement(ready.conn)


def in_state(ready: Platform, state: str) -> Any:
    """The first revision of an asset, in this state."""
    seat = ready.seat()
    ordered = make_revision(ready, seat)
    key = key_of(ordered)
    match state:
        case "approved" | "revoked":
            approve(ready, key, clearance=RESTRICTED)
            if state == "revoked":
                revoke(ready, key)
        case "rejected":
            reject(ready, key)
        case "superseded":
            make_revision(ready, seat, 2)
        case _:
            pass
    assert revision_row(ready, key)["review_state"] == state
    return key


@pytest.mark.parametrize(
    ("state", "step"),
    [
        (state, step)
        for state, step in product(
            ("pending_review", "approved", "rejected", "revoked", "superseded"),
            ("approve", "reject", "revoke", "clear"),
        )
    ],
)
def test_every_step_in_every_state(ready: Platform, state: str, step: str) -> None:
    key = in_state(ready, state)
    before = (revision_row(ready, key), shown(ready.conn), audited(ready), served(ready.conn))
    needed, following = REVIEW_STEPS[ReviewStep(step)]
    if state == needed:
        assert STEPS[step](ready, key).state is following
        assert revision_row(ready, key)["review_state"] == following
        assert audited(ready) == [*before[2], (f"review.{step}", "rita")]
    else:
        with pytest.raises(ReviewConflict, match=f"`{step}` needs `{needed}`") as refusal:
            STEPS[step](ready, key)
        assert refusal.value.kind is Kind.CONFLICT
        assert refusal.value.expected == needed
        assert refusal.value.remedy
        assert (revision_row(ready, key), shown(ready.conn), audited(ready), served(ready.conn)) == before
    check_agreement(ready.conn)


@pytest.mark.parametrize("step", ["approve", "reject", "revoke", "clear"])
def test_a_step_that_was_taken_is_not_taken_twice(ready: Platform, step: str) -> None:
    needed, _ = REVIEW_STEPS[ReviewStep(step)]
    key = in_state(ready, needed)
    STEPS[step](ready, key)
    before = (revision_row(ready, key), shown(ready.conn), audited(ready))
    with pytest.raises(ReviewConflict):
        STEPS[step](ready, key)
    assert (revision_row(ready, key), shown(ready.conn), audited(ready)) == before
    check_agreement(ready.conn)


def test_what_needs_no_review_is_served_at_once_and_cannot_be_decided_about(platform: Platform) -> None:
    platform.register(raster_workflow())
    key = key_of(make_revision(platform, platform.seat()))
    assert (served(platform.conn), revision_row(platform, key)["review_state"]) == (1, "none")
    for step in STEPS.values():
        with pytest.raises(ReviewConflict, match="not under review"):
            step(platform, key)
    assert platform.count("dag_approvals") == 0


def test_a_decision_is_about_bytes(ready: Platform) -> None:
    key = key_of(make_revision(ready, ready.seat()))
    with pytest.raises(ReviewConflict, match="the content of revision 1") as refusal:
        reviews.approve(ready.conn, key, content_hash="f" * 64, issued_by="rita", clearance=PUBLIC)
    assert refusal.value.code == "content_moved"
    assert revision_row(ready, key)["review_state"] == "pending_review"


def test_a_rejection_and_a_revocation_need_a_reason_and_an_approval_a_clearance(ready: Platform) -> None:
    key = key_of(make_revision(ready, ready.seat()))
    with pytest.raises(InvalidDecision, match="needs a reason"):
        reject(ready, key, reason=" ")
    undecided: Any = None
    with pytest.raises(InvalidDecision, match="`public` or `restricted`"):
        approve(ready, key, clearance=undecided)
    approve(ready, key)
    with pytest.raises(InvalidDecision, match="needs a reason"):
        revoke(ready, key, reason="")


def test_clearance_is_raised_by_a_step_of_its_own_and_never_lowered(ready: Platform) -> None:
    key = key_of(make_revision(ready, ready.seat()))
    approve(ready, key, clearance=RESTRICTED)
    with pytest.raises(InvalidDecision, match="only be raised"):
        reviews.clear(ready.conn, key, content_hash=hash_of(ready, key), issued_by="rita", clearance=RESTRICTED)
    assert clear(ready, key).clearance is PUBLIC
    with pytest.raises(ReviewConflict, match="public already"):
        clear(ready, key)
    assert audited(ready)[-1] == ("review.clear", "rita")


@pytest.mark.parametrize("rule", list(PlatformReview))
def test_a_platform_may_ask_for_a_review_and_for_a_second_pair_of_eyes(
    platform: Platform, rule: PlatformReview
) -> None:
    platform.register(raster_workflow())
    set_platform(platform.conn, rule)
    key = key_of(make_revision(platform, platform.seat()))
    if rule is PlatformReview.NONE:
        assert served(platform.conn) == 1
        return
    assert served(platform.conn) is None
    if rule is PlatformReview.FOUR_EYES:
        with pytest.raises(NotAllowedToDecide, match="ann has submitted") as refusal:
            approve(platform, key, by="ann")
        assert refusal.value.kind is Kind.FORBIDDEN
        assert approve(platform, key, by="rita").served == 1
    else:
        assert approve(platform, key, by="ann").served == 1


def test_the_platform_of_a_namespace_comes_before_that_of_default(platform: Platform) -> None:
    platform.register(raster_workflow(), "tenant")
    set_platform(platform.conn, PlatformReview.REQUIRED)
    set_platform(platform.conn, PlatformReview.NONE, "tenant")
    make_revision(platform, platform.seat(), namespace="tenant")
    assert served(platform.conn) == 1


def test_everybody_who_ordered_it_is_a_submitter(platform: Platform) -> None:
    """A request that joined the job has its share in it."""
    from tests.orchestrator.assets import place_order

    platform.register(raster_workflow())
    set_platform(platform.conn, PlatformReview.FOUR_EYES)
    ordered = place_order(platform.conn)
    place_order(platform.conn, submitted_by="bob", client_id="bob")
    seat = platform.seat()
    platform.finish(seat)
    with pytest.raises(NotAllowedToDecide, match="bob has submitted"):
        approve(platform, key_of(ordered), by="bob")


def test_a_deleted_asset_is_not_decided_about(ready: Platform) -> None:
    key = key_of(make_revision(ready, ready.seat()))
    delete_asset(ready.conn, "default", key.asset_id, issued_by="ann")
    with pytest.raises(ReviewConflict, match="is deleted"):
        approve(ready, key)


@pytest.mark.parametrize("unknown", ["asset", "revision"])
def test_what_does_not_exist_is_not_found(ready: Platform, unknown: str) -> None:
    key = key_of(make_revision(ready, ready.seat()))
    wrong = key._replace(asset_id="0" * 32) if unknown == "asset" else key._replace(revision=7)
    with pytest.raises(Refusal) as refusal:
        reviews.approve(ready.conn, wrong, content_hash="0" * 64, issued_by="rita", clearance=PUBLIC)
    assert refusal.value.kind is Kind.NOT_FOUND


@pytest.mark.parametrize(("first", "second"), [("approve", "approve"), ("approve", "reject"), ("reject", "reject")])
def test_of_two_who_decide_at_once_one_wins(ready: Platform, first: str, second: str) -> None:
    key = key_of(make_revision(ready, ready.seat()))
    content = hash_of(ready, key)
    start, outcomes = Barrier(2, timeout=60), []

    def run(step: str) -> None:
        conn = open_connection(ready.dsn)
        try:
            start.wait()
            if step == "approve":
                reviews.approve(conn, key, content_hash=content, issued_by=step, clearance=PUBLIC)
            else:
                reviews.reject(conn, key, content_hash=content, issued_by=step, reason="no")
            outcomes.append("won")
        except ReviewConflict as refusal:
            outcomes.append(str(refusal.expected))
        finally:
            conn.close()

    threads = [Thread(target=run, args=[step]) for step in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(outcomes) == ["pending_review", "won"]
    assert len(audited(ready)) == 1
    check_agreement(ready.conn)


def test_submitters_are_told_of_each_decision_once(ready: Platform) -> None:
    ordered = make_revision(ready, ready.seat(), callback_url="https://partner.example.org/hook?key=1")
    assert told(ready) == [("", "awaiting_approval")]
    key = key_of(ordered)
    approve(ready, key)
    revoke(ready, key)
    assert told(ready) == [("", "awaiting_approval"), ("approved", "completed"), ("revoked", "failed")]
    [newest] = rows(ready, "SELECT * FROM dag_callbacks WHERE occasion = 'revoked'")
    assert newest["request_id"] == ordered.request.request_id
    assert newest["endpoint_url"] == "https://partner.example.org/hook"
    assert set(newest["body"]) == {"request_id", "workflow_id", "status", "result_url", "occurred_at"}
