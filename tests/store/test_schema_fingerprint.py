"""The digest of a schema changes with all that a migration would repair, and with nothing else."""

import psycopg

from rmhdag.store.schema_fingerprint import fingerprint
from tests.store.test_repair import DAMAGE, LOG


def test_all_that_a_migration_repairs_changes_it(migrated_database: str) -> None:
    with psycopg.connect(migrated_database, autocommit=True) as conn:
        before = fingerprint(conn, "dagapp")
        conn.execute("SET search_path = dagapp")
        for statement, _ in DAMAGE:
            with conn.transaction(force_rollback=True):
                conn.execute(statement.encode())
                assert fingerprint(conn, "dagapp") != before, statement
        assert fingerprint(conn, "dagapp") == before


def test_rows_and_upkeep_do_not_change_it(migrated_database: str) -> None:
    with psycopg.connect(migrated_database, autocommit=True) as conn:
        before = fingerprint(conn, "dagapp")
        conn.execute(LOG)
        conn.execute("VACUUM (ANALYZE) dagapp.dag_task_logs")
        assert fingerprint(conn, "dagapp") == before
        assert fingerprint(conn, "other") != before
