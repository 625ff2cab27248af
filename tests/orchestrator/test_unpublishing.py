"""Unpublishing: state, catalogue, files and records agree at every moment, whoever dies in between."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rmhdag.assets.revisions import AssetConflict
from rmhdag.models.blobs import BlobAddress
from rmhdag.models.catalogue import CatalogueKind
from rmhdag.models.records import BlobRecord, Records, UnpublishRecord, Zone
from rmhdag.models.refusals import Kind, Refusal
from rmhdag.orchestrator.duties import catalogue, file_deletions
from rmhdag.orchestrator.duties.file_deletions import Remover
from rmhdag.services.asset_commands import roll_back
from rmhdag.services.dead_letters import requeue
from rmhdag.services.reruns import plan_rerun_of, rerun_job
from rmhdag.services.unpublishing import preview_unpublishing, unpublish
from rmhdag.storage import Storage, StorageSettings, open_storage
from rmhdag.store import crash_points
from rmhdag.store.connection import Conn
from rmhdag.store.dead_letters import dead_letters
from rmhdag.store.unpublishing import NothingToUnpublish, Preview, Unpublish, UnpublishConflict, Unpublished
from tests.orchestrator.assets import place_order, raster_workflow
from tests.orchestrator.platform import Platform, Seat
from tests.orchestrator.test_published_revisions import make, shown, two_steps
from tests.orchestrator.test_publishing import collection, item, one_task, report, rows


class Killed(BaseException):
    """Nothing catches it."""


def die() -> None:
    raise Killed


@pytest.fixture
def settings(tmp_path: Path) -> StorageSettings:
    return StorageSettings(str(tmp_path / "blobs"))


@pytest.fixture
def storage(settings: StorageSettings) -> Storage:
    return open_storage(settings, "default")


@pytest.fixture
def remover(settings: StorageSettings) -> Iterator[Remover]:
    yield Remover(settings)
    crash_points.disarm()


@pytest.fixture
def seat(platform: Platform) -> Seat:
    platform.register(raster_workflow())
    return platform.seat()


def run_once(conn: Conn, remover: Remover) -> int:
    """As the thread does it: files wait for the catalogue."""
    relay = catalogue.Relay(CatalogueKind.STATIC, remover.storage)
    while catalogue.run_once(conn, relay):
        pass
    return file_deletions.run_once(conn, remover)


def written(storage: Storage, path: str, text: bytes = b"pixels", role: str = "data") -> BlobRecord:
    return storage.write(BlobAddress(Zone.SILVER, "cogs", path), text).record(role)


def is_there(storage: Storage, path: str) -> bool:
    return storage.exists(BlobAddress(Zone.SILVER, "cogs", path))


def wish(asset_id: str, revision: int | None = None, *, force: bool = False, namespace: str = "default") -> Unpublish:
    return Unpublish(namespace, asset_id, revision, "ann", force, "wrong area")


def do(platform: Platform, wanted: Unpublish) -> Unpublished:
    return unpublish(platform.conn, wanted)


def make_revision(platform: Platform, seat: Seat, *records: Any, **more: Any) -> str:
    asset_id: str = make(platform, seat, records, **more).request.asset_id
    return asset_id


def review(platform: Platform, asset_id: str, revision: int, state: str, clearance: str = "public") -> None:
    """As a decision would leave it."""
    platform.conn.execute(
        "UPDATE dag_asset_revisions SET review_state = %s, clearance = %s WHERE asset_id = %s AND revision = %s",
        [state, clearance, asset_id, revision],
    )


def served(platform: Platform, asset_id: str) -> int | None:
    [row] = rows(platform, f"SELECT current_revision FROM dag_geospatial_assets WHERE asset_id = '{asset_id}'")
    number: int | None = row[0]
    return number


def blob_states(platform: Platform) -> list[tuple[Any, ...]]:
    return rows(platform, "SELECT revision, path, state::text FROM dag_blob_assets ORDER BY 1, 2")


def statuses(platform: Platform) -> list[str]:
    return [row[0] for row in rows(platform, "SELECT status::text FROM dag_unpublishings ORDER BY revision")]


def deletions(platform: Platform) -> list[tuple[Any, ...]]:
    return rows(platform, "SELECT path, status::text FROM dag_file_deletions ORDER BY path")


def check_agreement(platform: Platform, storage: Storage) -> None:
    """Nothing is shown or recorded as present that is not there, and nothing unpublished is served."""
    for zone, container, path in rows(
        platform, "SELECT zone::text, container, path FROM dag_blob_assets WHERE state = 'present'"
    ):
        assert storage.exists(BlobAddress(Zone(zone), container, path)), path
    query = """SELECT a.asset_id FROM dag_geospatial_assets AS a JOIN dag_asset_revisions AS v
        ON v.asset_id = a.asset_id AND v.revision = a.current_revision WHERE v.unpublished_at IS NOT NULL"""
    assert rows(platform, query) == []
    query = """SELECT e.item_id FROM dag_catalogue_entries AS e JOIN dag_asset_revisions AS v
        ON v.asset_id = e.asset_id AND v.revision = e.revision WHERE NOT e.removed AND v.unpublished_at IS NOT NULL"""
    assert rows(platform, query) == []


def test_a_preview_lists_everything_and_changes_nothing(platform: Platform, seat: Seat, storage: Storage) -> None:
    files = (written(storage, "a.tif"), written(storage, "t.png", b"small", "thumbnail"))
    asset_id = make_revision(platform, seat, *files, item("i", n=1))
    before = blob_states(platform)
    seen = preview_unpublishing(platform.conn, wish(asset_id))
    assert isinstance(seen, Preview)
    assert (seen.numbers, seen.current_revision) == ([1], 1)
    assert [(file.path, file.size_bytes, file.also_of) for file in seen.files] == [
        ("a.tif", 6, None),
        ("t.png", 5, None),
    ]
    assert [(one.collection_id, one.item_id, one.shown) for one in seen.items] == [("c", "i", True)]
    assert (blob_states(platform), served(platform, asset_id), statuses(platform)) == (before, 1, [])


def test_unpublishing_withdraws_everything_in_one_transaction(
    platform: Platform, seat: Seat, storage: Storage, remover: Remover
) -> None:
    asset_id = make_revision(platform, seat, written(storage, "a.tif"), item("i", n=1))
    done = do(platform, wish(asset_id))
    assert (done.status, list(done.unpublishing_ids)) == ("pending", [1])
    assert served(platform, asset_id) is None
    assert shown(platform) == [("i", None, True, 1)]
    assert blob_states(platform) == [(1, "a.tif", "deleted")]
    assert is_there(storage, "a.tif"), "the transaction deletes nothing itself"
    assert run_once(platform.conn, remover) == 1
    assert not is_there(storage, "a.tif")
    assert (statuses(platform), deletions(platform)) == (["completed"], [("a.tif", "deleted")])
    query = "SELECT action, actor, before->>'review_state', after->>'files', reason FROM dag_audit WHERE actor = 'ann'"
    assert rows(platform, query) == [("asset.unpublish", "ann", "none", "1", "wrong area")]


def test_a_second_time_finds_nothing_left(platform: Platform, seat: Seat, storage: Storage, remover: Remover) -> None:
    asset_id = make_revision(platform, seat, written(storage, "a.tif"), item("i"))
    for _ in range(2):
        do(platform, wish(asset_id))
        run_once(platform.conn, remover)
    again = do(platform, wish(asset_id, 1))
    assert (again.status, again.preview.revisions, again.preview.files) == (None, [], [])
    assert len(statuses(platform)) == 1
    assert rows(platform, "SELECT count(*) FROM dag_audit WHERE action = 'asset.unpublish'") == [(1,)]


def test_the_revision_before_is_shown_again(platform: Platform, seat: Seat, storage: Storage, remover: Remover) -> None:
    make_revision(platform, seat, written(storage, "1.tif"), item("kept", n=1), item("old", n=1))
    asset_id = make_revision(platform, seat, written(storage, "2.tif"), item("kept", n=2), item("new", n=2))
    do(platform, wish(asset_id, 2))
    assert served(platform, asset_id) == 1
    assert shown(platform) == [("kept", 1, False, 1), ("new", None, True, 2), ("old", 1, False, 1)]
    run_once(platform.conn, remover)
    assert (is_there(storage, "1.tif"), is_there(storage, "2.tif")) == (True, False)
    check_agreement(platform, storage)


def test_an_older_revision_goes_without_touching_what_is_served(
    platform: Platform, seat: Seat, storage: Storage, remover: Remover
) -> None:
    make_revision(platform, seat, written(storage, "1.tif"), item("i", n=1))
    asset_id = make_revision(platform, seat, written(storage, "2.tif"), item("i", n=2))
    platform.conn.execute("UPDATE dag_catalogue_entries SET status = 'published', published_version = version")
    versions = rows(platform, "SELECT version, status::text, lease_epoch FROM dag_catalogue_entries")
    do(platform, wish(asset_id, 1))
    run_once(platform.conn, remover)
    assert served(platform, asset_id) == 2
    assert rows(platform, "SELECT version, status::text, lease_epoch FROM dag_catalogue_entries") == versions
    assert (is_there(storage, "1.tif"), is_there(storage, "2.tif")) == (False, True)


def test_files_of_another_revision_stay(platform: Platform, seat: Seat, storage: Storage, remover: Remover) -> None:
    """Names come from content, so revisions share files; also a name that two revisions wrote differently is shared."""
    make_revision(platform, seat, written(storage, "same.tif"), written(storage, "fixed.tif", b"first"))
    asset_id = make_revision(platform, seat, written(storage, "same.tif"), written(storage, "fixed.tif", b"second"))
    seen = preview_unpublishing(platform.conn, wish(asset_id, 2))
    other = f"asset {asset_id} revision 1"
    assert [(file.path, file.also_of) for file in seen.files] == [("fixed.tif", other), ("same.tif", other)]
    do(platform, wish(asset_id, 2))
    assert (statuses(platform), deletions(platform)) == (["completed"], [])
    do(platform, wish(asset_id, 1))
    run_once(platform.conn, remover)
    assert deletions(platform) == [("fixed.tif", "deleted"), ("same.tif", "deleted")]
    assert not is_there(storage, "same.tif")


def test_files_of_a_job_without_an_asset_stay(platform: Platform, seat: Seat, storage: Storage) -> None:
    platform.submit(one_task())
    seat.work()
    report(platform, platform.claim()[0], (written(storage, "a.tif"),))
    seat.work()
    asset_id = make_revision(platform, seat, written(storage, "a.tif"))
    do(platform, wish(asset_id))
    assert deletions(platform) == []


def test_the_whole_asset_goes_with_what_its_revisions_share(
    platform: Platform, seat: Seat, storage: Storage, remover: Remover
) -> None:
    for number in (1, 2, 3):
        asset_id = make_revision(platform, seat, written(storage, "same.tif"), written(storage, f"{number}.tif"))
    assert len(preview_unpublishing(platform.conn, wish(asset_id)).deleted_files) == 4
    do(platform, wish(asset_id))
    run_once(platform.conn, remover)
    assert statuses(platform) == ["completed"] * 3
    assert rows(platform, "SELECT count(*) FROM dag_blob_assets WHERE state = 'present'") == [(0,)]
    assert list(storage.list(Zone.SILVER, "cogs")) == []


def test_approved_content_needs_force_and_is_revoked_with_its_files(
    platform: Platform, seat: Seat, storage: Storage, remover: Remover
) -> None:
    asset_id = make_revision(platform, seat, written(storage, "a.tif"))
    review(platform, asset_id, 1, "approved")
    with pytest.raises(UnpublishConflict, match="is approved"):
        unpublish(platform.conn, wish(asset_id))
    assert blob_states(platform) == [(1, "a.tif", "present")]
    for force in (False, True):
        seen = preview_unpublishing(platform.conn, wish(asset_id, force=force))
        assert (seen.numbers, seen.approved, len(seen.deleted_files)) == ([1], [1], 1)
    do(platform, wish(asset_id, force=True))
    query = "SELECT review_state::text, decided_by, decision_reason FROM dag_asset_revisions"
    assert rows(platform, query) == [("revoked", "ann", "wrong area")]
    run_once(platform.conn, remover)
    assert not is_there(storage, "a.tif")


def test_what_waits_for_a_decision_can_no_longer_be_approved(platform: Platform, seat: Seat, storage: Storage) -> None:
    asset_id = make_revision(platform, seat, written(storage, "a.tif"))
    review(platform, asset_id, 1, "pending_review", "undecided")
    platform.conn.execute(
        "INSERT INTO dag_approvals (approval_id, asset_id, revision, content_hash, requested_by) "
        "VALUES ('x', %s, 1, %s, 'ann')",
        [asset_id, "1" * 64],
    )
    do(platform, wish(asset_id))
    assert rows(platform, "SELECT review_state::text FROM dag_asset_revisions") == [("rejected",)]
    assert rows(platform, "SELECT state::text, decided_by FROM dag_approvals") == [("rejected", "ann")]


@pytest.mark.parametrize("order", [("revoke", "unpublish"), ("unpublish", "revoke"), ("unpublish", "unpublish")])
def test_approve_revoke_unpublish_and_resubmit_in_any_order(
    platform: Platform, seat: Seat, storage: Storage, remover: Remover, order: tuple[str, ...]
) -> None:
    steps: dict[str, Callable[[], object]] = {
        "revoke": lambda: platform.conn.execute(
            "UPDATE dag_asset_revisions SET review_state = 'revoked' WHERE review_state = 'approved'"
        ),
        "unpublish": lambda: do(platform, wish(asset_id, force=True)),
    }
    for turn in (1, 2):
        asset_id = make_revision(platform, seat, written(storage, "a.tif"), item("i", n=turn))
        review(platform, asset_id, turn, "approved")
        for step in order:
            steps[step]()
            run_once(platform.conn, remover)
            check_agreement(platform, storage)
        assert served(platform, asset_id) is None
        assert not is_there(storage, "a.tif")
    assert make_revision(platform, seat, written(storage, "a.tif"), item("i", n=3)) == asset_id
    assert served(platform, asset_id) == 3
    assert shown(platform) == [("i", 3, False, 3)]
    check_agreement(platform, storage)


def test_a_busy_asset_is_left_alone(platform: Platform, seat: Seat, storage: Storage) -> None:
    asset_id = make_revision(platform, seat, written(storage, "a.tif"))
    place_order(platform.conn)
    with pytest.raises(UnpublishConflict, match="being processed"):
        do(platform, wish(asset_id, 1))
    assert blob_states(platform) == [(1, "a.tif", "present")]


def test_what_does_not_exist_is_said_to_be_so(platform: Platform, seat: Seat, storage: Storage) -> None:
    asset_id = make_revision(platform, seat, written(storage, "a.tif"))
    for wanted in (wish("0" * 32), wish(asset_id, 9), wish(asset_id, namespace="other")):
        for attempt in (preview_unpublishing, unpublish):
            with pytest.raises(NothingToUnpublish, match="nothing to unpublish") as refused:
                attempt(platform.conn, wanted)
            assert refused.value.kind is Kind.NOT_FOUND


def test_recording_files_waits_for_nobody_for_long(platform: Platform, seat: Seat, storage: Storage) -> None:
    """A transaction that records files holds unpublishing up; it is told so and nothing is changed."""
    asset_id = make_revision(platform, seat, written(storage, "a.tif"))
    platform.conn.execute("SET lock_timeout = '100ms'")
    other = platform.seat().conn
    with other.transaction():
        other.execute("UPDATE dag_blob_assets SET media_type = 'x'")
        with pytest.raises(Refusal) as refused:
            do(platform, wish(asset_id))
    assert refused.value.kind is Kind.UNAVAILABLE
    assert (served(platform, asset_id), statuses(platform)) == (1, [])


def test_a_revision_without_files_is_neither_rolled_back_to_nor_reused(
    platform: Platform, seat: Seat, storage: Storage
) -> None:
    platform.register(two_steps())
    ordered = place_order(platform.conn, "steps")
    seat.work()
    while claimed := platform.claim():
        for one in claimed:
            report(platform, one, (written(storage, "a.tif"),))
        seat.work()
    asset_id = ordered.request.asset_id
    assert asset_id is not None
    do(platform, wish(asset_id))
    with pytest.raises(AssetConflict, match="files are deleted"):
        roll_back(platform.conn, "default", asset_id, 1, issued_by="ann")
    job_id = ordered.request.job_id
    assert job_id is not None
    partly = plan_rerun_of(platform.conn, job_id, from_nodes=["last"])
    with pytest.raises(AssetConflict, match="cannot be reused"):
        rerun_job(platform.conn, partly, issued_by="ann")
    rerun_job(platform.conn, plan_rerun_of(platform.conn, job_id, everything=True), issued_by="ann")


# -- files ---------------------------------------------------------------------------------------------------------


def test_a_file_that_is_published_again_before_its_deletion_is_kept(
    platform: Platform, seat: Seat, storage: Storage, remover: Remover
) -> None:
    """The next job finds the file and does not write it again."""
    asset_id = make_revision(platform, seat, written(storage, "a.tif"))
    do(platform, wish(asset_id))
    make_revision(platform, seat, written(storage, "a.tif"))
    assert (deletions(platform), statuses(platform)) == ([("a.tif", "kept")], ["completed"])
    assert run_once(platform.conn, remover) == 0
    check_agreement(platform, storage)


@pytest.mark.parametrize("point", ["claim_deletions.after_commit", "settle_deletions.before_commit"])
def test_a_task_that_relied_on_a_deleted_file_does_it_again(
    platform: Platform, storage: Storage, remover: Remover, point: str
) -> None:
    """It found the file before somebody deleted it, and reports afterwards; before or after its relay has died."""
    seat = platform.seat()
    platform.register(raster_workflow().model_copy(update={"nodes": one_task(attempts=4).nodes}))
    asset_id = make_revision(platform, seat, written(storage, "a.tif"))
    do(platform, wish(asset_id))
    place_order(platform.conn)
    seat.work()
    [first] = platform.claim()
    crash_points.arm(point, die)
    with pytest.raises(Killed):
        run_once(platform.conn, remover)
    report(platform, first, (written(storage, "a.tif"),))
    seat.work()
    assert served(platform, asset_id) is None, "the attempt failed"
    platform.conn.execute("UPDATE dag_file_deletions SET next_attempt_at = '2000-01-01'")
    assert run_once(platform.conn, remover) == 1
    assert (deletions(platform), is_there(storage, "a.tif")) == ([("a.tif", "deleted")], False)
    # The second attempt was handed out before that: it cannot be told from one that relied on the file.
    for _ in range(2):
        [claimed] = platform.claim()
        report(platform, claimed, (written(storage, "a.tif"),))
        seat.work()
    assert served(platform, asset_id) == 2
    check_agreement(platform, storage)


def test_a_deletion_between_start_and_report_of_a_task_fails_the_attempt(
    platform: Platform, storage: Storage, remover: Remover
) -> None:
    seat = platform.seat()
    platform.register(raster_workflow().model_copy(update={"nodes": one_task(attempts=2).nodes}))
    asset_id = make_revision(platform, seat, written(storage, "a.tif"))
    do(platform, wish(asset_id))
    place_order(platform.conn)
    seat.work()
    [first] = platform.claim()
    record = written(storage, "a.tif")
    run_once(platform.conn, remover)
    report(platform, first, (record,))
    seat.work()
    assert served(platform, asset_id) is None
    [second] = platform.claim()
    report(platform, second, (written(storage, "a.tif"),))
    seat.work()
    assert served(platform, asset_id) == 2
    check_agreement(platform, storage)


@pytest.mark.parametrize(
    "point",
    [
        "claim_deletions.before_commit",
        "claim_deletions.after_commit",
        "settle_deletions.before_commit",
        "settle_deletions.after_commit",
    ],
)
def test_whoever_dies_while_deleting_is_followed_by_another(
    platform: Platform, seat: Seat, storage: Storage, settings: StorageSettings, remover: Remover, point: str
) -> None:
    asset_id = make_revision(platform, seat, written(storage, "a.tif"), written(storage, "b.tif"), item("i"))
    crash_points.arm("unpublish.after_commit", die)
    with pytest.raises(Killed):
        do(platform, wish(asset_id))
    crash_points.arm(point, die)
    with pytest.raises(Killed):
        run_once(platform.conn, remover)
    check_agreement(platform, storage)
    platform.conn.execute("UPDATE dag_file_deletions SET next_attempt_at = '2000-01-01' WHERE settled_at IS NULL")
    heir = Remover(settings)
    while run_once(platform.conn, heir):
        pass
    assert deletions(platform) == [("a.tif", "deleted"), ("b.tif", "deleted")]
    assert (statuses(platform), is_there(storage, "a.tif")) == (["completed"], False)


def test_files_wait_until_the_catalogue_shows_them_no_more(
    platform: Platform, seat: Seat, storage: Storage, remover: Remover
) -> None:
    asset_id = make_revision(platform, seat, written(storage, "a.tif"), item("i", n=1))
    relay = catalogue.Relay(CatalogueKind.STATIC, remover.storage)
    catalogue.run_once(platform.conn, relay)
    assert "i" in {found["id"] for _, found in relay.catalogue("default").items("c") if found is not None}
    do(platform, wish(asset_id))
    assert file_deletions.run_once(platform.conn, remover) == 0
    assert is_there(storage, "a.tif")
    catalogue.run_once(platform.conn, relay)
    assert list(relay.catalogue("default").items("c")) == []
    assert file_deletions.run_once(platform.conn, remover) == 1
    assert not is_there(storage, "a.tif")


def test_before_the_commit_nothing_has_happened(platform: Platform, seat: Seat, storage: Storage) -> None:
    asset_id = make_revision(platform, seat, written(storage, "a.tif"), item("i"))
    crash_points.arm("unpublish.before_commit", die)
    with pytest.raises(Killed):
        do(platform, wish(asset_id))
    crash_points.disarm()
    assert (served(platform, asset_id), statuses(platform), deletions(platform)) == (1, [], [])
    check_agreement(platform, storage)


def test_nobody_deletes_after_the_end_of_its_lease(
    platform: Platform, seat: Seat, storage: Storage, settings: StorageSettings
) -> None:
    """A process that was held up may wake when the file is somebody's again."""
    asset_id = make_revision(platform, seat, written(storage, "a.tif"))
    do(platform, wish(asset_id))
    late = Remover(settings, lease_seconds=0)
    assert run_once(platform.conn, late) == 0
    assert (is_there(storage, "a.tif"), deletions(platform)) == (True, [("a.tif", "deleting")])


def test_storage_that_is_away_is_tried_again_and_then_left_to_a_person(
    platform: Platform, seat: Seat, storage: Storage, settings: StorageSettings, remover: Remover
) -> None:
    asset_id = make_revision(platform, seat, written(storage, "a.tif"))
    do(platform, wish(asset_id))
    away = Remover(StorageSettings(zones={Zone.BRONZE: settings.root or ""}))
    assert run_once(platform.conn, away) == 1
    assert deletions(platform) == [("a.tif", "deleting")]
    platform.conn.execute("UPDATE dag_file_deletions SET next_attempt_at = '2000-01-01', attempts = 1000")
    assert run_once(platform.conn, away) == 1
    assert (deletions(platform), statuses(platform)) == ([("a.tif", "dead")], ["partial"])
    [letter] = dead_letters(platform.conn, "default")
    requeue(platform.conn, "default", letter, issued_by="ann")
    assert run_once(platform.conn, remover) == 1
    assert (deletions(platform), statuses(platform)) == ([("a.tif", "deleted")], ["completed"])
    assert not is_there(storage, "a.tif")


def test_a_namespace_loses_only_its_own_files(
    platform: Platform, storage: Storage, settings: StorageSettings, remover: Remover
) -> None:
    seat = platform.seat()
    north = open_storage(settings, "north")
    for namespace, place in (("default", storage), ("north", north)):
        platform.register(raster_workflow(), namespace)
        make_revision(platform, seat, written(place, "a.tif"), namespace=namespace)
    [(asset_id,)] = rows(platform, "SELECT asset_id FROM dag_geospatial_assets WHERE namespace = 'north'")
    do(platform, wish(asset_id, namespace="north"))
    run_once(platform.conn, remover)
    assert (is_there(storage, "a.tif"), is_there(north, "a.tif")) == (True, False)


def test_files_in_a_container_that_namespaces_share_are_kept(
    platform: Platform, seat: Seat, storage: Storage, settings: StorageSettings
) -> None:
    asset_id = make_revision(platform, seat, written(storage, "a.tif"))
    do(platform, wish(asset_id))
    shares: dict[str, Any] = {"north": {"silver/cogs": "read"}}
    run_once(platform.conn, Remover(StorageSettings(settings.root, shares=shares)))
    assert (is_there(storage, "a.tif"), deletions(platform)) == (True, [("a.tif", "kept")])
    assert statuses(platform) == ["completed"]


# -- by a workflow -------------------------------------------------------------------------------------------------


def run_record(platform: Platform, seat: Seat, *records: Any, source_app: str = "cli") -> str:
    job_id = platform.submit(one_task(), by="bob", source_app=source_app)
    seat.work()
    given: Records = records
    report(platform, platform.claim()[0], given)
    seat.work()
    return str(platform.job(job_id)["status"])


def test_a_node_unpublishes_with_its_completion(
    platform: Platform, seat: Seat, storage: Storage, remover: Remover
) -> None:
    asset_id = make_revision(platform, seat, written(storage, "a.tif"), collection(), item("i"))
    assert run_record(platform, seat, UnpublishRecord(asset_id=asset_id)) == "completed"
    assert (statuses(platform), served(platform, asset_id)) == (["dry_run"], 1)
    record = UnpublishRecord(collection_id="c", item_id="i", dry_run=False, reason="old")
    for _ in range(2):
        assert run_record(platform, seat, record) == "completed", "the second time nothing is left"
    assert served(platform, asset_id) is None
    query = "SELECT status::text, issued_by, reason, artifacts->'files' FROM dag_unpublishings ORDER BY created_at"
    assert rows(platform, query) == [("dry_run", "bob", None, 1), ("pending", "bob", "old", 1)]
    run_once(platform.conn, remover)
    assert not is_there(storage, "a.tif")
    unknown = UnpublishRecord(collection_id="c", item_id="never", dry_run=False)
    assert run_record(platform, seat, unknown) == "completed"


def test_a_node_that_may_not_unpublish_fails(platform: Platform, seat: Seat, storage: Storage) -> None:
    asset_id = make_revision(platform, seat, written(storage, "a.tif"))
    review(platform, asset_id, 1, "approved")
    # A dry run is only written down.
    assert run_record(platform, seat, UnpublishRecord(asset_id=asset_id)) == "completed"
    assert statuses(platform) == ["dry_run"]
    for name in (asset_id, "0" * 32):
        record = UnpublishRecord(asset_id=name, dry_run=False)
        assert run_record(platform, seat, record) == "failed"
    query = "SELECT error_message FROM dag_node_states WHERE node_id = 'only' ORDER BY created_at"
    _, first, second = (str(row[0]) for row in rows(platform, query))
    assert "is approved" in first
    assert "nothing to unpublish" in second
    assert blob_states(platform) == [(1, "a.tif", "present")]
    assert run_record(platform, seat, UnpublishRecord(asset_id=asset_id, force=True, dry_run=False)) == "completed"
    check_agreement(platform, storage)
