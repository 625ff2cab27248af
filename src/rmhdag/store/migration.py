"""Migrates a database to the models' schema while others write: one migrator at a time, short locks, retries.

Each step is committed by itself and the plan is always made from what is there, so a migration that was killed is
finished by running it again.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
from psycopg import errors

from rmhdag.models.rows import ROWS
from rmhdag.models.table import Row
from rmhdag.store.comparison import ACTOR_SETTING, plan_migration
from rmhdag.store.connection import Conn, connect
from rmhdag.store.migration_steps import BATCH_PAGES, Backfill, ConcurrentChange, MigrationRefused, MigrationSteps, Step
from rmhdag.store.migration_steps import MigrationFailed as MigrationFailed
from rmhdag.store.schema import DEFAULT_SCHEMA, check_schema_name

# While a statement waits for a table's lock, all later writers queue behind it: so it gives up soon and comes back.
LOCK_TIMEOUT_MS = 400
GIVE_UP_SECONDS = 120.0
# Building an index waits for every older transaction, without stopping anybody.
CONCURRENT_TIMEOUT_MS = 600_000
_MAX_PASSES = 50

_TRY_AGAIN = (errors.LockNotAvailable, errors.DeadlockDetected, errors.SerializationFailure)

OnStep = Callable[[Step, int, int], None]


def plan(dsn: str, schema: str = DEFAULT_SCHEMA, rows: Sequence[type[Row]] = ROWS) -> MigrationSteps:
    with _open(dsn) as conn:
        return plan_migration(conn, schema, rows)


def apply(
    dsn: str,
    schema: str = DEFAULT_SCHEMA,
    on_step: OnStep | None = None,
    *,
    rows: Sequence[type[Row]] = ROWS,
    give_up_seconds: float = GIVE_UP_SECONDS,
    actor: str | None = None,
) -> MigrationSteps:
    """Plan under the migration lock and take every step; returns the plan that was applied.

    `on_step` is called before each step with the step, its number and the number of steps. `actor` stands in the audit
    trail; without it, the role does.
    """
    check_schema_name(schema)
    with _open(dsn) as conn, _migration_lock(conn, schema, give_up_seconds):
        if actor is not None:
            conn.execute("SELECT set_config(%s, %s, false)", [ACTOR_SETTING, actor])
        steps = plan_migration(conn, schema, rows)
        apply_plan(conn, steps, on_step, give_up_seconds=give_up_seconds)
        rest = plan_migration(conn, schema, rows) if steps.steps else steps
        if not rest.is_empty:
            raise MigrationFailed(f"after all steps the database still differs:\n{rest.render()}")
        return steps


def apply_plan(
    conn: Conn,
    plan: MigrationSteps,
    on_step: OnStep | None = None,
    *,
    give_up_seconds: float = GIVE_UP_SECONDS,
) -> None:
    """Take the steps on an autocommit connection that holds the migration lock."""
    if plan.refusals:
        raise MigrationRefused(plan.refusals)
    for number, step in enumerate(plan.steps, 1):
        if on_step:
            on_step(step, number, len(plan.steps))
        try:
            _take(conn, step, give_up_seconds)
        except psycopg.Error as error:
            raise MigrationFailed(
                f"step {number} of {len(plan.steps)} in schema {plan.schema}, {step.title}: {str(error).strip()}. "
                f"Earlier steps are kept. Remedy: fix the cause and migrate again; it continues from here."
            ) from error


def _open(dsn: str) -> Conn:
    conn = connect(
        dsn,
        "rmhdag:migrate",
        autocommit=True,
        statement_timeout_seconds=0,
        idle_in_transaction_timeout_seconds=60,
    )
    # If we are killed, the server ends what we were doing, and frees our lock, within a second. Not every system can.
    with suppress(errors.InvalidParameterValue):
        conn.execute("SET client_connection_check_interval = '1s'")
    return conn


@contextmanager
def _migration_lock(conn: Conn, schema: str, give_up_seconds: float) -> Iterator[None]:
    """Asked for again and again: CREATE INDEX CONCURRENTLY would wait for a session that waits inside PostgreSQL."""
    key = "SELECT pg_try_advisory_lock(hashtextextended('rmhdag migration of ' || %s, 0))"
    deadline = time.monotonic() + give_up_seconds
    while conn.execute(key, [schema]).fetchone() != (True,):
        if time.monotonic() > deadline:
            raise MigrationFailed(
                f"another migration of schema {schema} has been running for {give_up_seconds:.0f} s: "
                "wait for it, or end its session (application_name rmhdag:migrate in pg_stat_activity)"
            )
        time.sleep(0.1)
    try:
        yield
    finally:
        if not conn.closed:
            conn.execute("SELECT pg_advisory_unlock(hashtextextended('rmhdag migration of ' || %s, 0))", [schema])


def _take(conn: Conn, step: Step, give_up_seconds: float) -> None:
    if isinstance(step, Backfill):
        _fill(conn, step, give_up_seconds)
    elif isinstance(step, ConcurrentChange):
        conn.execute(f"SET lock_timeout = {CONCURRENT_TIMEOUT_MS}".encode())
        for statement in step.statements:
            conn.execute(statement.encode())
    else:
        _change(conn, [(statement, None) for statement in step.statements], give_up_seconds)


def _change(conn: Conn, statements: Sequence[tuple[str, Sequence[Any] | None]], give_up_seconds: float) -> None:
    """One transaction, again until it gets its locks or the time is up."""
    deadline = time.monotonic() + give_up_seconds
    while True:
        try:
            with conn.transaction():
                conn.execute(f"SET LOCAL lock_timeout = {LOCK_TIMEOUT_MS}".encode())
                for statement, values in statements:
                    conn.execute(statement.encode(), values)
            return
        except _TRY_AGAIN:
            if time.monotonic() > deadline:
                raise
            # Longer than the wait before it, so that the writers who queued behind us get through in between.
            time.sleep(LOCK_TIMEOUT_MS / 1000 * random.uniform(1, 2))


def _fill(conn: Conn, step: Backfill, give_up_seconds: float) -> None:
    """Rows that writers move meanwhile may escape a pass; they are few, and the next pass finds them."""
    for _ in range(_MAX_PASSES):
        for leaf in _leaves(conn, step.schema, step.table):
            for first in range(0, _pages(conn, step.schema, leaf), BATCH_PAGES):
                bounds = [f"({first},0)", f"({first + BATCH_PAGES},0)"]
                _change(conn, [(step.batch(leaf), bounds)], give_up_seconds)
        query = f"SELECT EXISTS (SELECT FROM {step.schema}.{step.table} WHERE {step.column} IS NULL)"
        if conn.execute(query.encode()).fetchone() == (False,):
            return
    raise errors.CheckViolation(f"after {_MAX_PASSES} passes {step.table}.{step.column} still has rows without a value")


def _leaves(conn: Conn, schema: str, table: str) -> list[str]:
    query = "SELECT relname FROM pg_partition_tree(%s::regclass) t JOIN pg_class c ON c.oid = t.relid WHERE t.isleaf"
    return [name for (name,) in conn.execute(query, [f"{schema}.{table}"])] or [table]


def _pages(conn: Conn, schema: str, table: str) -> int:
    query = "SELECT pg_relation_size(%s::regclass) / current_setting('block_size')::int + 1"
    row = conn.execute(query, [f"{schema}.{table}"]).fetchone()
    return int(row[0]) if row else 0
