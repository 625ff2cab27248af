"""Succeeded means published: records become rows in the transaction that completes their node, or the node fails."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from rmhdag.models.events import ErrorKind
from rmhdag.models.leases import ClaimedTask, TaskReport
from rmhdag.models.records import (
    BlobRecord,
    LineageRecord,
    PromotionRecord,
    Records,
    StacCollectionRecord,
    StacItemRecord,
    Zone,
    encode_records,
)
from rmhdag.models.references import Reference
from rmhdag.models.states import TaskStatus
from rmhdag.store import payloads, tasks
from rmhdag.workflow.definition import (
    FanInNode,
    FanOutNode,
    RetryRule,
    TaskNode,
    TaskSpec,
    Tolerance,
    WorkflowDefinition,
)
from tests.orchestrator.platform import QUEUE, Platform

ASSET = "a" * 32


def blob(path: str = "a.tif", sha: str = "1" * 64, role: str = "data") -> BlobRecord:
    return BlobRecord(zone=Zone.SILVER, container="cogs", path=path, size_bytes=7, sha256=sha, role=role)


def item(item_id: str = "i", collection_id: str = "c", **more: Any) -> StacItemRecord:
    return StacItemRecord(collection_id=collection_id, item={"id": item_id, **more})


def collection(collection_id: str = "c", **more: Any) -> StacCollectionRecord:
    return StacCollectionRecord(collection={"id": collection_id, **more})


def task(handler: str = "echo", *following: str, attempts: int = 1) -> TaskNode:
    retry = RetryRule(max_attempts=attempts, backoff="none", initial_delay_seconds=0)
    return TaskNode(task=TaskSpec(handler=handler, queue=QUEUE, retry=retry), next=following)


def one_task(attempts: int = 1) -> WorkflowDefinition:
    return WorkflowDefinition(workflow_id="one", name="One", nodes={"only": task(attempts=attempts)})


def report(platform: Platform, claimed: ClaimedTask, records: Records | bytes) -> set[str]:
    text = records if isinstance(records, bytes) else encode_records(records)
    done = TaskReport(claimed.task_id, claimed.lease_epoch, TaskStatus.COMPLETED, output=b"{}", records=text)
    return tasks.report_tasks(platform.conn, platform.worker_id, [done])


def rows(platform: Platform, query: str) -> list[tuple[Any, ...]]:
    return platform.conn.execute(query.encode()).fetchall()


def entries(platform: Platform) -> list[tuple[Any, ...]]:
    return rows(
        platform,
        "SELECT collection_id, item_id, version, status::text, body FROM dag_catalogue_entries ORDER BY 1, 2",
    )


def test_records_of_every_kind_are_published_with_their_node(platform: Platform) -> None:
    seat = platform.seat()
    job_id = platform.submit(one_task())
    platform.conn.execute("UPDATE dag_jobs SET asset_id = %s, revision = 3", [ASSET])
    seat.work()
    [claimed] = platform.claim()
    records: Records = (
        blob(),
        blob("t.png", role="thumbnail"),
        LineageRecord(source_url="https://example.org/a.tif"),
        LineageRecord(source_asset_id="b" * 32, source_revision=2),
        PromotionRecord(asset_id=ASSET, revision=2, target="portal", url="https://example.org/portal"),
        collection(title="C"),
        item(properties={"n": 1}),
    )
    report(platform, claimed, records)
    seat.work()
    assert platform.job(job_id)["status"] == "completed"
    query = (
        "SELECT path, role, sha256, size_bytes, asset_id, revision, job_id, node_id, state::text FROM dag_blob_assets"
    )
    whose = (ASSET, 3, job_id, "only")
    assert sorted(rows(platform, query)) == [
        ("a.tif", "data", "1" * 64, 7, *whose, "present"),
        ("t.png", "thumbnail", "1" * 64, 7, *whose, "present"),
    ]
    query = (
        "SELECT source_url, source_asset_id, source_revision, asset_id, revision, job_id, node_id FROM dag_dataset_refs"
    )
    assert sorted(rows(platform, query), key=str) == [
        ("https://example.org/a.tif", None, None, *whose),
        (None, "b" * 32, 2, *whose),
    ]
    assert rows(platform, "SELECT asset_id, revision, target FROM dag_promoted") == [(ASSET, 2, "portal")]
    assert entries(platform) == [("c", "", 1, "pending", {"id": "c", "title": "C"})]
    query = "SELECT asset_id, revision, job_id, node_id, collection_id, item_id, body FROM dag_revision_items"
    body = {"id": "i", "collection": "c", "properties": {"n": 1}}
    assert rows(platform, query) == [(*whose, "c", "i", body)], "not shown: no asset has this revision"


def test_a_job_without_an_asset_publishes_too(platform: Platform) -> None:
    seat = platform.seat()
    job_id = platform.submit(one_task())
    seat.work()
    report(platform, platform.claim()[0], (blob(), item()))
    seat.work()
    assert rows(platform, "SELECT asset_id, revision, job_id FROM dag_blob_assets") == [(None, None, job_id)]
    assert rows(platform, "SELECT asset_id, revision, job_id FROM dag_catalogue_entries") == [(None, None, job_id)]


def test_many_records_come_through_a_payload(platform: Platform) -> None:
    seat = platform.seat()
    platform.submit(one_task())
    seat.work()
    many = encode_records(tuple(blob(f"{number}.tif") for number in range(2_000)))
    stored = payloads.write_json(platform.conn, "default", "a job", many)
    report(platform, platform.claim()[0], orjson.dumps(stored.as_json()))
    seat.work()
    assert platform.count("dag_blob_assets") == 2_000


@pytest.mark.parametrize(
    ("records", "reason"),
    [
        ((item("a/b"),), "the item id 'a/b' cannot be published"),
        ((item("i" * 300),), "has more than 255"),
        ((collection(".."),), "the collection id '..' cannot be published"),
        (b'[{"type": "blob"}]', "the records cannot be read: Field required at /0/blob/zone"),
        (orjson.dumps(Reference("0" * 64, 3).as_json()), "there is no payload"),
    ],
)
def test_what_cannot_be_published_fails_its_node_and_leaves_nothing(
    platform: Platform, records: Records | bytes, reason: str
) -> None:
    seat = platform.seat()
    job_id = platform.submit(one_task())
    seat.work()
    with_blob = records if isinstance(records, bytes) else (blob(), *records)
    report(platform, platform.claim()[0], with_blob)
    seat.work()
    assert platform.job(job_id)["status"] == "failed"
    assert reason in platform.job(job_id)["error_message"]
    kinds = rows(platform, "SELECT event_data->>'error_kind' FROM dag_job_events WHERE event_type = 'node_failed'")
    assert kinds == [(ErrorKind.PUBLISH_FAILED,)]
    assert platform.count("dag_blob_assets") == platform.count("dag_catalogue_entries") == 0
    assert platform.count("dag_inbox") == 0


def test_a_failed_publication_is_tried_again_by_the_retry_rule(platform: Platform) -> None:
    seat = platform.seat()
    job_id = platform.submit(one_task(attempts=2))
    seat.work()
    report(platform, platform.claim()[0], (blob(), item("a/b")))
    seat.work()
    [again] = platform.claim()
    assert again.attempt == 2
    report(platform, again, (blob(), item("ab")))
    seat.work()
    assert platform.job(job_id)["status"] == "completed"
    assert [row[1] for row in entries(platform)] == ["ab"]
    assert platform.count("dag_blob_assets") == 1


def fan_out() -> WorkflowDefinition:
    return WorkflowDefinition(
        workflow_id="many",
        name="Many",
        nodes={
            "all": FanOutNode(source=tuple(range(6)), task=task().task, next=("join",)),
            "join": FanInNode(source_node="all", tolerate=Tolerance(count=6)),
        },
    )


def test_one_bad_result_among_those_of_its_job_fails_alone(platform: Platform) -> None:
    seat = platform.seat()
    job_id = platform.submit(fan_out())
    seat.work()
    for number, claimed in enumerate(platform.claim()):
        report(platform, claimed, (blob(f"{number}.tif"), item("x/y" if number == 3 else f"i{number}")))
    seat.work()
    assert platform.job(job_id)["status"] == "completed"
    statuses = {name: status for name, status in platform.nodes(job_id).items() if "__" in name}
    assert sorted(statuses.values()) == ["completed"] * 5 + ["failed"]
    assert platform.count("dag_blob_assets") == 5
    assert len(entries(platform)) == 5


def test_what_is_refused_is_not_the_other_jobs_affair(platform: Platform) -> None:
    """They were settled in one transaction before, and in another than the one that publishes."""
    seat = platform.seat()
    bad = platform.submit(one_task())
    good = [platform.submit(one_task()) for _ in range(5)]
    seat.work()
    for claimed in platform.claim():
        if claimed.job_id == bad:
            report(platform, claimed, (item("a/b"),))
        else:
            platform.succeed(claimed)
    before = seat.advance.figures.counts["jobs_poisoned"]
    seat.work()
    assert {platform.job(job_id)["status"] for job_id in good} == {"completed"}
    assert platform.job(bad)["status"] == "failed"
    assert seat.advance.figures.counts["jobs_poisoned"] == before
    query = "SELECT count(DISTINCT xmin::text) FROM dag_node_states WHERE job_id = ANY(%s)"
    assert platform.conn.execute(query, [good]).fetchone() == (1,)
    assert platform.conn.execute(query, [[good[0], bad]]).fetchone() == (2,)


def test_a_report_that_comes_too_late_publishes_nothing(platform: Platform) -> None:
    """The job was cancelled, and its owner took the lease away while the report was on its way."""
    seat = platform.seat()
    job_id = platform.submit(one_task())
    seat.work()
    [claimed] = platform.claim()
    platform.conn.execute("DELETE FROM dag_queue_messages")
    assert report(platform, claimed, (blob(), item())) == set()
    seat.work()
    assert platform.job(job_id)["status"] == "running"
    assert platform.count("dag_blob_assets") == platform.count("dag_catalogue_entries") == 0


def test_the_same_again_says_nothing_new(platform: Platform) -> None:
    seat = platform.seat()
    for title in ("A", "A", "B"):
        platform.submit(one_task())
        seat.work()
        report(platform, platform.claim()[0], (collection(title=title), item()))
        seat.work()
        platform.conn.execute("UPDATE dag_catalogue_entries SET status = 'published', published_version = version")
    assert [(row[1], row[2]) for row in entries(platform)] == [("", 2), ("i", 1)]


def test_an_orchestrator_that_was_frozen_publishes_nothing(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    frozen, heir = platform.seat(), platform.seat()
    job_id = platform.submit(one_task())
    frozen.work()
    report(platform, platform.claim()[0], (blob(), item()))
    settle_later = frozen.advance._write

    def freeze(*given: Any) -> None:
        """Between its decision and its transaction, somebody else becomes the owner."""
        platform.conn.execute(
            "UPDATE dag_jobs SET owner_id = %s, owner_epoch = owner_epoch + 1 WHERE job_id = %s", [heir.me, job_id]
        )
        settle_later(*given)

    monkeypatch.setattr(frozen.advance, "_write", freeze)
    frozen.advance.run_once(whole_inbox=True)
    assert platform.count("dag_blob_assets") == platform.count("dag_catalogue_entries") == 0
    heir.work()
    assert platform.job(job_id)["status"] == "completed"
    assert platform.count("dag_blob_assets") == platform.count("dag_catalogue_entries") == 1
