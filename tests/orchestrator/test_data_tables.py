"""Tables in PostGIS follow the revisions: published with the node, shown with the revision, dropped with it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest
import shapely

from rmhdag.assets.revisions import AssetConflict
from rmhdag.embedded import EmbeddedPostgres
from rmhdag.models.assets import Classification
from rmhdag.models.records import TableClaimRecord, UnpublishRecord
from rmhdag.models.refusals import Refusal
from rmhdag.observability import supervision
from rmhdag.orchestrator.context import OrchestratorSettings
from rmhdag.orchestrator.duties.data_tables import LEASE_SECONDS, Shower, run_once
from rmhdag.postgis.database import DataDatabase
from rmhdag.postgis.loading import create_table
from rmhdag.services.asset_commands import delete_asset, roll_back
from rmhdag.services.reviews import approve, reject
from rmhdag.store import crash_points
from rmhdag.store.assets import find_revision, list_blobs
from rmhdag.store.batch_rows import RevisionKey
from rmhdag.store.data_tables import claim_places, list_tables
from rmhdag.store.migration import apply
from rmhdag.store.unpublishing import Unpublish, unpublish
from rmhdag.testing.bench import HandlerBench
from rmhdag.views.assets import read_lineage
from tests.conftest import required_postgis
from tests.handlers.vector.files import collection
from tests.orchestrator.assets import raster_workflow, revisions_of
from tests.orchestrator.data_tables import Data, revision, run_job, table
from tests.orchestrator.platform import Platform, open_connection
from tests.orchestrator.relays import POLL_SECONDS, Leases, fail_at_every_statement
from tests.orchestrator.test_publishing import blob, one_task
from tests.orchestrator.test_shown_revisions import begin, publish
from tests.store.waiting import is_held, wait_until


class Killed(BaseException):
    """Nothing catches it."""


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedPostgres]:
    with EmbeddedPostgres.temporary(binaries=required_postgis()) as made:
        dsn = made.create_database("template_tables")
        with psycopg.connect(dsn, autocommit=True) as conn:
            conn.execute("CREATE EXTENSION postgis")
        apply(dsn)
        yield made


@pytest.fixture
def platform(server: EmbeddedPostgres) -> Iterator[Platform]:
    name = f"test_{uuid.uuid4().hex}"
    made = Platform(server.create_database(name, template="template_tables"))
    yield made
    crash_points.disarm()
    made.close()
    server.drop_database(name)


def test_a_table_is_shown_with_its_revision_and_the_earlier_one_is_kept(platform: Platform) -> None:
    seat, data = platform.seat(), Data(platform)
    platform.register(raster_workflow())
    ordered = revision(platform, seat, data, 1)
    assert data.count("geo.roads") is None, "the relay has not run"
    data.relay()
    assert (data.count("geo.roads"), data.count("geo.table_catalog")) == (1, 1)
    revision(platform, seat, data, 2)
    data.relay()
    assert (data.count("geo.roads"), data.count("geo_work.roads_r1")) == (2, 1)
    # By the rows of the revisions alone: a rollback is a new revision with the same table.
    number = roll_back(platform.conn, "default", str(ordered.request.asset_id), 1, issued_by="ann")
    data.relay()
    assert (number, data.count("geo.roads"), data.count("geo_work.roads_r2")) == (3, 1, 2)
    delete_asset(platform.conn, "default", str(ordered.request.asset_id), issued_by="ann")
    data.relay()
    assert (data.count("geo.roads"), data.count("geo.table_catalog")) == (None, 0)


def test_only_so_many_earlier_tables_are_kept_and_the_rest_cannot_be_rolled_back_to(platform: Platform) -> None:
    seat, data = platform.seat(), Data(platform, keep=1)
    platform.register(raster_workflow())
    for number in (1, 2, 3):
        ordered = revision(platform, seat, data, number)
        data.relay()
    assert [data.count(f"geo_work.roads_r{number}") for number in (1, 2)] == [None, 2]
    with pytest.raises(AssetConflict, match="RMHDAG_TABLE_REVISIONS"):
        roll_back(platform.conn, "default", str(ordered.request.asset_id), 1, issued_by="ann")
    roll_back(platform.conn, "default", str(ordered.request.asset_id), 2, issued_by="ann")
    data.relay()
    assert data.count("geo.roads") == 2


def test_a_revision_that_waits_for_its_approval_replaces_nothing(platform: Platform) -> None:
    seat, data = platform.seat(), Data(platform)
    platform.register(raster_workflow().model_copy(update={"review": "required"}))
    for number in (1, 2):
        ordered = revision(platform, seat, data, number, blob(sha=f"{number}" * 64))
        data.relay()
        assert data.count("geo.roads") == (None if number == 1 else 1), "not before its approval"
        key = RevisionKey("default", str(ordered.request.asset_id), number)
        content = revisions_of(platform, ordered)[-1]["content_hash"]
        approve(platform.conn, key, content_hash=content, issued_by="rita", clearance=Classification.PUBLIC)
        data.relay()
        assert data.count("geo.roads") == number


def test_the_node_fails_if_the_name_belongs_to_another_asset(platform: Platform) -> None:
    seat, data = platform.seat(), Data(platform)
    platform.register(raster_workflow())
    revision(platform, seat, data, 1)
    data.relay()
    job_id = run_job(platform, seat, TableClaimRecord(table_names=("roads",), overwrite=True))
    job = platform.job(job_id)
    assert job["ending"] == "failed"
    assert "TABLE_EXISTS: the name 'roads' belongs to asset" in job["error_message"]


def test_jobs_without_an_asset_need_overwrite_and_the_older_table_is_dropped(platform: Platform) -> None:
    seat, data = platform.seat(), Data(platform)
    for number in (1, 2):
        data.table(f"roads_{number}", number)
    run_job(platform, seat, table("roads_1"))
    data.relay()
    assert data.count("geo.roads") == 1
    assert platform.job(run_job(platform, seat, table("roads_2", rows=2)))["ending"] == "failed"
    run_job(platform, seat, table("roads_2", rows=2, overwrite=True))
    data.relay()
    assert data.count("geo.roads") == 2
    assert data.count("geo_work.roads_1") is None, "nobody needs it"
    run_job(platform, seat, UnpublishRecord(table_name="roads", dry_run=False))
    data.relay()
    assert (data.count("geo.roads"), data.count("geo_work.roads_2")) == (None, None)


def test_unpublishing_drops_the_tables_in_any_order_and_twice(platform: Platform) -> None:
    seat, data = platform.seat(), Data(platform)
    platform.register(raster_workflow())
    ordered = revision(platform, seat, data, 1)
    revision(platform, seat, data, 2)
    data.relay()
    asset_id = str(ordered.request.asset_id)
    wish = Unpublish("default", asset_id, 2, "ann")
    done = unpublish(platform.conn, wish)
    assert [line.table_name for line in done.preview.dropped_tables] == ["roads"]
    assert done.status == "pending"
    data.relay()
    assert (data.count("geo.roads"), data.count("geo_work.roads_2"), data.count("geo_work.roads_r2")) == (1, None, None)
    status = "SELECT status::text, artifacts->'tables' FROM dag_unpublishings WHERE revision = 2"
    assert platform.conn.execute(status).fetchone() == ("completed", 1)
    assert unpublish(platform.conn, wish).status is None, "nothing is left"
    # By the name of the table, as workflows do it.
    run_job(platform, seat, UnpublishRecord(table_name="roads", dry_run=False))
    data.relay()
    assert (data.count("geo.roads"), data.count("geo_work.roads_1"), data.count("geo.table_catalog")) == (None, None, 0)


@pytest.mark.parametrize(
    "site", ["claim_places.after_commit", "settle_places.before_commit", "settle_places.after_commit"]
)
def test_a_relay_that_dies_leaves_the_old_table_or_the_new_one(platform: Platform, site: str) -> None:
    seat, data = platform.seat(), Data(platform)
    platform.register(raster_workflow())
    revision(platform, seat, data, 1)
    data.relay()
    revision(platform, seat, data, 2)
    crash_points.arm(site, die)
    with pytest.raises(Killed):
        run_once(platform.conn, data.shower)
    crash_points.disarm()
    assert data.count("geo.roads") in (1, 2)
    platform.conn.execute("UPDATE dag_table_places SET next_attempt_at = clock_timestamp()")
    data.relay()
    assert (data.count("geo.roads"), data.count("geo_work.roads_r1")) == (2, 1)


def test_tables_of_failed_jobs_are_dropped_in_the_end(platform: Platform) -> None:
    seat, data = platform.seat(), Data(platform)
    platform.register(raster_workflow())
    revision(platform, seat, data, 1)
    data.table("left_over")
    data.table("just_loaded")
    data.relay()
    old = "UPDATE geo_work.loaded_tables SET created_at = now() - interval '40 days' WHERE stored_name <> 'just_loaded'"
    platform.conn.execute(old)
    data.shower.strays_due_at = 0
    run_once(platform.conn, data.shower)
    assert (data.count("geo_work.left_over"), data.count("geo_work.just_loaded"), data.count("geo.roads")) == (
        None,
        1,
        1,
    )


def test_a_data_database_that_was_ahead_is_caught_up_with(platform: Platform) -> None:
    """Its rows are newer than ours, as after our database was restored from a backup."""
    seat, data = platform.seat(), Data(platform)
    platform.register(raster_workflow())
    revision(platform, seat, data, 1)
    data.relay()
    platform.conn.execute("UPDATE geo_work.places SET version = 40")
    revision(platform, seat, data, 2)
    run_once(platform.conn, data.shower)
    platform.conn.execute("UPDATE dag_table_places SET next_attempt_at = clock_timestamp()")
    data.relay()
    assert data.count("geo.roads") == 2


def test_a_table_that_is_gone_is_dead_after_three_tries_and_says_why(platform: Platform) -> None:
    seat, data = platform.seat(), Data(platform)
    platform.register(raster_workflow())
    _, claimed = begin(platform, seat)
    publish(platform, seat, claimed, table("never_made"))
    for _ in range(3):
        platform.conn.execute("UPDATE dag_table_places SET next_attempt_at = clock_timestamp()")
        run_once(platform.conn, data.shower)
    row = platform.conn.execute("SELECT status::text, last_error FROM dag_table_places").fetchone()
    assert row is not None
    assert (row[0], "load it again" in row[1]) == ("dead", True)


def die() -> None:
    raise Killed


def expire_leases(platform: Platform) -> None:
    """What a killed relay has claimed is due after LEASE_SECONDS at the latest; that time passes now."""
    query = """SELECT count(*) FROM (
            SELECT next_attempt_at FROM dag_table_places WHERE status = 'pending'
            UNION ALL SELECT next_attempt_at FROM dag_data_tables WHERE state = 'dropping'
        ) AS waiting WHERE next_attempt_at > clock_timestamp() + make_interval(secs => %s)"""
    assert platform.conn.execute(query, [LEASE_SECONDS]).fetchone() == (0,)
    platform.conn.execute("UPDATE dag_table_places SET next_attempt_at = clock_timestamp() WHERE status = 'pending'")
    platform.conn.execute("UPDATE dag_data_tables SET next_attempt_at = clock_timestamp() WHERE state = 'dropping'")


@pytest.mark.parametrize("step", ["claim_places", "settle_places", "claim_drops", "settle_drop"])
@pytest.mark.parametrize("moment", ["before_commit", "after_commit"])
def test_the_old_table_is_dropped_whenever_the_relay_dies(platform: Platform, step: str, moment: str) -> None:
    seat, data = platform.seat(), Data(platform)
    for number in (1, 2):
        data.table(f"roads_{number}", number)
        run_job(platform, seat, table(f"roads_{number}", rows=number, overwrite=True))
        if number == 1:
            data.relay()
    crash_points.arm(f"{step}.{moment}", die)
    with pytest.raises(Killed):
        data.relay()
    expire_leases(platform)
    another = Data(platform)
    another.relay()
    assert (data.count("geo.roads"), data.count("geo_work.roads_1")) == (2, None)
    states = "SELECT stored_name, state::text FROM dag_data_tables ORDER BY 1"
    assert platform.conn.execute(states).fetchall() == [("roads_1", "dropped"), ("roads_2", "present")]


def test_a_relay_that_dies_right_after_the_switch_forgets_no_earlier_revision(platform: Platform) -> None:
    seat, data = platform.seat(), Data(platform, keep=1)
    platform.register(raster_workflow())
    for number in (1, 2):
        revision(platform, seat, data, number)
        data.relay()
    revision(platform, seat, data, 3)
    crash_points.arm("settle_places.after_commit", die)
    with pytest.raises(Killed):
        data.relay()
    expire_leases(platform)
    Data(platform, keep=1).relay()
    assert [data.count(f"geo_work.roads_r{number}") for number in (1, 2)] == [None, 2]
    assert data.count("geo.roads") == 3


def test_a_table_that_was_overwritten_and_unpublished_before_the_relay_came_leaves_nothing(platform: Platform) -> None:
    seat, data = platform.seat(), Data(platform)
    for number in (1, 2):
        data.table(f"roads_{number}", number)
    run_job(platform, seat, table("roads_1"))
    data.relay()
    run_job(platform, seat, table("roads_2", rows=2, overwrite=True))
    run_job(platform, seat, UnpublishRecord(table_name="roads", dry_run=False))
    data.relay()
    assert [data.count(name) for name in ("geo.roads", "geo_work.roads_1", "geo_work.roads_2")] == [None, None, None]


def test_a_drop_that_was_refused_does_not_wait_once_the_name_is_free(platform: Platform) -> None:
    seat, data = platform.seat(), Data(platform)
    data.table("roads_1")
    run_job(platform, seat, table("roads_1"))
    data.relay()
    with psycopg.connect(data.dsn) as reader:
        reader.execute("SELECT count(*) FROM geo.roads")
        run_job(platform, seat, UnpublishRecord(table_name="roads", dry_run=False))
        platform.conn.execute("UPDATE dag_data_tables SET attempts = 9 WHERE state = 'dropping'")
        run_once(platform.conn, data.shower)
    row = platform.conn.execute(
        "SELECT last_error, next_attempt_at > clock_timestamp() + interval '1 minute' FROM dag_data_tables"
    ).fetchone()
    assert row == ("a public name still shows it", True), "after ten tries, the next one is minutes away"
    platform.conn.execute("UPDATE dag_table_places SET next_attempt_at = clock_timestamp()")
    data.relay()
    assert (data.count("geo.roads"), data.count("geo_work.roads_1")) == (None, None)


def test_a_server_without_postgis_is_waited_for(platform: Platform, server: EmbeddedPostgres) -> None:
    seat, data = platform.seat(), Data(platform)
    data.table("roads_1")
    run_job(platform, seat, table("roads_1"))
    name = f"bare_{uuid.uuid4().hex}"
    bare = Shower(server.create_database(name))
    for _ in range(5):
        platform.conn.execute("UPDATE dag_table_places SET next_attempt_at = clock_timestamp()")
        run_once(platform.conn, bare)
    server.drop_database(name)
    row = platform.conn.execute("SELECT status::text, attempts, last_error FROM dag_table_places").fetchone()
    assert row is not None
    assert (row[0], row[1], "CREATE EXTENSION postgis" in row[2]) == ("pending", 5, True)
    platform.conn.execute("UPDATE dag_table_places SET next_attempt_at = clock_timestamp()")
    data.relay()
    assert data.count("geo.roads") == 1


def test_the_server_ends_what_a_dead_machine_has_left_open(platform: Platform) -> None:
    with Data(platform).database.connect() as conn:
        names = ("idle_in_transaction_session_timeout", "tcp_keepalives_idle", "tcp_keepalives_interval")
        query = "SELECT array_agg(setting::int ORDER BY name) FROM pg_settings WHERE name = ANY(%s)"
        assert conn.execute(query, [list(names)]).fetchone() == ([60_000, 30, 10],)


def test_tables_of_namespaces_are_apart(platform: Platform) -> None:
    """The same name in two namespaces: each is shown, overwritten and dropped in schemas of its own."""
    seat, data = platform.seat(), Data(platform)
    other = DataDatabase(data.dsn, "alpha")
    data.table("roads_1", 1)
    with other.connect() as conn:
        for number in (2, 3):
            create_table(other, conn, f"roads_{number}", "MultiPoint", [])
            rows = f"SELECT n, NULL FROM generate_series(1, {number}) AS n"
            conn.execute(f'INSERT INTO "geo_work-alpha".roads_{number} {rows}'.encode())

    def publish_in_alpha(*records: Any) -> str:
        job_id = platform.submit(one_task(), namespace="alpha")
        seat.work()
        [claimed] = platform.claim()
        publish(platform, seat, claimed, *records)
        job = platform.job(job_id)
        return str(job["ending"] or job["status"])

    def counts() -> tuple[int | None, int | None]:
        return data.count("geo.roads"), data.count('"geo-alpha".roads')

    run_job(platform, seat, table("roads_1"))
    assert publish_in_alpha(table("roads_2", rows=2)) == "completed", "the name is free there"
    data.relay()
    assert counts() == (1, 2)
    assert publish_in_alpha(table("roads_3", rows=3)) == "failed", "and now it is taken, without overwrite"
    assert publish_in_alpha(table("roads_3", rows=3, overwrite=True)) == "completed"
    data.relay()
    assert counts() == (1, 3)
    assert data.count('"geo_work-alpha".roads_2') is None
    assert publish_in_alpha(UnpublishRecord(table_name="roads", dry_run=False)) == "completed"
    data.relay()
    assert counts() == (1, None)
    assert (data.count("geo.table_catalog"), data.count('"geo-alpha".table_catalog')) == (1, 0)


# -- names belong to one asset --------------------------------------------------------------------------------------

OTHER = {"platform_refs": {"dataset_id": "other", "resource_id": "r1"}}


def owners_of(platform: Platform, name: str) -> list[tuple[Any, ...]]:
    query = "SELECT asset_id, table_id IS NOT NULL FROM dag_table_places WHERE table_name = %s"
    return platform.conn.execute(query, [name]).fetchall()


def test_two_assets_that_are_made_at_once_do_not_take_one_name(platform: Platform) -> None:
    """Neither is shown when the other is loaded, so only what both have published tells."""
    seat, data = platform.seat(), Data(platform)
    platform.register(raster_workflow().model_copy(update={"review": "required"}))
    first = revision(platform, seat, data, 1)
    data.table("roads_2")
    second, claimed = begin(platform, seat, input_params={"n": 2}, **OTHER)
    publish(platform, seat, claimed, table("roads_2"))
    assert platform.job(str(second.request.job_id))["status"] == "failed"
    assert owners_of(platform, "roads") == []
    key = RevisionKey("default", str(first.request.asset_id), 1)
    line = find_revision(platform.conn, key)
    assert line is not None
    approve(platform.conn, key, content_hash=str(line.content_hash), issued_by="rita", clearance=Classification.PUBLIC)
    assert owners_of(platform, "roads") == [(first.request.asset_id, True)]


def test_a_name_is_free_when_the_revision_that_wanted_it_has_failed_or_was_rejected(platform: Platform) -> None:
    seat, data = platform.seat(), Data(platform)
    platform.register(raster_workflow().model_copy(update={"review": "required"}))
    first = revision(platform, seat, data, 1)
    key = RevisionKey("default", str(first.request.asset_id), 1)
    line = find_revision(platform.conn, key)
    assert line is not None
    reject(platform.conn, key, content_hash=str(line.content_hash), issued_by="rita", reason="clouds")
    data.table("roads_2")
    second, claimed = begin(platform, seat, input_params={"n": 2}, **OTHER)
    publish(platform, seat, claimed, table("roads_2"))
    assert platform.job(str(second.request.job_id))["status"] == "completed"


def test_a_rollback_does_not_take_a_name_that_another_asset_has_by_now(platform: Platform) -> None:
    seat, data = platform.seat(), Data(platform)
    platform.register(raster_workflow())
    first = revision(platform, seat, data, 1)
    data.table("streets_1")
    _, claimed = begin(platform, seat, input_params={"n": 2})
    publish(platform, seat, claimed, table("streets_1", "streets"))
    data.table("roads_9", 9)
    second, claimed = begin(platform, seat, input_params={"n": 9}, **OTHER)
    publish(platform, seat, claimed, table("roads_9"))
    data.relay()
    assert data.count("geo.roads") == 9
    with pytest.raises(Refusal, match="'roads' belongs to asset"):
        roll_back(platform.conn, "default", str(first.request.asset_id), 1, issued_by="ann")
    # To unpublish goes on, but what is served then does not take the name either.
    unpublish(platform.conn, Unpublish("default", str(first.request.asset_id), 2, "ann", True))
    data.relay()
    assert owners_of(platform, "roads") == [(second.request.asset_id, True)]
    assert data.count("geo.roads") == 9


def test_a_rollback_keeps_its_tables_though_earlier_ones_are_dropped_meanwhile(platform: Platform) -> None:
    """The rollback has found all tables of revision 1; before it copies their rows, the relay gives them up."""
    seat, data = platform.seat(), Data(platform, keep=1)
    platform.register(raster_workflow())
    ordered = revision(platform, seat, data, 1)
    revision(platform, seat, data, 2)
    data.relay()
    revision(platform, seat, data, 3)
    asset_id = str(ordered.request.asset_id)
    gate, operator = open_connection(platform.dsn), open_connection(platform.dsn)
    relaying = open_connection(platform.dsn)
    with gate, operator, relaying, ThreadPoolExecutor(2) as threads:
        gate.execute("BEGIN")
        gate.execute("LOCK TABLE dag_dataset_refs IN SHARE MODE")
        rolling = threads.submit(roll_back, operator, "default", asset_id, 1, issued_by="ann")
        wait_until(lambda: is_held(platform.conn, operator))
        relay = threads.submit(run_once, relaying, data.shower)
        wait_until(lambda: relay.done() or is_held(platform.conn, relaying))
        gate.execute("COMMIT")
        assert rolling.result() == 4
        relay.result()
    data.relay()
    assert data.count("geo.roads") == 1


def test_a_claim_shows_the_table_of_the_version_that_it_claims(platform: Platform) -> None:
    """The name gets its next table between the snapshot of the claim and its lock on the row."""
    seat, data = platform.seat(), Data(platform)
    platform.register(raster_workflow())
    revision(platform, seat, data, 1)
    data.table("roads_2", 2)
    _, claimed = begin(platform, seat, input_params={"n": 2})
    gate, relaying = open_connection(platform.dsn), open_connection(platform.dsn)
    # The clock of this connection waits for the gate: it is read in the middle of the statement.
    platform.conn.execute("CREATE SCHEMA slow")
    platform.conn.execute("""CREATE FUNCTION slow.clock_timestamp() RETURNS timestamptz LANGUAGE plpgsql AS $$ BEGIN
        PERFORM pg_advisory_lock_shared(7), pg_advisory_unlock_shared(7);
        RETURN pg_catalog.clock_timestamp();
    END $$""")
    with gate, relaying, ThreadPoolExecutor(1) as threads:
        relaying.execute("SET search_path TO slow, dagapp, pg_catalog")
        gate.execute("SELECT pg_advisory_lock(7)")
        claiming = threads.submit(claim_places, relaying, limit=1, lease_seconds=10.0)
        wait_until(lambda: is_held(platform.conn, relaying))
        publish(platform, seat, claimed, table("roads_2", rows=2))
        gate.execute("SELECT pg_advisory_unlock(7)")
        places = claiming.result()
    assert [(place.version, place.stored_name) for place in places] in ([], [(2, "roads_2")])


@pytest.mark.parametrize("fault", [RuntimeError("once"), None], ids=["ours", "line"])
def test_an_error_at_any_statement_of_the_relay_costs_no_table(
    platform: Platform, fault: Exception | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervision, "FIRST_PAUSE_SECONDS", 0.0)
    seat, data, leases = platform.seat(), Data(platform), Leases(platform, "dag_table_places")
    platform.register(raster_workflow())
    numbers, newest = count(1), 0

    def prepare() -> None:
        nonlocal newest
        newest = next(numbers)
        revision(platform, seat, data, newest)

    def is_done() -> bool:
        leases.end()
        settled = "SELECT bool_and(status = 'shown') FROM dag_table_places"
        return platform.conn.execute(settled.encode()).fetchone() == (True,) and data.count("geo.roads") == newest

    settings = OrchestratorSettings(poll_seconds=POLL_SECONDS, postgis_dsn=data.dsn, table_revisions=100)
    statements = fail_at_every_statement(platform, seat, "update_catalogue", settings, fault, prepare, is_done)
    assert statements > 3
    assert [data.count(f"geo_work.roads_r{number}") for number in range(1, newest)] == list(range(1, newest))


def test_what_a_vector_file_became_follows_its_revisions(platform: Platform, tmp_path: Path) -> None:
    """With the records of the handlers themselves: files, table and lineage of each revision, and of a rollback."""
    seat, data = platform.seat(), Data(platform)
    platform.register(raster_workflow())
    bench = HandlerBench(tmp_path, postgis_url=data.dsn)
    asset_id = ""
    for number in (1, 2):
        name = f"roads_{number}.geojson"
        file = bench.put(collection(*((shapely.Point(n, 50), {"n": n}) for n in range(number))), name)
        ordered, claimed = begin(platform, seat, input_params={"n": number})
        params = {"container_name": "in", "blob_name": name, "table_name": "roads"}
        run = bench.run("vector.docker_complete", params, job_id=claimed.job_id)
        publish(platform, seat, claimed, *run.records)
        data.relay()
        asset_id = str(ordered.request.asset_id)
        key = RevisionKey("default", asset_id, number)
        [source] = read_lineage(platform.conn, key).sources
        assert (source.source_url, source.role) == (bench.path(file).as_uri(), "source")
        roles = sorted(str(one.role) for one in list_blobs(platform.conn, key))
        assert roles == ["data", "manifest"]
        assert data.count("geo.roads") == number
    number = roll_back(platform.conn, "default", asset_id, 1, issued_by="ann")
    data.relay()
    key = RevisionKey("default", asset_id, number)
    assert data.count("geo.roads") == 1
    [source] = read_lineage(platform.conn, key).sources
    assert (source.source_asset_id, source.source_revision, source.role) == (asset_id, 1, "rollback")
    assert [one.revision for one in read_lineage(platform.conn, key._replace(revision=1)).descendants] == [number]
    [shown] = list_tables(platform.conn, key)
    assert (shown.table_name, shown.feature_count) == ("roads", 1)
