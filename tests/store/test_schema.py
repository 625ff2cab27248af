"""The schema that the models make: it applies, and it keeps its invariants by itself."""

from typing import Any

import psycopg
import pytest
from psycopg import errors

from rmhdag.models.rows import ROWS, SCHEMA_VERSION
from rmhdag.models.table import columns_of
from rmhdag.store.migration import apply, plan
from rmhdag.store.schema import check_schema_name, ddl

Connection = psycopg.Connection[Any]

JOB = """INSERT INTO dagapp.dag_jobs (job_id, workflow_id, workflow_version, workflow_hash, fairness_key, submitted_by,
    root_job_id, idempotency_key, namespace) VALUES (%s, 'w', 1, 'h', 'me', %s, 'j', %s, %s)"""
NODE = "INSERT INTO dagapp.dag_node_states (job_id, node_id) VALUES ('j1', 'n1')"
RESULT = """INSERT INTO dagapp.dag_task_results (task_id, lease_epoch, job_id, node_id, attempt, status, error_kind)
    VALUES ('t1', %s, 'j1', 'n1', 1, %s, 'timeout')"""
MESSAGE = """INSERT INTO dagapp.dag_queue_messages (task_id, job_id, node_id, queue, handler, order_key, fairness_key)
    VALUES ('t1', 'j1', 'n1', 'q', 'echo', 1, 'me')"""
ASSET = """INSERT INTO dagapp.dag_geospatial_assets (asset_id, platform_id, kind, created_by, platform_refs)
    VALUES ('a', 'ddh', 'raster', 'me', '{}')"""
REVISION = "INSERT INTO dagapp.dag_asset_revisions (asset_id, revision, created_by) VALUES ('a', 1, 'me')"
EVENT = "INSERT INTO dagapp.dag_job_events (job_id, seq, event_type, source_app) VALUES ('j', 1, 'job_created', 't')"


def one(conn: Connection, query: str, *values: Any) -> Any:
    found = conn.execute(query.encode(), values).fetchone()
    assert found
    return found[0]


def test_a_migrated_database_needs_nothing_more(migrated_database: str) -> None:
    assert plan(migrated_database).render() == "-- The database is up to date.\n"


def test_the_script_makes_all_but_the_days_and_the_version(database: str) -> None:
    with psycopg.connect(database) as conn:
        conn.execute(ddl().encode())
    titles = [step.title for step in plan(database).steps]
    assert titles[-1] == f"record schema version {SCHEMA_VERSION}"
    assert len(titles) == 17
    assert all(title.startswith("create partition dag_") for title in titles[:-1])


def test_a_schema_of_another_name_stands_beside_the_first(migrated_database: str) -> None:
    apply(migrated_database, "elsewhere")
    assert plan(migrated_database, "elsewhere").is_empty
    assert plan(migrated_database).is_empty
    with psycopg.connect(migrated_database) as conn:
        tables = "SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname = %s"
        assert one(conn, tables, "elsewhere") == one(conn, tables, "dagapp") > 100


@pytest.mark.parametrize("name", ["", "Upper", "a-b", "pg_temp", "x" * 49, 'a"; DROP SCHEMA x', "1a"])
def test_schema_names_that_need_quotes_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="not usable: take lower-case letters"):
        check_schema_name(name)
    with pytest.raises(ValueError, match="not usable"):
        ddl(name)


def test_every_model_is_a_table_with_exactly_its_columns(conn: Connection) -> None:
    query = """SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 ORDER BY attnum"""
    for row in ROWS:
        names = [name for (name,) in conn.execute(query, [f"dagapp.{row.table.name}"])]
        assert names == [column.name for column in columns_of(row)]


def test_there_are_no_foreign_keys(conn: Connection) -> None:
    assert one(conn, "SELECT count(*) FROM pg_constraint WHERE contype = 'f'") == 0


def test_updates_that_do_not_stamp_themselves_are_stamped_by_the_database(conn: Connection) -> None:
    conn.execute(JOB, ["j1", "me", None, "default"])
    conn.execute("UPDATE dagapp.dag_jobs SET updated_at = '2000-01-01'")
    assert one(conn, "SELECT extract(year FROM updated_at AT TIME ZONE 'UTC')::int FROM dagapp.dag_jobs") == 2000
    conn.execute("UPDATE dagapp.dag_jobs SET owner_id = 'o1'")
    assert one(conn, "SELECT updated_at > now() - interval '1 minute' FROM dagapp.dag_jobs") is True


def test_a_change_of_a_nodes_status_touches_no_index(conn: Connection) -> None:
    conn.execute(NODE)
    conn.execute("UPDATE dagapp.dag_node_states SET status = 'ready', ready_at = now()")
    conn.execute("UPDATE dagapp.dag_node_states SET status = 'dispatched', task_id = 't1', dispatched_at = now()")
    conn.execute("UPDATE dagapp.dag_node_states SET status = 'completed', completed_at = now()")
    assert one(conn, "SELECT pg_stat_get_xact_tuples_hot_updated('dagapp.dag_node_states'::regclass)") == 3


def test_a_heartbeat_touches_no_index(conn: Connection) -> None:
    conn.execute("INSERT INTO dagapp.dag_orchestrators (owner_id, host, process_id, version) VALUES ('o', 'h', 1, '1')")
    for _ in range(5):
        conn.execute("UPDATE dagapp.dag_orchestrators SET heartbeat_at = clock_timestamp()")
    assert one(conn, "SELECT pg_stat_get_xact_tuples_hot_updated('dagapp.dag_orchestrators'::regclass)") == 5


def test_an_idempotency_key_belongs_to_its_submitter_and_namespace(conn: Connection) -> None:
    conn.execute(JOB, ["j1", "me", "key", "default"])
    conn.execute(JOB, ["j2", "you", "key", "default"])
    conn.execute(JOB, ["j3", "me", "key", "other"])
    conn.execute(JOB, ["j4", "me", None, "default"])
    conn.execute(JOB, ["j5", "me", None, "default"])
    with pytest.raises(errors.UniqueViolation, match="dag_jobs_idempotency_idx"):
        conn.execute(JOB, ["j6", "me", "key", "default"])


@pytest.mark.parametrize("accepted", ["completed", "failed", "cancelled"])
def test_a_task_has_one_accepted_result_whatever_leases_were_lost(conn: Connection, accepted: str) -> None:
    conn.execute(RESULT, [1, "lost"])
    conn.execute(RESULT, [2, "stale"])
    conn.execute(RESULT, [3, accepted])
    with pytest.raises(errors.UniqueViolation, match="dag_task_results_accepted_idx"):
        conn.execute(RESULT, [4, "completed"])


BROKEN = [
    ("dag_jobs_terminal_has_end_check", "dag_jobs", "status = 'failed'"),
    ("dag_jobs_terminal_has_end_check", "dag_jobs", "completed_at = now()"),
    ("dag_jobs_running_has_start_check", "dag_jobs", "status = 'running'"),
    (
        "dag_jobs_draining_never_completes_check",
        "dag_jobs",
        "ending = 'failed', status = 'completed', started_at = now(), completed_at = now()",
    ),
    ("dag_jobs_priority_range_check", "dag_jobs", "priority = 11"),
    ("dag_jobs_depth_range_check", "dag_jobs", "depth = 9"),
    ("dag_jobs_workflow_version_positive_check", "dag_jobs", "workflow_version = 0"),
    ("dag_jobs_epoch_not_negative_check", "dag_jobs", "owner_epoch = -1"),
    ("dag_jobs_parent_whole_check", "dag_jobs", "parent_job_id = 'p'"),
    ("dag_jobs_revision_of_asset_check", "dag_jobs", "revision = 1"),
    ("dag_node_states_terminal_has_end_check", "dag_node_states", "status = 'skipped'"),
    ("dag_node_states_dispatched_has_task_check", "dag_node_states", "status = 'dispatched'"),
    ("dag_node_states_attempt_counted_check", "dag_node_states", "attempt = 0"),
    ("dag_node_states_attempt_counted_check", "dag_node_states", "retry_count = 1"),
    ("dag_node_states_limits_not_negative_check", "dag_node_states", "lease_losses = -1"),
    ("dag_node_states_child_has_parent_check", "dag_node_states", "parent_node_id = 'p'"),
    ("dag_node_states_child_has_parent_check", "dag_node_states", "fan_out_index = 1"),
    ("dag_node_states_checkpoint_whole_check", "dag_node_states", "checkpoint_phase = 'p'"),
    ("dag_task_results_attempt_positive_check", "dag_task_results", "attempt = 0"),
    ("dag_task_results_percent_range_check", "dag_task_results", "progress_percent = 150"),
    ("dag_task_results_percent_range_check", "dag_task_results", "progress_percent = 'NaN'"),
    ("dag_task_results_failed_has_kind_check", "dag_task_results", "status = 'failed', error_kind = NULL"),
    ("dag_queue_messages_held_is_claimed_check", "dag_queue_messages", "worker_id = 'w', lease_epoch = 1"),
    ("dag_queue_messages_held_has_lease_check", "dag_queue_messages", "worker_id = 'w', claimed_at = now()"),
    ("dag_queue_messages_started_is_held_check", "dag_queue_messages", "started_at = now()"),
    ("dag_queue_messages_timeout_range_check", "dag_queue_messages", "timeout_seconds = 0"),
    ("dag_geospatial_assets_revisions_ordered_check", "dag_geospatial_assets", "current_revision = 2"),
    ("dag_geospatial_assets_revisions_ordered_check", "dag_geospatial_assets", "latest_revision = 0"),
    ("dag_geospatial_assets_content_of_revision_check", "dag_geospatial_assets", "content_hash = 'c'"),
    ("dag_asset_revisions_revision_positive_check", "dag_asset_revisions", "revision = 0"),
    ("dag_asset_revisions_settled_has_end_check", "dag_asset_revisions", "status = 'completed'"),
    ("dag_asset_revisions_settled_has_end_check", "dag_asset_revisions", "completed_at = now()"),
]


def test_the_database_keeps_the_invariants_itself(conn: Connection) -> None:
    conn.execute(JOB, ["j1", "me", None, "default"])
    conn.execute(NODE)
    conn.execute(RESULT, [1, "running"])
    conn.execute(MESSAGE)
    conn.execute(ASSET)
    conn.execute(REVISION)
    for name, table, change in BROKEN:
        with pytest.raises(errors.CheckViolation, match=name), conn.transaction():
            conn.execute(f"UPDATE dagapp.{table} SET {change}".encode())


def test_events_know_their_transaction(conn: Connection) -> None:
    conn.execute(EVENT)
    assert one(conn, "SELECT transaction_id = pg_current_xact_id()::text::bigint FROM dagapp.dag_job_events") is True
