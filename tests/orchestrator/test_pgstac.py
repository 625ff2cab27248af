"""The publish lane with pgSTAC: the catalogue commits with the node, in one transaction, or the node fails."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from rmhdag.embedded import EmbeddedPostgres
from rmhdag.models.assets import Classification
from rmhdag.models.catalogue import CatalogueKind
from rmhdag.models.leases import ClaimedTask
from rmhdag.models.records import ApprovalDecisionRecord, Records, StacCollectionRecord, StacItemRecord
from rmhdag.models.scopes import Scope
from rmhdag.orchestrator.context import OrchestratorSettings
from rmhdag.orchestrator.duties.catalogue import Relay, run_once
from rmhdag.services.asset_commands import delete_asset, roll_back
from rmhdag.services.requests import Ordered
from rmhdag.services.reviews import approve, revoke
from rmhdag.storage import StorageSettings
from rmhdag.store import crash_points
from rmhdag.store.api_keys import create_key
from rmhdag.store.batch_rows import EntryChange, RevisionKey
from rmhdag.store.catalogue_removals import remove_from_catalogue
from rmhdag.store.migration import apply
from rmhdag.store.pgstac import has_pgstac
from rmhdag.store.publishing import PublishFailed, put_in_catalogue
from tests.conftest import require, required_binaries
from tests.orchestrator.assets import place_order, raster_workflow, revisions_of
from tests.orchestrator.platform import Platform, Seat
from tests.orchestrator.test_publishing import ASSET, blob, one_task, report
from tests.orchestrator.test_shown_revisions import two_steps
from tests.pinned_folders import pinned_folder

EXTENSIONS = ("postgis", "btree_gist", "unaccent")
SETTINGS = OrchestratorSettings(catalogue=CatalogueKind.PGSTAC)


class Killed(BaseException):
    """Nothing catches it."""


def pgstac_script() -> Path:
    """Only the file: the package that brings it is never imported."""
    scripts = (pinned_folder("pgstac", "pgstac.txt") / "pypgstac" / "migrations").glob("pgstac.*.sql")
    whole = [path for path in scripts if "-" not in path.name and "unreleased" not in path.name]
    require(whole, "pgSTAC is not there: scripts/setup dev unpacks it")
    return max(whole, key=lambda path: [int(part) for part in path.name.split(".")[1:-1]])


@pytest.fixture(scope="module")
def catalogue_server() -> Iterator[tuple[EmbeddedPostgres, str]]:
    with EmbeddedPostgres.temporary(binaries=required_binaries("debian15")) as server:
        dsn = server.create_database("template_pgstac")
        with psycopg.connect(dsn, autocommit=True) as conn:
            known = conn.execute("SELECT count(*) FROM pg_available_extensions WHERE name = 'postgis'").fetchone()
            require(known == (1,), "Debian's postgresql-15-postgis-3 is not installed")
            for name in EXTENSIONS:
                conn.execute(f"CREATE EXTENSION {name}".encode())
            conn.execute(pgstac_script().read_bytes())
        apply(dsn)
        yield server, "template_pgstac"


@pytest.fixture
def platform(catalogue_server: tuple[EmbeddedPostgres, str]) -> Iterator[Platform]:
    server, template = catalogue_server
    name = f"test_{uuid.uuid4().hex}"
    made = Platform(server.create_database(name, template=template))
    yield made
    crash_points.disarm()
    made.close()
    server.drop_database(name)


def collection(**more: Any) -> StacCollectionRecord:
    extent = {"spatial": {"bbox": [[0, 0, 1, 1]]}, "temporal": {"interval": [["2020-01-01T00:00:00Z", None]]}}
    body = {"id": "c", "type": "Collection", "stac_version": "1.0.0", "description": "d", "license": "x", "links": []}
    return StacCollectionRecord(collection={**body, "extent": extent, **more})


def item(number: int = 1, item_id: str = "i", **more: Any) -> StacItemRecord:
    body = {
        "id": item_id,
        "type": "Feature",
        "stac_version": "1.0.0",
        "collection": "c",
        "geometry": {"type": "Point", "coordinates": [0.5, 0.5]},
        "bbox": [0.5, 0.5, 0.5, 0.5],
        "properties": {"datetime": "2020-01-02T00:00:00Z", "n": number},
        "links": [],
        "assets": {},
    }
    return StacItemRecord(collection_id="c", item={**body, **more})


def found(platform: Platform) -> list[Any]:
    row = platform.conn.execute("SET search_path = pgstac, public; SELECT pgstac.search('{}')")
    row.nextset()
    answer = row.fetchone()
    platform.conn.execute("SET search_path TO dagapp")
    assert answer is not None
    return [one["properties"]["n"] for one in answer[0]["features"]]


def run(platform: Platform, seat: Seat, records: Records) -> str:
    job_id = platform.submit(one_task())
    seat.work()
    report(platform, platform.claim()[0], records)
    seat.work()
    return job_id


def test_an_item_is_in_the_catalogue_when_its_node_is_completed(platform: Platform) -> None:
    seat = platform.seat(SETTINGS)
    assert has_pgstac(platform.conn)
    assert platform.job(run(platform, seat, (blob(), collection(), item())))["status"] == "completed"
    assert found(platform) == [1]
    run(platform, seat, (collection(title="again"), item(2)))
    assert found(platform) == [2]
    state = platform.conn.execute(
        "SELECT item_id, version, published_version, status::text FROM dag_catalogue_entries ORDER BY 1"
    ).fetchall()
    assert state == [("", 2, 2, "published"), ("i", 2, 2, "published")]


def test_what_a_job_without_an_asset_mends_is_told_though_it_is_not_its_own(platform: Platform) -> None:
    seat = platform.seat(SETTINGS)
    run(platform, seat, (collection(), item(1)))
    platform.conn.execute("UPDATE dag_catalogue_entries SET asset_id = %s, revision = 1 WHERE item_id = 'i'", [ASSET])
    run(platform, seat, (item(2),))
    assert found(platform) == [2]


def test_what_pgstac_refuses_fails_the_node_and_leaves_nothing(platform: Platform) -> None:
    seat = platform.seat(SETTINGS)
    alone = platform.job(run(platform, seat, (blob(), item())))
    assert alone["status"] == "failed"
    assert "there is no collection 'c': create it before its items" in alone["error_message"]
    run(platform, seat, (collection(),))
    broken = platform.job(run(platform, seat, (blob(), item(geometry={"type": "Nonsense"}))))
    assert broken["status"] == "failed"
    assert "the database refused it" in broken["error_message"]
    assert platform.count("dag_blob_assets") == 0
    assert platform.count("dag_catalogue_entries") == 1
    assert found(platform) == []
    assert platform.job(run(platform, seat, (blob(), item())))["status"] == "completed"


@pytest.mark.parametrize(("point", "before"), [("settle.before_commit", []), ("settle.after_commit", [1])])
def test_an_orchestrator_that_dies_publishes_exactly_once(platform: Platform, point: str, before: list[int]) -> None:
    doomed = platform.seat(SETTINGS)
    run(platform, doomed, (collection(),))
    job_id = platform.submit(one_task())
    doomed.work()
    report(platform, platform.claim()[0], (blob(), item()))

    def die() -> None:
        doomed.conn.close()
        raise Killed

    crash_points.arm(point, die)
    with pytest.raises(Killed):
        doomed.work()
    assert found(platform) == before
    heir = platform.seat(SETTINGS)
    platform.conn.execute(
        "UPDATE dag_jobs SET owner_id = %s, owner_epoch = owner_epoch + 1 WHERE completed_at IS NULL", [heir.me]
    )
    platform.conn.execute("UPDATE dag_inbox SET owner_id = %s", [heir.me])
    heir.work()
    assert platform.job(job_id)["status"] == "completed"
    assert found(platform) == [1]
    assert platform.count("dag_blob_assets") == 1


def begin(platform: Platform, seat: Seat, workflow_id: str = "make_raster", **more: Any) -> tuple[Ordered, ClaimedTask]:
    ordered = place_order(platform.conn, workflow_id, **more)
    seat.work()
    [claimed] = platform.claim()
    return ordered, claimed


def ids(platform: Platform) -> list[str]:
    return [row[0] for row in platform.conn.execute("SELECT id FROM pgstac.items ORDER BY id")]


def unpublished(platform: Platform) -> int:
    return platform.count("dag_catalogue_entries WHERE status <> 'published'")


def test_a_revision_is_switched_by_the_transaction_that_completes_it(platform: Platform) -> None:
    seat = platform.seat(SETTINGS)
    run(platform, seat, (collection(),))
    platform.register(two_steps())
    _, first = begin(platform, seat, "two_steps")
    report(platform, first, (item(1, "kept"), item(1, "gone")))
    seat.work()
    assert ids(platform) == [], "the revision is not completed"
    platform.finish(seat)
    assert (ids(platform), unpublished(platform)) == (["gone", "kept"], 0)
    _, second = begin(platform, seat, "two_steps", input_params={"n": 2})
    report(platform, second, (item(2, "kept"), item(2, "new")))
    seat.work()
    assert found(platform) == [1, 1]
    platform.finish(seat)
    assert (ids(platform), found(platform), unpublished(platform)) == (["kept", "new"], [2, 2], 0)
    bodies = "SELECT item_id FROM dag_catalogue_entries WHERE body = '{}'"
    assert platform.conn.execute(bodies).fetchall() == [("gone",)]


def test_what_pgstac_refuses_fails_the_node_of_a_revision_too(platform: Platform) -> None:
    seat = platform.seat(SETTINGS)
    platform.register(raster_workflow())
    ordered, first = begin(platform, seat)
    report(platform, first, (blob(), item()))
    seat.work()
    run(platform, seat, (collection(),))
    _, second = begin(platform, seat, input_params={"n": 2})
    report(platform, second, (blob(), item(), item(2, "broken", geometry={"type": "Nonsense"})))
    seat.work()
    missing, broken = (row["error_message"] for row in revisions_of(platform, ordered))
    assert "there is no collection 'c': create it before its items" in missing
    assert "the database refused it" in broken
    assert ids(platform) == []
    assert platform.count("dag_blob_assets") == platform.count("dag_revision_items") == 0
    # The search path is ours again, and statements that were prepared before are still known.
    _, third = begin(platform, seat, input_params={"n": 3})
    report(platform, third, (blob(), item(3)))
    seat.work()
    assert found(platform) == [3]


def test_what_pgstac_refuses_when_the_revision_completes_is_left_to_the_relay(platform: Platform) -> None:
    """It took the item when the node published it; the collection has gone since."""
    seat = platform.seat(SETTINGS)
    relay = Relay(CatalogueKind.PGSTAC, StorageSettings())
    run(platform, seat, (collection(),))
    platform.register(two_steps())
    ordered, first = begin(platform, seat, "two_steps")
    report(platform, first, (item(1),))
    seat.work()
    platform.conn.execute("SET search_path = pgstac, public; DELETE FROM pgstac.collections; SET search_path TO dagapp")
    platform.finish(seat)
    assert revisions_of(platform, ordered)[0]["status"] == "completed"
    assert (ids(platform), unpublished(platform)) == ([], 1)
    run(platform, seat, (collection(),))
    assert run_once(platform.conn, relay) == 1
    assert (ids(platform), unpublished(platform)) == (["i"], 0)


def test_a_rollback_and_a_deletion_reach_pgstac_through_the_relay(platform: Platform) -> None:
    seat = platform.seat(SETTINGS)
    relay = Relay(CatalogueKind.PGSTAC, StorageSettings())
    run(platform, seat, (collection(),))
    platform.register(raster_workflow())
    for number in (1, 2):
        ordered, claimed = begin(platform, seat, input_params={"n": number})
        report(platform, claimed, (item(number, f"of-{number}"),))
        seat.work()
    asset_id = ordered.request.asset_id or ""
    roll_back(platform.conn, "default", asset_id, 1, issued_by="ann")
    run_once(platform.conn, relay)
    assert (ids(platform), found(platform)) == (["of-1"], [1])
    delete_asset(platform.conn, "default", asset_id, issued_by="ann")
    run_once(platform.conn, relay)
    assert (ids(platform), unpublished(platform)) == ([], 0)


def test_decisions_of_reviewers_reach_pgstac(platform: Platform) -> None:
    """Through the relay, if they come over HTTP; in the transaction of the job, if a handler of it decides."""
    seat = platform.seat(SETTINGS)
    relay = Relay(CatalogueKind.PGSTAC, StorageSettings())
    platform.register(raster_workflow().model_copy(update={"review": "required"}))
    run(platform, seat, (collection(),))
    for number in (1, 2):
        ordered, claimed = begin(platform, seat, input_params={"n": number})
        report(platform, claimed, (blob(sha=f"{number}" * 64), item(number)))
        seat.work()
        assert found(platform) == ([] if number == 1 else [1]), "not before its approval"
        key = RevisionKey("default", ordered.request.asset_id or "", number)
        if number == 1:
            content = content_of(platform, key)
            approve(platform.conn, key, content_hash=content, issued_by="rita", clearance=Classification.PUBLIC)
            run_once(platform.conn, relay)
            assert found(platform) == [1]
    create_key(platform.conn, "ann", [Scope.REVIEWER], created_by="test")
    decision = ApprovalDecisionRecord(
        asset_id=key.asset_id,
        revision=2,
        content_hash=content_of(platform, key),
        decision="approve",
        clearance="public",
    )
    run(platform, seat, (decision,))
    assert found(platform) == [2], "without the relay"
    for number, left in ((2, [1]), (1, [])):
        earlier = key._replace(revision=number)
        revoke(platform.conn, earlier, content_hash=content_of(platform, earlier), issued_by="rita", reason="x")
        run_once(platform.conn, relay)
        assert found(platform) == left
    assert unpublished(platform) == 0


def content_of(platform: Platform, key: RevisionKey) -> str:
    query = "SELECT content_hash FROM dag_asset_revisions WHERE asset_id = %s AND revision = %s"
    row = platform.conn.execute(query, [key.asset_id, key.revision]).fetchone()
    assert row is not None
    return str(row[0])


@pytest.mark.parametrize("point", ["settle_entries_in_pgstac.before_commit", "settle_entries_in_pgstac.after_commit"])
def test_what_is_published_without_a_node_is_told_by_the_relay(platform: Platform, point: str) -> None:
    """A rollback: its entries wait; whoever tells them may die."""
    relay = Relay(CatalogueKind.PGSTAC, StorageSettings())
    run(platform, platform.seat(SETTINGS), (collection(), item(1)))

    def put(*, removed: bool) -> None:
        with platform.conn.transaction():
            change = EntryChange("c", "i", "default", removed, item(5).item)
            put_in_catalogue(platform.conn, CatalogueKind.STATIC, [change])

    def die() -> None:
        raise Killed

    put(removed=False)
    crash_points.arm(point, die)
    with pytest.raises(Killed):
        run_once(platform.conn, relay)
    platform.conn.execute("UPDATE dag_catalogue_entries SET next_attempt_at = '2000-01-01'")
    run_once(platform.conn, relay)
    assert found(platform) == [5]
    put(removed=True)
    assert run_once(platform.conn, relay) == 1
    assert found(platform) == []
    assert run_once(platform.conn, relay) == 0


def test_an_item_that_a_person_takes_out_is_gone_from_pgstac(platform: Platform) -> None:
    changes = [
        EntryChange("c", "", "default", False, collection().collection),
        *[EntryChange("c", name, "default", False, item(item_id=name).item) for name in ("i", "j")],
    ]
    with platform.conn.transaction():
        put_in_catalogue(platform.conn, CatalogueKind.PGSTAC, changes)
    remove_from_catalogue(platform.conn, "default", "c", "i", actor="ada")
    assert run_once(platform.conn, Relay(CatalogueKind.PGSTAC, StorageSettings())) == 1
    assert platform.conn.execute("SELECT id FROM pgstac.items").fetchall() == [("j",)]


def test_namespaces_have_collections_of_their_own(platform: Platform) -> None:
    """pgSTAC knows no namespaces: ids of those other than `default` have a name before them there."""
    changes = [
        EntryChange("c", item_id, namespace, False, body)
        for namespace, number in (("default", 1), ("alpha", 2))
        for item_id, body in (("", collection().collection), ("i", item(number).item))
    ]
    with platform.conn.transaction():
        put_in_catalogue(platform.conn, CatalogueKind.PGSTAC, changes)
    listed = "SELECT collection, id FROM pgstac.items ORDER BY 1"
    assert platform.conn.execute(listed).fetchall() == [("c", "i"), ("namespace-alpha:c", "i")]
    assert (sorted(found(platform)), unpublished(platform)) == ([1, 2], 0)
    remove_from_catalogue(platform.conn, "alpha", "c", "i", actor="ann")
    run_once(platform.conn, Relay(CatalogueKind.PGSTAC, StorageSettings()))
    assert platform.conn.execute(listed).fetchall() == [("c", "i")]
    claimed = [EntryChange("namespace-alpha:c", "", "default", False, collection().collection)]
    with pytest.raises(PublishFailed, match="begins the ids of other namespaces in pgSTAC"):
        put_in_catalogue(platform.conn, CatalogueKind.PGSTAC, claimed)


def test_a_revision_of_another_namespace_is_switched_in_its_own_collection(platform: Platform) -> None:
    seat = platform.seat(SETTINGS)
    run(platform, seat, (collection(),))
    with platform.conn.transaction():
        body = collection().collection
        put_in_catalogue(platform.conn, CatalogueKind.PGSTAC, [EntryChange("c", "", "alpha", False, body)])
    platform.register(two_steps(), "alpha")
    for number, names in ((1, ("kept", "gone")), (2, ("kept",))):
        _, first = begin(platform, seat, "two_steps", namespace="alpha", input_params={"n": number})
        report(platform, first, tuple(item(number, name) for name in names))
        seat.work()
        platform.finish(seat)
    listed = "SELECT collection, id FROM pgstac.items ORDER BY 1"
    assert platform.conn.execute(listed).fetchall() == [("namespace-alpha:c", "kept")]
