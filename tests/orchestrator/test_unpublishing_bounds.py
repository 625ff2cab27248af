"""Unpublishing within its bounds: how much one statement may write, and who may have a workflow do it."""

from __future__ import annotations

from pathlib import Path

import pytest

from rmhdag.models.records import UnpublishRecord
from rmhdag.models.scopes import Scope
from rmhdag.services.unpublishing import preview_unpublishing
from rmhdag.storage import Storage, StorageSettings, open_storage
from rmhdag.store import api_keys
from rmhdag.workflow.definition import WorkflowNode
from tests.engine.definitions import workflow
from tests.orchestrator.assets import raster_workflow
from tests.orchestrator.platform import Platform, Seat
from tests.orchestrator.test_publishing import one_task, report, rows
from tests.orchestrator.test_unpublishing import blob_states, do, make_revision, run_record, wish, written


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return open_storage(StorageSettings(str(tmp_path / "blobs")), "default")


@pytest.fixture
def seat(platform: Platform) -> Seat:
    platform.register(raster_workflow())
    return platform.seat()


def test_any_number_of_files_goes_in_statements_of_bounded_size(
    platform: Platform, seat: Seat, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database itself counts the rows of each statement that writes."""
    monkeypatch.setattr("rmhdag.store.unpublishing.FILES_PER_STATEMENT", 10)
    asset_id = make_revision(platform, seat, written(storage, "0.tif"))
    more = platform.conn.execute(
        "INSERT INTO dag_blob_assets SELECT (jsonb_populate_record(b, jsonb_build_object("
        "'blob_id', md5(n::text), 'asset_id', CASE WHEN n < 1000 THEN b.asset_id END,"
        " 'revision', CASE WHEN n < 1000 THEN b.revision END, 'path', (n % 1000) || '.tif'))).*"
        " FROM dag_blob_assets AS b, generate_series(1, 1003) AS n WHERE n < 95 OR n > 1000"
    )
    assert more.rowcount == 97, "three of them are of a job without an asset, at places of the revision"
    platform.conn.execute(
        "CREATE FUNCTION few() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " IF (SELECT count(*) FROM changed) > 10 THEN RAISE 'too many rows in one statement'; END IF;"
        " RETURN NULL; END $$"
    )
    for event, table in (("UPDATE", "dag_blob_assets"), ("INSERT", "dag_file_deletions")):
        platform.conn.execute(
            f"CREATE TRIGGER few AFTER {event} ON {table} REFERENCING NEW TABLE AS changed"
            " FOR EACH STATEMENT EXECUTE FUNCTION few()".encode()
        )
    seen = preview_unpublishing(platform.conn, wish(asset_id))
    assert [file.path for file in seen.files] == sorted(f"{n}.tif" for n in range(95))
    assert [file.path for file in seen.files if file.also_of] == ["1.tif", "2.tif", "3.tif"]
    done = do(platform, wish(asset_id))
    assert (len(done.preview.files), len(done.preview.deleted_files)) == (95, 92)
    assert rows(platform, "SELECT state::text, count(*) FROM dag_blob_assets GROUP BY 1 ORDER BY 1") == [
        ("deleted", 95),
        ("present", 3),
    ]
    assert rows(platform, "SELECT count(*) FROM dag_file_deletions WHERE status = 'pending'") == [(92,)]


def test_a_key_that_may_not_unpublish_does_not_do_it_by_a_workflow(
    platform: Platform, seat: Seat, storage: Storage
) -> None:
    """Clients who may order can order `unpublish_raster`, and the id of an asset follows from its references."""
    asset_id = make_revision(platform, seat, written(storage, "a.tif"))
    record = UnpublishRecord(asset_id=asset_id, force=True, dry_run=False)
    api_keys.create_key(platform.conn, "bob", [Scope.B2B, Scope.SUBMIT], created_by="ann")
    assert run_record(platform, seat, record) == "failed"
    assert blob_states(platform) == [(1, "a.tif", "present")]
    [row] = rows(platform, "SELECT error_message FROM dag_node_states WHERE node_id = 'only'")
    assert "has no key with the scope `operate`" in row[0]
    api_keys.create_key(platform.conn, "bob", [Scope.OPERATE], created_by="ann")
    assert run_record(platform, seat, record) == "completed"
    assert blob_states(platform) == [(1, "a.tif", "deleted")]


def test_a_token_or_a_session_that_may_not_unpublish_does_not_do_it_by_a_workflow(
    platform: Platform, seat: Seat, storage: Storage
) -> None:
    """Who comes with a token of an issuer has no key of ours, and is not on this machine for that."""
    asset_id = make_revision(platform, seat, written(storage, "a.tif"))
    record = UnpublishRecord(asset_id=asset_id, force=True, dry_run=False)
    assert run_record(platform, seat, record, source_app="api") == "failed"
    link = api_keys.create_login(platform.conn, "bob", [Scope.SUBMIT], created_by="ann", namespace="default")
    api_keys.open_session(platform.conn, link)
    assert run_record(platform, seat, record, source_app="api") == "failed"
    assert blob_states(platform) == [(1, "a.tif", "present")]
    link = api_keys.create_login(platform.conn, "bob", [Scope.OPERATE], created_by="ann", namespace="default")
    api_keys.open_session(platform.conn, link)
    assert run_record(platform, seat, record, source_app="api") == "completed"
    assert blob_states(platform) == [(1, "a.tif", "deleted")]


def test_a_child_of_a_job_may_unpublish_what_its_parent_may(platform: Platform, seat: Seat, storage: Storage) -> None:
    asset_id = make_revision(platform, seat, written(storage, "a.tif"))
    record = UnpublishRecord(asset_id=asset_id, force=True, dry_run=False)
    child = one_task().model_copy(update={"workflow_id": "child"})
    platform.register(child)
    parent = workflow(only=WorkflowNode(workflow="child"))
    for source_app, expected in (("api", "failed"), ("cli", "completed")):
        job_id = platform.submit(parent, by="bob", source_app=source_app)
        seat.work()
        [claimed] = platform.claim()
        report(platform, claimed, (record,))
        seat.work()
        assert platform.job(job_id)["status"] == expected
