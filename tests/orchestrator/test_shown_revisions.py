"""The catalogue shows the current revision of an asset that is not deleted: all of its items, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from rmhdag.assets.revisions import AssetConflict
from rmhdag.models.records import Records
from rmhdag.services.asset_commands import delete_asset, roll_back
from rmhdag.services.commands import cancel_job
from rmhdag.services.requests import Ordered
from rmhdag.services.reruns import plan_rerun_of, rerun_job
from rmhdag.workflow.definition import WorkflowDefinition, WorkflowNode
from tests.orchestrator.assets import asset_of, place_order, raster_workflow, revisions_of
from tests.orchestrator.platform import Platform, Seat
from tests.orchestrator.test_publishing import blob, item, one_task, report, rows, task


def two_steps() -> WorkflowDefinition:
    nodes = {"first": task("echo", "last"), "last": task()}
    return raster_workflow().model_copy(update={"workflow_id": "two_steps", "nodes": nodes})


def begin(platform: Platform, seat: Seat, *given: Any, **more: Any) -> tuple[Ordered, Any]:
    """An order whose first task is running."""
    ordered = place_order(platform.conn, *given, **more)
    seat.work()
    [claimed] = platform.claim()
    return ordered, claimed


def publish(platform: Platform, seat: Seat, claimed: Any, *records: Any) -> None:
    found: Records = tuple(records)
    assert report(platform, claimed, found) == {claimed.task_id}
    seat.work()


def cancel(platform: Platform, seat: Seat, job_id: str) -> None:
    cancel_job(platform.conn, job_id, issued_by="ann", answer_seconds=0)
    seat.work()
    assert platform.job(job_id)["ending"] == "cancelled"


def shown(platform: Platform) -> list[tuple[Any, ...]]:
    """What readers of the catalogue find: item, number and revision."""
    query = """SELECT item_id, body->'n', revision FROM dag_catalogue_entries
        WHERE item_id <> '' AND NOT removed ORDER BY collection_id, item_id"""
    return rows(platform, query)


def test_a_superseded_revision_is_not_shown_beside_the_newer_one(platform: Platform) -> None:
    """S: the task of revision 1 reports after revision 2 is completed."""
    seat = platform.seat()
    platform.register(raster_workflow())
    ordered, old = begin(platform, seat)
    _, new = begin(platform, seat, input_params={"n": 2}, supersede=True)
    publish(platform, seat, new, item("scene-of-2026", n=2))
    publish(platform, seat, old, blob(), item("scene-of-2025", n=1))
    assert [row["status"] for row in revisions_of(platform, ordered)] == ["superseded", "completed"]
    assert shown(platform) == [("scene-of-2026", 2, 2)]


def test_a_deleted_asset_is_not_shown_again_by_a_late_report(platform: Platform) -> None:
    """D: the asset is deleted while the cancelled job of its second revision drains."""
    seat = platform.seat()
    platform.register(raster_workflow())
    _, first = begin(platform, seat)
    publish(platform, seat, first, item("i", n=1))
    ordered, second = begin(platform, seat, input_params={"n": 2})
    cancel(platform, seat, second.job_id)
    delete_asset(platform.conn, "default", ordered.request.asset_id or "", issued_by="ann")
    publish(platform, seat, second, item("i", n=2), item("j", n=2))
    assert revisions_of(platform, ordered)[1]["status"] == "cancelled"
    assert shown(platform) == []


def test_a_revision_that_fails_half_way_is_not_shown(platform: Platform) -> None:
    """F: revision 2 publishes in its first node and fails in its second."""
    seat = platform.seat()
    platform.register(two_steps())
    ordered, first = begin(platform, seat, "two_steps")
    publish(platform, seat, first, item("kept", n=1), item("old", n=1))
    assert shown(platform) == [], "its job is still running"
    platform.finish(seat)
    assert shown(platform) == [("kept", 1, 1), ("old", 1, 1)]
    _, second = begin(platform, seat, "two_steps", input_params={"n": 2})
    publish(platform, seat, second, item("kept", n=2), item("new", n=2))
    assert shown(platform) == [("kept", 1, 1), ("old", 1, 1)]
    platform.fail(*platform.claim())
    seat.work()
    assert asset_of(platform, ordered)["current_revision"] == 1
    assert shown(platform) == [("kept", 1, 1), ("old", 1, 1)]


def test_a_superseded_job_that_completes_all_the_same_is_shown_until_the_next_one(platform: Platform) -> None:
    """Its last report was in the inbox before the cancel: the revision is completed, and current for a while."""
    seat = platform.seat()
    platform.register(raster_workflow())
    ordered, old = begin(platform, seat)
    report(platform, old, (item("old", n=1),))
    _, new = begin(platform, seat, input_params={"n": 2}, supersede=True)
    assert asset_of(platform, ordered)["current_revision"] == 1
    assert shown(platform) == [("old", 1, 1)]
    publish(platform, seat, new, item("new", n=2))
    assert shown(platform) == [("new", 2, 2)]


def test_an_older_revision_that_completes_after_a_newer_one_is_not_shown(platform: Platform) -> None:
    """The cancel of revision 1 is on its way to another orchestrator when its job completes."""
    seat, slow = platform.seat(), platform.seat()
    platform.register(raster_workflow())
    ordered, old = begin(platform, slow)
    _, new = begin(platform, seat, input_params={"n": 2}, supersede=True)
    platform.conn.execute("UPDATE dag_inbox SET inbox_id = inbox_id + 1000000 WHERE job_id = %s", [old.job_id])
    publish(platform, seat, new, item("new", n=2))
    publish(platform, slow, old, item("old", n=1))
    assert [row["status"] for row in revisions_of(platform, ordered)] == ["completed", "completed"]
    assert asset_of(platform, ordered)["current_revision"] == 2
    assert shown(platform) == [("new", 2, 2)]


def test_a_revision_that_completes_for_a_deleted_asset_is_not_shown(platform: Platform) -> None:
    """Revision 2 was superseded and goes on; revision 3 was cancelled, so the asset could be deleted."""
    seat, slow = platform.seat(), platform.seat()
    platform.register(raster_workflow())
    _, first = begin(platform, seat)
    publish(platform, seat, first, item("first", n=1))
    ordered, second = begin(platform, slow, input_params={"n": 2})
    _, third = begin(platform, seat, input_params={"n": 3}, supersede=True)
    cancel(platform, seat, third.job_id)
    delete_asset(platform.conn, "default", ordered.request.asset_id or "", issued_by="ann")
    platform.conn.execute("UPDATE dag_inbox SET inbox_id = inbox_id + 1000000 WHERE job_id = %s", [second.job_id])
    publish(platform, slow, second, item("second", n=2))
    assert revisions_of(platform, ordered)[1]["status"] == "completed"
    assert shown(platform) == []


def test_a_deleted_asset_that_comes_back_is_shown_with_its_next_completed_revision(platform: Platform) -> None:
    seat = platform.seat()
    platform.register(raster_workflow())
    ordered, first = begin(platform, seat)
    publish(platform, seat, first, item("i", n=1))
    delete_asset(platform.conn, "default", ordered.request.asset_id or "", issued_by="ann")
    _, second = begin(platform, seat, input_params={"n": 2})
    assert shown(platform) == []
    publish(platform, seat, second, item("i", n=2))
    assert shown(platform) == [("i", 2, 2)]


def test_a_rollback_while_a_newer_revision_is_under_way(platform: Platform) -> None:
    """It is refused, unless that revision's job is ending; what the job then reports is not shown."""
    seat = platform.seat()
    platform.register(raster_workflow())
    for number in (1, 2):
        ordered, claimed = begin(platform, seat, input_params={"n": number})
        publish(platform, seat, claimed, item(f"of-{number}", n=number), item("both", n=number))
    asset_id = ordered.request.asset_id or ""
    _, third = begin(platform, seat, input_params={"n": 3})
    with pytest.raises(AssetConflict, match="is being processed"):
        roll_back(platform.conn, "default", asset_id, 1, issued_by="ann")
    assert shown(platform) == [("both", 2, 2), ("of-2", 2, 2)]
    cancel(platform, seat, third.job_id)
    assert roll_back(platform.conn, "default", asset_id, 1, issued_by="ann") == 4
    assert shown(platform) == [("both", 1, 4), ("of-1", 1, 4)]
    publish(platform, seat, third, item("both", n=3), item("of-3", n=3))
    assert [row["status"] for row in revisions_of(platform, ordered)][2:] == ["superseded", "completed"]
    assert shown(platform) == [("both", 1, 4), ("of-1", 1, 4)]


def test_a_rerun_shows_its_whole_revision_when_it_completes(platform: Platform) -> None:
    seat = platform.seat()
    platform.register(two_steps())
    ordered, first = begin(platform, seat, "two_steps")
    publish(platform, seat, first, item("first", n=1))
    publish(platform, seat, platform.claim()[0], item("last", n=1))
    _, again = begin(platform, seat, "two_steps", input_params={"n": 2})
    publish(platform, seat, again, item("first", n=2), item("more", n=2))
    platform.fail(*platform.claim())
    seat.work()
    rerun_job(platform.conn, plan_rerun_of(platform.conn, again.job_id), issued_by="ann")
    seat.work()
    assert shown(platform) == [("first", 1, 1), ("last", 1, 1)], "the rerun has only begun"
    publish(platform, seat, platform.claim()[0], item("last", n=3))
    assert asset_of(platform, ordered)["current_revision"] == 3
    assert shown(platform) == [("first", 2, 3), ("last", 3, 3), ("more", 2, 3)]


def test_a_rerun_does_again_what_was_not_published_because_its_job_was_ending(platform: Platform) -> None:
    """Else the task would count as done, and its files and items would be in no revision."""
    seat = platform.seat()
    platform.register(raster_workflow())
    ordered, claimed = begin(platform, seat)
    cancel(platform, seat, claimed.job_id)
    publish(platform, seat, claimed, blob(), item("i", n=1))
    assert platform.nodes(claimed.job_id) == {"one": "cancelled"}
    results = "SELECT status::text, records IS NOT NULL FROM dag_task_results"
    assert rows(platform, results) == [("completed", True)], "the result itself is recorded"
    rerun_job(platform.conn, plan_rerun_of(platform.conn, claimed.job_id), issued_by="ann")
    seat.work()
    publish(platform, seat, platform.claim()[0], blob(), item("i", n=2))
    assert [row["status"] for row in revisions_of(platform, ordered)] == ["cancelled", "completed"]
    assert shown(platform) == [("i", 2, 2)]


@pytest.mark.parametrize("ends_by", ["cancel", "failure"])
def test_a_job_without_an_asset_publishes_nothing_while_it_is_ending(platform: Platform, ends_by: str) -> None:
    seat = platform.seat()
    nodes = {"one": task(), "two": task()}
    job_id = platform.submit(one_task().model_copy(update={"nodes": nodes}))
    seat.work()
    one, two = platform.claim()
    if ends_by == "cancel":
        cancel(platform, seat, job_id)
        platform.succeed(two)
    else:
        platform.fail(two)
    seat.work()
    publish(platform, seat, one, blob(), item("i", n=1))
    assert platform.job(job_id)["status"] == ("cancelled" if ends_by == "cancel" else "failed")
    assert platform.nodes(job_id)["one"] == "cancelled"
    assert platform.count("dag_blob_assets") == platform.count("dag_catalogue_entries") == 0


def test_a_repair_changes_what_is_shown_and_a_revision_under_way_replaces_it(platform: Platform) -> None:
    seat = platform.seat()
    platform.register(raster_workflow())
    _, first = begin(platform, seat)
    publish(platform, seat, first, item("i", n=1))
    _, second = begin(platform, seat, input_params={"n": 2})
    platform.submit(one_task())
    seat.work()
    [repair] = platform.claim()
    publish(platform, seat, repair, item("i", n=11))
    assert shown(platform) == [("i", 11, 1)]
    publish(platform, seat, second, item("i", n=2))
    assert shown(platform) == [("i", 2, 2)]


def test_an_item_of_another_namespace_is_another_item(platform: Platform) -> None:
    seat = platform.seat()
    platform.register(two_steps())
    _, first = begin(platform, seat, "two_steps")
    publish(platform, seat, first, item("mine", n=1), item("theirs", n=1))
    columns = "(collection_id, item_id, namespace, body)"
    platform.conn.execute(
        f"INSERT INTO dag_catalogue_entries {columns} VALUES ('c', 'theirs', 'north', '{{}}')".encode()
    )
    platform.finish(seat)
    assert set(shown(platform)) == {("mine", 1, 1), ("theirs", 1, 1), ("theirs", None, None)}
    assert platform.count("dag_dead_letters") == 0


def test_items_of_a_child_job_are_shown_with_the_revision_of_its_parent(platform: Platform) -> None:
    """A rerun that does not run the child again takes them over."""
    seat = platform.seat()
    platform.register(one_task())
    nodes = {"child": WorkflowNode(workflow="one", next=("last",)), "last": task()}
    platform.register(raster_workflow().model_copy(update={"workflow_id": "nested", "nodes": nodes}))
    ordered, child = begin(platform, seat, "nested")
    assert child.job_id != ordered.request.job_id
    publish(platform, seat, child, item("of-child", n=1))
    assert platform.job(child.job_id)["status"] == "completed"
    platform.fail(*platform.claim())
    seat.work()
    assert shown(platform) == []
    rerun_job(platform.conn, plan_rerun_of(platform.conn, str(ordered.request.job_id)), issued_by="ann")
    seat.work()
    [last] = platform.claim()
    assert last.node_id == "last"
    publish(platform, seat, last, item("of-parent", n=2))
    assert shown(platform) == [("of-child", 1, 2), ("of-parent", 2, 2)]


# -- rows that an earlier version has written --------------------------------------------------------------------------


def test_a_revision_that_kept_its_items_in_its_row_can_be_rolled_back_to(platform: Platform) -> None:
    seat = platform.seat()
    platform.register(raster_workflow())
    ordered, first = begin(platform, seat)
    publish(platform, seat, first, item("old", n=1))
    platform.conn.execute("DELETE FROM dag_revision_items")
    kept = """[{"type": "stac_item", "collection_id": "c", "item": {"id": "old", "collection": "c", "n": 1}}]"""
    platform.conn.execute("UPDATE dag_asset_revisions SET catalogue = %s", [kept])
    _, second = begin(platform, seat, input_params={"n": 2})
    publish(platform, seat, second, item("new", n=2))
    assert shown(platform) == [("new", 2, 2)]
    roll_back(platform.conn, "default", ordered.request.asset_id or "", 1, issued_by="ann")
    assert shown(platform) == [("old", 1, 3)]


def shown_by_earlier_version(platform: Platform, claimed: Any, item_id: str, revision: int) -> None:
    """As it was published with its node."""
    platform.conn.execute(
        """INSERT INTO dag_catalogue_entries
            (collection_id, item_id, body, job_id, node_id, asset_id, revision)
            SELECT 'c', %s, '{"n": 0}', job_id, %s, asset_id, %s FROM dag_jobs WHERE job_id = %s""",
        [item_id, claimed.node_id, revision, claimed.job_id],
    )


def test_what_a_job_had_shown_before_belongs_to_its_revision(platform: Platform) -> None:
    seat = platform.seat()
    platform.register(two_steps())
    ordered, first = begin(platform, seat, "two_steps")
    publish(platform, seat, first)
    shown_by_earlier_version(platform, first, "before", 1)
    [last] = platform.claim()
    publish(platform, seat, last, item("after", n=1))
    assert shown(platform) == [("after", 1, 1), ("before", 0, 1)]
    _, second = begin(platform, seat, "two_steps", input_params={"n": 2})
    publish(platform, seat, second)
    platform.finish(seat)
    assert shown(platform) == []
    roll_back(platform.conn, "default", ordered.request.asset_id or "", 1, issued_by="ann")
    assert shown(platform) == [("after", 1, 3), ("before", 0, 3)]


def test_a_rerun_takes_over_what_a_failed_job_had_shown(platform: Platform) -> None:
    seat = platform.seat()
    platform.register(two_steps())
    _, first = begin(platform, seat, "two_steps")
    publish(platform, seat, first)
    shown_by_earlier_version(platform, first, "before", 1)
    platform.fail(*platform.claim())
    seat.work()
    rerun_job(platform.conn, plan_rerun_of(platform.conn, first.job_id), issued_by="ann")
    seat.work()
    publish(platform, seat, platform.claim()[0], item("after", n=2))
    assert shown(platform) == [("after", 2, 2), ("before", 0, 2)]
