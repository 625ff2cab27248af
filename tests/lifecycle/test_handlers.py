"""The handlers about approvals: what they return is checked and applied with their node, or fails it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rmhdag.handlers.approval import reviews as handlers
from rmhdag.models.records import AnyRecord, ApprovalDecisionRecord, ApprovalRequestRecord
from rmhdag.models.scopes import Scope
from rmhdag.store.api_keys import create_key
from rmhdag.testing import HandlerBench
from tests.lifecycle.reviewing import (
    audited,
    check_agreement,
    content,
    hash_of,
    key_of,
    make_revision,
    reviewed_workflow,
    revision_row,
    served,
    shown,
)
from tests.orchestrator.assets import place_order, raster_workflow, rows
from tests.orchestrator.platform import Platform, Seat
from tests.orchestrator.test_publishing import one_task, report

ASSET = "a" * 32


def records_of(folder: Path, function: Any, **params: Any) -> list[AnyRecord]:
    return list(HandlerBench(folder).run(function, params).records)


def run(platform: Platform, seat: Seat, record: AnyRecord, by: str = "rita") -> dict[str, Any]:
    """A job of its own with one task that hands over the record."""
    job_id = platform.submit(one_task(), by=by)
    seat.work()
    [claimed] = platform.claim()
    report(platform, claimed, (record,))
    seat.work()
    return platform.job(job_id)


@pytest.mark.parametrize("clearance", ["ouo", "OUO", "Official Use Only", "official use only", "restricted"])
def test_clearance_has_synonyms(tmp_path: Path, clearance: str) -> None:
    given: dict[str, Any] = {"asset_id": ASSET, "revision": 2, "content_hash": "1" * 64}
    [record] = records_of(tmp_path, handlers.approve_dataset, **given, clearance=clearance)
    assert record == ApprovalDecisionRecord(**given, decision="approve", clearance="restricted")


def test_a_trigger_and_a_rejection_are_records(tmp_path: Path) -> None:
    assert records_of(tmp_path, handlers.trigger, message="look") == [ApprovalRequestRecord(message="look")]
    given: dict[str, Any] = {"asset_id": ASSET, "revision": 2, "content_hash": "1" * 64}
    [record] = records_of(tmp_path, handlers.reject_dataset, **given, reason="clouds")
    assert record == ApprovalDecisionRecord(**given, decision="reject", reason="clouds")


def decision(platform: Platform, key: Any, **words: Any) -> ApprovalDecisionRecord:
    given: dict[str, Any] = {
        "decision": "approve",
        "clearance": "public",
        "content_hash": hash_of(platform, key),
        **words,
    }
    return ApprovalDecisionRecord(asset_id=key.asset_id, revision=key.revision, **given)


def test_a_reviewer_may_decide_by_a_job(platform: Platform) -> None:
    platform.register(reviewed_workflow())
    seat = platform.seat()
    key = key_of(make_revision(platform, seat))
    refused = run(platform, seat, decision(platform, key))
    assert "rita has submitted the job and has no key with the scope `reviewer`" in refused["error_message"]
    create_key(platform.conn, "rita", [Scope.REVIEWER], created_by="test")
    moved = run(platform, seat, decision(platform, key, content_hash="f" * 64))
    assert "the content of revision 1" in moved["error_message"]
    assert run(platform, seat, decision(platform, key))["status"] == "completed"
    assert shown(platform.conn) == [("both", 1, 1), ("of-1", 1, 1)]
    assert audited(platform) == [("review.approve", "rita")]
    again = run(platform, seat, decision(platform, key, decision="reject", clearance=None, reason="no"))
    assert "is `approved`, and `reject` needs `pending_review`. Revoke it instead." in again["error_message"]
    check_agreement(platform.conn)


def test_a_job_asks_for_a_review_of_what_it_makes(platform: Platform) -> None:
    platform.register(raster_workflow())
    seat = platform.seat()
    ordered = place_order(platform.conn)
    seat.work()
    [claimed] = platform.claim()
    report(platform, claimed, (*content(1), ApprovalRequestRecord(message="new sensor")))
    seat.work()
    key = key_of(ordered)
    assert revision_row(platform, key)["review_state"] == "pending_review"
    [waiting] = rows(platform, "SELECT message, requested_by FROM dag_approvals")
    assert (waiting["message"], waiting["requested_by"]) == ("new sensor", "ann")
    assert (served(platform.conn), shown(platform.conn)) == (None, [])
    check_agreement(platform.conn)


def test_nobody_asks_for_a_review_of_what_is_served(platform: Platform) -> None:
    platform.register(raster_workflow())
    seat = platform.seat()
    key = key_of(make_revision(platform, seat))
    failed = run(platform, seat, ApprovalRequestRecord(asset_id=key.asset_id, revision=1))
    assert "not under review" in failed["error_message"]
    own = run(platform, seat, ApprovalRequestRecord())
    assert "the job makes no revision" in own["error_message"]
    assert served(platform.conn) == 1


def test_internal_properties_never_reach_the_catalogue(platform: Platform) -> None:
    from tests.lifecycle.reviewing import approve
    from tests.orchestrator.test_publishing import blob, item

    platform.register(reviewed_workflow())
    seat = platform.seat()
    ordered = place_order(platform.conn)
    seat.work()
    [claimed] = platform.claim()
    properties = {"rmhdag:datetime_source": "tags", "rmhdag:job_id": "j", "etl:job_id": "j", "gsd": 10, "hostname": "h"}
    assets = {"data": {"href": "https://example.org/a.tif", "local_path": "/mnt/a.tif", "_attempt": 2}}
    report(platform, claimed, (blob(), item("i", properties=properties, assets=assets)))
    seat.work()
    approve(platform, key_of(ordered))
    [entry] = rows(platform, "SELECT body FROM dag_catalogue_entries WHERE item_id = 'i'")
    assert entry["body"]["properties"] == {"rmhdag:datetime_source": "tags", "gsd": 10}
    assert entry["body"]["assets"] == {"data": {"href": "https://example.org/a.tif"}}
