"""The approval node of a workflow that makes a revision: one decision for the job and for its content."""

from __future__ import annotations

from typing import Any

import pytest

from rmhdag.assets.reviews import InvalidDecision, NotAllowedToDecide, ReviewConflict
from rmhdag.models.assets import Classification, PlatformReview
from rmhdag.models.jobs import CommandOutcome
from rmhdag.models.records import Records
from rmhdag.services.commands import CommandAnswer, decide
from rmhdag.services.requests import Ordered
from rmhdag.store.commands import read_answer
from rmhdag.views.assets import read_request
from tests.lifecycle.reviewing import (
    approve,
    audited,
    check_agreement,
    content,
    gated_workflow,
    key_of,
    revision_row,
    served,
    set_platform,
    shown,
    told,
)
from tests.orchestrator.assets import place_order, rows
from tests.orchestrator.platform import Platform, Seat
from tests.orchestrator.test_publishing import blob, item, report, task


def at_the_gate(platform: Platform, seat: Seat, records: Records, **order: Any) -> Ordered:
    """An order whose job waits for a person, after its first task has published the records."""
    ordered = place_order(platform.conn, "gated", **order)
    seat.work()
    [claimed] = platform.claim()
    report(platform, claimed, records)
    seat.work()
    assert platform.nodes(str(ordered.request.job_id))["ask"] == "running"
    return ordered


def answer(platform: Platform, seat: Seat, ordered: Ordered, *, approved: bool = True, **words: Any) -> CommandAnswer:
    given: dict[str, Any] = {"issued_by": "rita", "answer_seconds": 0, **words}
    if approved:
        given.setdefault("clearance", Classification.PUBLIC)
    issued = decide(platform.conn, str(ordered.request.job_id), "ask", approved=approved, **given)
    seat.work()
    outcome = read_answer(platform.conn, issued.command_id)
    assert outcome is not None
    return issued._replace(outcome=outcome.outcome, reason=outcome.reason or "")


def finish(platform: Platform, seat: Seat, *records: Any) -> None:
    [claimed] = platform.claim()
    report(platform, claimed, tuple(records))
    seat.work()


def test_a_decision_at_the_gate_decides_about_the_revision(platform: Platform) -> None:
    platform.register(gated_workflow(message="Fit to print?", approvers=("rita", "data-stewards")))
    seat = platform.seat()
    ordered = at_the_gate(platform, seat, content(1), callback_url="https://partner.example.org/hook")
    key = key_of(ordered)
    view = read_request(platform.conn, "default", ordered.request.request_id)
    assert view is not None
    assert view.status == "awaiting_approval"
    [waiting] = rows(platform, "SELECT state, message, content_hash FROM dag_approvals")
    assert (waiting["state"], waiting["message"]) == ("pending_review", "Fit to print?")
    with pytest.raises(ReviewConflict, match="no content to decide about") as refusal:
        approve(platform, key)
    assert f"rmhdag decide {ordered.request.job_id} ask approve" in (refusal.value.remedy or "")

    assert answer(platform, seat, ordered, issued_by="bob").reason == "bob may not decide ask; rita, data-stewards may"
    assert revision_row(platform, key)["review_state"] == "pending_review"
    assert answer(platform, seat, ordered).outcome is CommandOutcome.APPLIED
    row = revision_row(platform, key)
    assert (row["status"], row["review_state"], row["clearance"]) == ("processing", "approved", "public")
    assert (served(platform.conn), shown(platform.conn)) == (None, [])
    finish(platform, seat, item("late", n=1))
    assert served(platform.conn) == 1
    assert shown(platform.conn) == [("both", 1, 1), ("late", 1, 1), ("of-1", 1, 1)]
    assert audited(platform) == [("review.approve", "rita")]
    assert told(platform) == [("", "completed")]
    assert revision_row(platform, key)["content_hash"] == waiting["content_hash"]
    check_agreement(platform.conn)


def test_content_that_changes_after_the_decision_is_reviewed_again(platform: Platform) -> None:
    platform.register(gated_workflow())
    seat = platform.seat()
    ordered = at_the_gate(platform, seat, content(1), callback_url="https://partner.example.org/hook")
    key = key_of(ordered)
    answer(platform, seat, ordered)
    finish(platform, seat, blob("more.tif", sha="9" * 64))
    row = revision_row(platform, key)
    assert (row["status"], row["review_state"], row["clearance"]) == ("completed", "pending_review", "undecided")
    assert (served(platform.conn), shown(platform.conn)) == (None, [])
    assert audited(platform) == [("review.approve", "rita"), ("review.reopen", "orchestrator")]
    assert told(platform) == [("", "awaiting_approval")]
    check_agreement(platform.conn)
    approve(platform, key)
    assert served(platform.conn) == 1
    check_agreement(platform.conn)


def test_a_revision_without_data_files_is_bound_to_its_items(platform: Platform) -> None:
    platform.register(gated_workflow())
    seat = platform.seat()
    for number, late in ((1, ()), (2, (item("other", n=2),))):
        ordered = at_the_gate(platform, seat, (item("i", n=number),), input_params={"n": number})
        answer(platform, seat, ordered)
        finish(platform, seat, *late)
        row = revision_row(platform, key_of(ordered))
        assert row["review_state"] == ("pending_review" if late else "approved")
        assert row["content_hash"]
    assert served(platform.conn) == 1


def test_a_rejection_at_the_gate_fails_the_job_and_its_revision(platform: Platform) -> None:
    platform.register(gated_workflow())
    seat = platform.seat()
    ordered = at_the_gate(platform, seat, content(1))
    answer(platform, seat, ordered, approved=False, reason="clouds")
    row = revision_row(platform, key_of(ordered))
    assert (row["status"], row["review_state"], row["decision_reason"]) == ("failed", "rejected", "clouds")
    assert platform.job(str(ordered.request.job_id))["status"] == "failed"
    assert platform.nodes(str(ordered.request.job_id))["last"] == "skipped"
    assert shown(platform.conn) == []
    check_agreement(platform.conn)


def test_a_rejected_revision_is_not_served_even_if_its_job_goes_on(platform: Platform) -> None:
    platform.register(gated_workflow(on_reject="continue"))
    seat = platform.seat()
    ordered = at_the_gate(platform, seat, content(1))
    answer(platform, seat, ordered, approved=False, reason="clouds")
    finish(platform, seat)
    row = revision_row(platform, key_of(ordered))
    assert (row["status"], row["review_state"]) == ("completed", "rejected")
    assert (served(platform.conn), shown(platform.conn)) == (None, [])
    check_agreement(platform.conn)


def test_who_rejects_at_a_later_gate_takes_the_approval_back(platform: Platform) -> None:
    gated = gated_workflow(on_reject="continue")
    nodes = {**gated.nodes, "ask": gated.nodes["ask"].model_copy(update={"next": ("again",)})}
    nodes["again"] = gated.nodes["ask"]
    platform.register(gated.model_copy(update={"nodes": nodes}))
    seat = platform.seat()
    ordered = at_the_gate(platform, seat, content(1))
    answer(platform, seat, ordered)
    job_id = str(ordered.request.job_id)
    decide(platform.conn, job_id, "again", approved=False, issued_by="rob", reason="no", answer_seconds=0)
    seat.work()
    finish(platform, seat)
    assert revision_row(platform, key_of(ordered))["review_state"] == "revoked"
    assert (served(platform.conn), shown(platform.conn)) == (None, [])
    check_agreement(platform.conn)


def test_a_gate_that_times_out_leaves_no_review_behind(platform: Platform) -> None:
    platform.register(gated_workflow(timeout_seconds=5))
    seat = platform.seat()
    ordered = at_the_gate(platform, seat, content(1))
    platform.conn.execute("UPDATE dag_node_states SET deadline_at = now() - interval '1 second' WHERE node_id = 'ask'")
    seat.work()
    assert revision_row(platform, key_of(ordered))["status"] == "failed"
    assert platform.count("dag_approvals") == 0
    assert platform.count("dag_waiting_approvals") == 0
    check_agreement(platform.conn)


def test_a_gate_whose_other_branch_fails_ends(platform: Platform) -> None:
    gated = gated_workflow()
    nodes = {**gated.nodes, "other": task()}
    platform.register(gated.model_copy(update={"nodes": nodes}))
    seat = platform.seat()
    ordered = place_order(platform.conn, "gated")
    seat.work()
    claimed = {one.node_id: one for one in platform.claim()}
    report(platform, claimed["make"], content(1))
    seat.work()
    platform.fail(claimed["other"])
    seat.work()
    assert platform.job(str(ordered.request.job_id))["status"] == "failed"
    assert platform.nodes(str(ordered.request.job_id))["ask"] == "cancelled"
    assert (platform.count("dag_approvals"), platform.count("dag_waiting_approvals")) == (0, 0)


def test_an_approval_at_the_gate_says_who_may_see_the_content(platform: Platform) -> None:
    platform.register(gated_workflow())
    set_platform(platform.conn, PlatformReview.FOUR_EYES)
    seat = platform.seat()
    ordered = at_the_gate(platform, seat, content(1))
    with pytest.raises(InvalidDecision, match="`public` or `restricted`"):
        answer(platform, seat, ordered, clearance=None)
    with pytest.raises(InvalidDecision, match="needs a reason"):
        answer(platform, seat, ordered, approved=False)
    with pytest.raises(NotAllowedToDecide, match="ann has submitted"):
        answer(platform, seat, ordered, issued_by="ann")
    assert answer(platform, seat, ordered).outcome is CommandOutcome.APPLIED


def test_a_job_that_is_loaded_again_asks_for_the_same_review(platform: Platform) -> None:
    """The orchestrator dies while the job waits, and the next one asks again."""
    platform.register(gated_workflow())
    seat = platform.seat()
    ordered = at_the_gate(platform, seat, content(1))
    before = rows(platform, "SELECT * FROM dag_approvals")
    seat.advance.reload([str(ordered.request.job_id)])
    seat.work()
    assert rows(platform, "SELECT * FROM dag_approvals") == before
    answer(platform, seat, ordered)
    finish(platform, seat)
    assert served(platform.conn) == 1
    check_agreement(platform.conn)


def test_an_order_that_supersedes_a_job_at_its_gate_closes_the_review(platform: Platform) -> None:
    platform.register(gated_workflow())
    seat = platform.seat()
    ordered = at_the_gate(platform, seat, content(1))
    place_order(platform.conn, "gated", input_params={"n": 2}, supersede=True)
    seat.work()
    row = revision_row(platform, key_of(ordered))
    assert (row["status"], row["review_state"]) == ("superseded", "superseded")
    assert [row["state"] for row in rows(platform, "SELECT state FROM dag_approvals")] == ["superseded"]
    check_agreement(platform.conn)
