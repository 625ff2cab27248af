"""Roles of the database: each can do what its processes need, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
from psycopg import errors, sql

from rmhdag.models.history import JobEvent
from rmhdag.models.rows import ROWS
from rmhdag.store.connection import Conn, connect, enter_schema
from rmhdag.store.gateway_views import GATEWAY_VIEWS
from rmhdag.store.migration import apply
from rmhdag.store.old_days import Drop, drop_day_if_unneeded, find_old_days
from rmhdag.store.partitions import DayPartition, ensure_partitions, missing_partitions
from rmhdag.store.roles import RolesRefused, are_granted, make_roles, role_names, script
from rmhdag.store.schema_version import SchemaMismatch, check_version

ROLES = role_names()
TABLES = (
    "SELECT relname FROM pg_class WHERE relnamespace = 'dagapp'::regnamespace AND relkind IN ('r', 'p', 'v') ORDER BY 1"
)
DDL = [
    "CREATE TABLE dagapp.mine (a int)",
    "CREATE TABLE public.mine (a int)",
    "CREATE SCHEMA mine",
    "CREATE FUNCTION dagapp.mine() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    "CREATE ROLE mine",
    "ALTER TABLE dagapp.dag_jobs ADD COLUMN mine int",
    "ALTER TABLE dagapp.dag_audit DISABLE TRIGGER ALL",
    "CREATE INDEX ON dagapp.dag_jobs (priority)",
    "DROP TABLE dagapp.dag_jobs",
    "TRUNCATE dagapp.dag_jobs",
    "COPY (SELECT 1) TO PROGRAM 'cat'",
    "SELECT pg_read_file('postgresql.conf')",
    "ALTER SYSTEM SET fsync = off",
]


@pytest.fixture
def owner(migrated_database: str) -> Iterator[Conn]:
    with connect(migrated_database, "owner", autocommit=True) as conn:
        make_roles(conn, "dagapp", ROLES, actor="test")
        yield conn


def as_role(dsn: str, role: str) -> Conn:
    conn = connect(dsn, role, autocommit=True)
    conn.execute(sql.SQL("SET SESSION AUTHORIZATION {}").format(sql.Identifier(role)))
    enter_schema(conn, "dagapp")
    return conn


def tables(conn: Conn) -> list[str]:
    found = [name for (name,) in conn.execute(TABLES)]
    assert len(found) > len(ROWS)
    return found


def writes(conn: Conn, table: str) -> list[sql.Composed]:
    column = conn.execute(
        "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attnum = 1", [f"dagapp.{table}"]
    ).fetchone()
    assert column is not None
    names = {"table": sql.Identifier("dagapp", table), "column": sql.Identifier(column[0])}
    return [
        sql.SQL(text).format(**names)
        for text in (
            "INSERT INTO {table} DEFAULT VALUES",
            "UPDATE {table} SET {column} = {column}",
            "DELETE FROM {table}",
            "TRUNCATE {table}",
            "SELECT * FROM {table} FOR UPDATE",
        )
    ]


def refused(conn: Conn, statement: sql.Composed | str) -> None:
    text = statement.as_string(conn) if isinstance(statement, sql.Composed) else statement
    # What a view cannot do at all is refused for that reason.
    with pytest.raises((errors.InsufficientPrivilege, errors.ObjectNotInPrerequisiteState, errors.WrongObjectType)):
        conn.execute(text.encode())


@pytest.mark.parametrize("role", [ROLES.reader, ROLES.gateway])
def test_reader_and_gateway_write_to_no_table(owner: Conn, migrated_database: str, role: str) -> None:
    with as_role(migrated_database, role) as conn:
        for table in tables(owner):
            for statement in writes(owner, table):
                refused(conn, statement)


def test_a_reader_reads_every_table_and_the_gateway_its_views(owner: Conn, migrated_database: str) -> None:
    with as_role(migrated_database, ROLES.reader) as reader, as_role(migrated_database, ROLES.gateway) as gateway:
        for table in tables(owner):
            query = sql.SQL("SELECT * FROM {}").format(sql.Identifier("dagapp", table))
            reader.execute(query)
            if table in GATEWAY_VIEWS:
                gateway.execute(query)
            else:
                refused(gateway, query)


@pytest.mark.parametrize("statement", DDL)
@pytest.mark.parametrize("role", list(ROLES))
def test_nobody_but_the_owner_changes_tables(owner: Conn, migrated_database: str, role: str, statement: str) -> None:
    with as_role(migrated_database, role) as conn:
        refused(conn, statement)


def test_the_application_adds_to_the_audit_trail_and_never_changes_it(owner: Conn, migrated_database: str) -> None:
    with as_role(migrated_database, ROLES.app) as conn:
        conn.execute("INSERT INTO dag_audit (actor, action, subject) VALUES ('a', 'key.create', 's')")
        assert conn.execute("SELECT count(*) FROM dag_audit WHERE actor = 'a'").fetchone() == (1,)
        refused(conn, "UPDATE dag_audit SET actor = 'b'")
        refused(conn, "DELETE FROM dag_audit")
        refused(conn, "UPDATE dag_schema_meta SET schema_version = 1")


def test_the_application_makes_and_drops_days(owner: Conn, migrated_database: str) -> None:
    old = owner.execute("SELECT (clock_timestamp() AT TIME ZONE 'UTC')::date - 40").fetchone()
    assert old is not None
    owner.execute(DayPartition("dagapp", JobEvent.table, old[0]).ddl().encode())
    with as_role(migrated_database, ROLES.app) as conn:
        assert len(ensure_partitions(conn, "dagapp", days_ahead=9)) == 4
        assert missing_partitions(conn, "dagapp", 9) == []
        day = next(one for one in find_old_days(conn, "dagapp", 30) if one.day == old[0])
        # Rows of a day that it made are the application's too.
        conn.execute(sql.SQL("DELETE FROM {}").format(sql.Identifier("dagapp", day.partition)))
        assert drop_day_if_unneeded(conn, "dagapp", day) is Drop.DONE
        assert day not in find_old_days(conn, "dagapp", 30)
    with as_role(migrated_database, ROLES.reader) as reader:
        refused(reader, "SELECT dagapp.dag_make_day('dag_job_events', current_date + 20)")
        refused(reader, f"SELECT dagapp.dag_drop_day('{day.partition}')")


def test_the_day_functions_touch_days_of_our_tables_only(owner: Conn, migrated_database: str) -> None:
    today = owner.execute("SELECT (clock_timestamp() AT TIME ZONE 'UTC')::date").fetchone()
    assert today is not None
    owner.execute("CREATE TABLE public.dag_other_20200101 (a int)")
    with as_role(migrated_database, ROLES.app) as conn:
        for table in ("dag_jobs", "dag_audit", "dag_jobs; DROP TABLE dag_jobs", "pg_class"):
            with pytest.raises(errors.InvalidParameterValue, match="not a table with a partition per day"):
                conn.execute("SELECT dag_make_day(%s, %s)", [table, today[0]])
        with pytest.raises(errors.InvalidParameterValue, match="400 days"):
            conn.execute("SELECT dag_make_day('dag_job_events', %s)", [today[0] + timedelta(days=401)])
        for name in ("dag_jobs", "dag_job_events_default", f"dag_job_events_{today[0]:%Y%m%d}", "dag_other_20200101"):
            conn.execute("SELECT dag_drop_day(%s)", [name])
            assert owner.execute("SELECT FROM pg_class WHERE relname = %s", [name]).fetchone() is not None


def test_grants_hold_for_tables_that_come_later(owner: Conn, migrated_database: str) -> None:
    owner.execute("CREATE TABLE dagapp.dag_later (a int)")
    with as_role(migrated_database, ROLES.app) as app, as_role(migrated_database, ROLES.reader) as reader:
        app.execute("INSERT INTO dag_later VALUES (1)")
        assert reader.execute("SELECT a FROM dag_later").fetchall() == [(1,)]
        refused(reader, "DELETE FROM dag_later")
    with as_role(migrated_database, ROLES.gateway) as gateway:
        refused(gateway, "SELECT a FROM dag_later")


def test_making_roles_twice_changes_nothing_and_takes_back_what_is_too_much(owner: Conn) -> None:
    owner.execute(f"GRANT INSERT ON dagapp.dag_jobs TO {ROLES.reader}".encode())
    assert make_roles(owner, "dagapp", ROLES, actor="test") == []
    assert are_granted(owner, "dagapp", ROLES)
    found = owner.execute("SELECT has_table_privilege(%s, 'dagapp.dag_jobs', 'INSERT')", [ROLES.reader]).fetchone()
    assert found == (False,)
    rows = owner.execute("SELECT actor, action FROM dagapp.dag_audit WHERE action = 'roles.grant'").fetchall()
    assert rows == [("test", "roles.grant")] * 2


def test_the_printed_sql_does_the_same(migrated_database: str) -> None:
    with connect(migrated_database, "owner", autocommit=True) as conn:
        other = role_names("printed")
        conn.execute(script("dagapp", other).encode())
        assert are_granted(conn, "dagapp", other)
        conn.execute(script("dagapp", other).encode())
        conn.execute(f"DROP OWNED BY {', '.join(other)}; DROP ROLE {', '.join(other)}".encode())


def test_a_powerful_role_and_a_stranger_are_refused(owner: Conn, migrated_database: str) -> None:
    owner.execute("CREATE ROLE strong_app SUPERUSER")
    with pytest.raises(RolesRefused, match="strong_app"):
        make_roles(owner, "dagapp", role_names("strong"), actor="test")
    owner.execute("DROP ROLE strong_app")
    with as_role(migrated_database, ROLES.app) as conn, pytest.raises(RolesRefused, match="belong to"):
        make_roles(conn, "dagapp", ROLES, actor="test")


def test_a_role_without_rights_is_told_what_to_do(owner: Conn, migrated_database: str) -> None:
    owner.execute(f"REVOKE ALL ON SCHEMA dagapp FROM {ROLES.app}".encode())
    with as_role(migrated_database, ROLES.app) as conn, pytest.raises(SchemaMismatch, match="rmhdag db roles"):
        check_version(conn, "dagapp")


def test_a_migration_stands_in_the_audit_trail_with_who_did_it(database: str) -> None:
    apply(database, actor="ada")
    with connect(database, "test", autocommit=True) as conn:
        rows = conn.execute("SELECT actor, action, subject FROM dagapp.dag_audit").fetchall()
    assert rows == [("ada", "schema.migrate", "schema dagapp")]


def test_the_views_of_the_gateway_hold_no_parameters_and_no_secrets(owner: Conn, migrated_database: str) -> None:
    with as_role(migrated_database, ROLES.gateway) as gateway:
        columns = {
            name: {
                column.name for column in gateway.execute(f"SELECT * FROM {name} LIMIT 0".encode()).description or ()
            }
            for name in GATEWAY_VIEWS
        }
    everything = set().union(*columns.values())
    assert everything.isdisjoint(
        {"input_params", "payload", "owner_id", "callback_url", "url", "definition", "metadata"}
    )
    assert "secret_hash" not in set().union(*(found for name, found in columns.items() if name != "dag_gateway_keys"))


def test_views_of_an_older_version_are_replaced(owner: Conn) -> None:
    owner.execute("DROP VIEW dagapp.dag_gateway_requests")
    owner.execute(
        "CREATE VIEW dagapp.dag_gateway_requests AS SELECT request_id, namespace FROM dagapp.dag_api_requests"
    )
    make_roles(owner, "dagapp", ROLES, actor="test")
    owner.execute("SELECT client_id, review_state FROM dagapp.dag_gateway_requests")
