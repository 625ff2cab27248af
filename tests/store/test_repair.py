"""Whatever of the schema is missing or otherwise is found and made good."""

import psycopg

from rmhdag.models.rows import SCHEMA_VERSION
from rmhdag.store.migration import apply, plan
from rmhdag.store.schema_facts import read_live
from tests.store.comparing import assert_same_schema

# what somebody did → the steps that make it good
DAMAGE: list[tuple[str, list[str]]] = [
    ("DROP TABLE dag_handlers", ["create table dag_handlers"]),
    ("DROP TABLE dag_api_keys", ["create table dag_api_keys"]),
    ("DROP INDEX dag_jobs_list_idx", ["build index dag_jobs_list_idx"]),
    (
        "DROP INDEX dag_jobs_owned_idx; CREATE INDEX dag_jobs_owned_idx ON dag_jobs (owner_id)",
        ["build index dag_jobs_owned_idx as the models have it now", "replace index dag_jobs_owned_idx"],
    ),
    (
        """DROP INDEX dag_jobs_idempotency_idx; CREATE INDEX dag_jobs_idempotency_idx ON dag_jobs
        (namespace, submitted_by, idempotency_key) WHERE idempotency_key IS NOT NULL""",
        ["build index dag_jobs_idempotency_idx as the models have it now", "replace index dag_jobs_idempotency_idx"],
    ),
    (
        "ALTER TABLE dag_jobs DROP CONSTRAINT dag_jobs_priority_range_check",
        ["add check dag_jobs_priority_range_check", "validate check dag_jobs_priority_range_check"],
    ),
    (
        """ALTER TABLE dag_jobs DROP CONSTRAINT dag_jobs_depth_range_check,
        ADD CONSTRAINT dag_jobs_depth_range_check CHECK (depth < 99)""",
        ["replace check dag_jobs_depth_range_check", "validate check dag_jobs_depth_range_check"],
    ),
    (
        """ALTER TABLE dag_inbox DROP CONSTRAINT dag_inbox_task_has_lease_check, ADD CONSTRAINT
        dag_inbox_task_has_lease_check CHECK ((task_id IS NULL) = (lease_epoch IS NULL)) NOT VALID""",
        ["validate check dag_inbox_task_has_lease_check"],
    ),
    ("DROP TRIGGER dag_jobs_set_updated_at ON dag_jobs", ["stamp updated_at of dag_jobs"]),
    (
        """CREATE OR REPLACE TRIGGER dag_node_states_set_updated_at AFTER UPDATE ON dag_node_states FOR EACH ROW
        EXECUTE FUNCTION dag_set_updated_at()""",
        ["stamp updated_at of dag_node_states"],
    ),
    (
        "CREATE OR REPLACE FUNCTION dag_set_updated_at() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
        ["create function dag_set_updated_at"],
    ),
    ("ALTER TABLE dag_inbox RESET (fillfactor)", ["set storage parameters of dag_inbox"]),
    (
        "ALTER TABLE dag_job_events_default RESET (autovacuum_vacuum_insert_scale_factor)",
        ["set storage parameters of dag_job_events_default"],
    ),
    ("ALTER TABLE dag_jobs ALTER COLUMN priority SET DEFAULT 5", ["set default of dag_jobs.priority"]),
    ("ALTER TABLE dag_jobs ALTER COLUMN created_at DROP DEFAULT", ["set default of dag_jobs.created_at"]),
    (
        "ALTER TABLE dag_jobs ALTER COLUMN metadata DROP NOT NULL",
        ["fill dag_jobs.metadata", "expect dag_jobs.metadata", "verify dag_jobs.metadata", "require dag_jobs.metadata"],
    ),
    (
        "ALTER TABLE dag_jobs ALTER COLUMN workflow_id DROP NOT NULL",
        ["expect dag_jobs.workflow_id", "verify dag_jobs.workflow_id", "require dag_jobs.workflow_id"],
    ),
    ("ALTER TABLE dag_dead_letters ALTER COLUMN queue SET NOT NULL", ["let dag_dead_letters.queue be empty"]),
    ("ALTER TABLE dag_jobs DROP COLUMN callback_url", ["add column dag_jobs.callback_url"]),
    (
        'ALTER TABLE dag_jobs ALTER COLUMN correlation_id TYPE varchar(9) COLLATE "C"',
        ["widen dag_jobs.correlation_id"],
    ),
    # As in schema version 8, where names of nodes were shorter; also of a partitioned table and in a primary key.
    (
        'ALTER TABLE dag_node_states ALTER COLUMN node_id TYPE varchar(64) COLLATE "C"',
        ["widen dag_node_states.node_id"],
    ),
    ('ALTER TABLE dag_job_events ALTER COLUMN node_id TYPE varchar(64) COLLATE "C"', ["widen dag_job_events.node_id"]),
    (
        """ALTER TABLE dag_task_logs DROP COLUMN line_count; ALTER TABLE dag_task_logs ADD COLUMN line_count integer;
        UPDATE dag_task_logs SET line_count = 1""",
        ["expect dag_task_logs.line_count", "verify dag_task_logs.line_count", "require dag_task_logs.line_count"],
    ),
    # As in schema version 9, where all namespaces shared the ids of collections.
    (
        """ALTER TABLE dag_catalogue_entries DROP CONSTRAINT dag_catalogue_entries_pkey,
        ADD CONSTRAINT dag_catalogue_entries_pkey PRIMARY KEY (collection_id, item_id)""",
        [
            "build the primary key of dag_catalogue_entries as the models have it now",
            "replace the primary key of dag_catalogue_entries",
        ],
    ),
    ("DROP TABLE dag_task_logs_default", ["create partition dag_task_logs_default"]),
    ("DELETE FROM dag_schema_meta", [f"record schema version {SCHEMA_VERSION}"]),
]
LOG = "INSERT INTO dagapp.dag_task_logs VALUES ('t', 1, 0, now(), 'j', 'n', 'default', 1, false, 'hello')"


def test_every_kind_of_damage_is_found_and_repaired(migrated_database: str) -> None:
    with psycopg.connect(migrated_database, autocommit=True) as conn:
        conn.execute(LOG)
        wanted = read_live(conn, "dagapp")
        conn.execute("SET search_path = dagapp")
        for statement, _ in DAMAGE:
            conn.execute(statement.encode())
        # What hung on the dropped column went with it.
        conn.execute("ALTER TABLE dag_task_logs DROP CONSTRAINT IF EXISTS dag_task_logs_chunk_not_negative_check")
        expected = {title for _, titles in DAMAGE for title in titles}
        expected |= {f"{verb} check dag_task_logs_chunk_not_negative_check" for verb in ("add", "validate")}
        made = apply(migrated_database)
        assert {step.title for step in made.steps} == expected
        assert len(made.steps) == len(expected)
        assert_same_schema(read_live(conn, "dagapp"), wanted)
    assert plan(migrated_database).is_empty


def test_an_index_of_a_partitioned_table_is_built_part_by_part(migrated_database: str) -> None:
    with psycopg.connect(migrated_database, autocommit=True) as conn:
        wanted = read_live(conn, "dagapp")
        conn.execute("DROP INDEX dagapp.dag_job_events_arrival_idx")
        titles = [step.title for step in apply(migrated_database).steps]
        assert titles[0] == "begin index dag_job_events_arrival_idx"
        assert sum(title.startswith("build index dag_job_events_") for title in titles) == 9
        assert sum(title.startswith("attach index dag_job_events_") for title in titles) == 9
        found = read_live(conn, "dagapp")
        assert found.tables["dag_job_events"].indexes["dag_job_events_arrival_idx"].valid
        assert_same_schema(found, wanted)
