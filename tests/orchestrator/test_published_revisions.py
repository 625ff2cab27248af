"""What is published belongs to a revision: completed, rerun, rolled back, deleted, pruned."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from rmhdag.models.ids import blob_id_of, lineage_id_of
from rmhdag.models.records import AnyRecord, LineageRecord, Records
from rmhdag.services.asset_commands import delete_asset, roll_back
from rmhdag.services.reruns import plan_rerun_of, rerun_job
from rmhdag.store import crash_points
from rmhdag.workflow.definition import FanInNode, FanOutNode, WorkflowDefinition
from tests.orchestrator.assets import place_order, raster_workflow, revisions_of
from tests.orchestrator.platform import Platform, Seat
from tests.orchestrator.pruning import prune
from tests.orchestrator.test_publishing import blob, item, one_task, report, rows, task

SOURCE = "https://example.org/a.tif"


class Killed(BaseException):
    """Nothing catches it."""


def make(platform: Platform, seat: Seat, records: Records, **more: Any) -> Any:
    ordered = place_order(platform.conn, **more)
    seat.work()
    for claimed in platform.claim():
        report(platform, claimed, records)
    seat.work()
    return ordered


def shown(platform: Platform) -> list[tuple[Any, ...]]:
    query = """SELECT item_id, body->'n', removed, revision FROM dag_catalogue_entries
        WHERE item_id <> '' ORDER BY item_id"""
    return rows(platform, query)


def test_a_completed_revision_has_a_content_and_keeps_what_it_shows(platform: Platform) -> None:
    seat = platform.seat()
    platform.register(raster_workflow())
    shas = [letter * 64 for letter in "ba"]
    files = tuple(blob(f"{sha[0]}.tif", sha) for sha in shas)
    for _ in range(2):
        ordered = make(platform, seat, (*files, blob("t.png", "c" * 64, "thumbnail"), item(n=1)))
    first, second = revisions_of(platform, ordered)
    expected = hashlib.sha256("\n".join(f"data {sha}" for sha in sorted(shas)).encode()).hexdigest()
    assert (first["content_hash"], second["content_hash"]) == (expected, expected)
    assert (first["status"], second["status"]) == ("completed", "completed")
    query = "SELECT revision, collection_id, item_id, body, node_id, size_bytes > 30 FROM dag_revision_items ORDER BY 1"
    body = {"id": "i", "collection": "c", "n": 1}
    assert rows(platform, query) == [(revision, "c", "i", body, "one", True) for revision in (1, 2)]
    assert platform.count("dag_blob_assets") == 6


def test_a_revision_takes_away_what_it_has_not_published_again(platform: Platform) -> None:
    seat = platform.seat()
    platform.register(raster_workflow())
    make(platform, seat, (item("kept", n=1), item("gone", n=1)))
    make(platform, seat, (item("kept", n=2),))
    assert shown(platform) == [("gone", None, True, 1), ("kept", 2, False, 2)]


def test_a_rollback_publishes_again_and_a_deletion_takes_away(platform: Platform) -> None:
    seat = platform.seat()
    platform.register(raster_workflow())
    make(platform, seat, (item("kept", n=1), item("gone", n=1)))
    ordered = make(platform, seat, (item("kept", n=2), item("new", n=2)))
    asset_id = ordered.request.asset_id
    assert roll_back(platform.conn, "default", asset_id, 1, issued_by="ann") == 3
    assert shown(platform) == [("gone", 1, False, 3), ("kept", 1, False, 3), ("new", None, True, 2)]
    delete_asset(platform.conn, "default", asset_id, issued_by="ann")
    assert [(row[1], row[2]) for row in shown(platform)] == [(None, True)] * 3
    make(platform, seat, (item("kept", n=4),))
    assert shown(platform)[1] == ("kept", 4, False, 4)


def test_what_a_job_without_an_asset_mends_still_belongs_to_the_asset(platform: Platform) -> None:
    seat = platform.seat()
    platform.register(raster_workflow())
    ordered = make(platform, seat, (item("i", n=1),))
    whose = "SELECT asset_id, revision, job_id, node_id FROM dag_catalogue_entries"
    before = rows(platform, whose)
    mend(platform, seat, item("i", n=2))
    assert (rows(platform, whose), shown(platform)) == (before, [("i", 2, False, 1)])
    delete_asset(platform.conn, "default", ordered.request.asset_id, issued_by="ann")
    assert shown(platform) == [("i", None, True, 1)]
    mend(platform, seat, item("i", n=3))
    assert shown(platform) == [("i", 3, False, None)], "nobody had it any more"


def mend(platform: Platform, seat: Seat, *records: AnyRecord) -> None:
    platform.submit(one_task())
    seat.work()
    report(platform, platform.claim()[0], records)
    seat.work()


def two_steps() -> WorkflowDefinition:
    nodes = {
        "first": task("echo", "all"),
        "all": FanOutNode(source=(0, 1), task=task().task, next=("join",)),
        "join": FanInNode(source_node="all", next=("last",)),
        "last": task(),
    }
    return raster_workflow().model_copy(update={"workflow_id": "steps", "nodes": nodes})


def test_what_a_rerun_does_not_do_again_belongs_to_its_revision_too(platform: Platform) -> None:
    seat = platform.seat()
    platform.register(two_steps())
    ordered = place_order(platform.conn, "steps")
    seat.work()
    for fails_last in (True, True, False):
        while claimed := platform.claim():
            for one in claimed:
                if one.node_id == "last" and fails_last:
                    platform.fail(one)
                else:
                    source = LineageRecord(source_url=f"{SOURCE}?{one.node_id}")
                    report(platform, one, (blob(f"{one.node_id}.tif"), source, item(one.node_id)))
            seat.work()
        [[job_id]] = rows(platform, "SELECT job_id FROM dag_jobs ORDER BY created_at DESC LIMIT 1")
        if fails_last:
            assert platform.job(job_id)["status"] == "failed"
            rerun_job(platform.conn, plan_rerun_of(platform.conn, job_id), issued_by="ann")
            seat.work()
    assert platform.job(job_id)["status"] == "completed"
    nodes = {"first", "all__0", "all__1", "last"}
    mine = "SELECT blob_id, node_id, path, revision FROM dag_blob_assets WHERE job_id = %s"
    found = platform.conn.execute(mine, [job_id]).fetchall()
    assert {(row[1], row[3]) for row in found} == {(node_id, 3) for node_id in nodes}
    assert all(row[0] == blob_id_of(job_id, "silver", "cogs", row[2], "data") for row in found)
    lineage = "SELECT ref_id, source_url, revision FROM dag_dataset_refs WHERE job_id = %s"
    refs = platform.conn.execute(lineage, [job_id]).fetchall()
    assert len(refs) == 4
    assert all(row[0] == lineage_id_of(job_id, "source", row[1]) and row[2] == 3 for row in refs)
    assert {(row[0], row[2], row[3]) for row in shown(platform)} == {(node_id, False, 3) for node_id in nodes}
    revision = revisions_of(platform, ordered)[-1]
    assert revision["revision"] == 3
    kept = rows(platform, "SELECT revision, count(*) FROM dag_revision_items GROUP BY 1 ORDER BY 1")
    assert kept == [(1, 3), (2, 3), (3, 4)]


def test_pruning_keeps_what_was_published(platform: Platform) -> None:
    seat = platform.seat()
    platform.register(raster_workflow())
    make(platform, seat, (blob(), item(), LineageRecord(source_url=SOURCE)))
    platform.conn.execute("UPDATE dag_jobs SET completed_at = '2020-01-01'")
    assert prune(platform)["dag_jobs"] == 1
    for table in ("blob_assets", "dataset_refs", "revision_items", "catalogue_entries", "asset_revisions"):
        assert platform.count(f"dag_{table}") == 1, table


def test_pruning_drops_the_items_of_a_revision_that_did_not_complete(platform: Platform) -> None:
    seat = platform.seat()
    platform.register(two_steps())
    place_order(platform.conn, "steps")
    seat.work()
    report(platform, platform.claim()[0], (item("first"),))
    seat.work()
    platform.fail(*platform.claim())
    seat.work()
    assert platform.count("dag_revision_items") == 1, "for a rerun"
    platform.conn.execute("UPDATE dag_jobs SET completed_at = '2020-01-01'")
    assert prune(platform)["dag_jobs"] == 1
    assert platform.count("dag_revision_items") == 0


@pytest.mark.parametrize(("point", "before"), [("settle.before_commit", 0), ("settle.after_commit", 1)])
def test_an_orchestrator_that_dies_publishes_exactly_once(platform: Platform, point: str, before: int) -> None:
    doomed = platform.seat()
    platform.register(raster_workflow())
    ordered = place_order(platform.conn)
    doomed.work()
    report(platform, platform.claim()[0], (blob(), item()))

    def die() -> None:
        doomed.conn.close()
        raise Killed

    crash_points.arm(point, die)
    with pytest.raises(Killed):
        doomed.work()
    crash_points.disarm()
    assert platform.count("dag_blob_assets") == platform.count("dag_catalogue_entries") == before
    heir = platform.seat()
    platform.conn.execute(
        "UPDATE dag_jobs SET owner_id = %s, owner_epoch = owner_epoch + 1 WHERE completed_at IS NULL", [heir.me]
    )
    platform.conn.execute("UPDATE dag_inbox SET owner_id = %s", [heir.me])
    heir.work()
    [revision] = revisions_of(platform, ordered)
    assert revision["status"] == "completed"
    for table in ("dag_blob_assets", "dag_revision_items", "dag_catalogue_entries"):
        assert platform.count(table) == 1, table
    assert rows(platform, "SELECT version FROM dag_catalogue_entries") == [(1,)]
