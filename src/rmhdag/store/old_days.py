"""Retention of tables that are partitioned by day: a day is dropped as soon as no job that is still there needs it.

A job may wait for an approval for a year. Its events are kept, and their numbers go on: a day in which it has some
loses the rows of jobs that are gone, a few thousand at a time, and is dropped when nothing is left in it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from enum import Enum, auto

from psycopg import errors, sql

from rmhdag.models.history import JobEvent
from rmhdag.models.table import Table
from rmhdag.models.tasks import TaskLog
from rmhdag.store.connection import Conn
from rmhdag.store.crash_points import commit_site
from rmhdag.store.day_functions import DROP_DAY
from rmhdag.store.partitions import default_partition_name
from rmhdag.store.retention import Bite, oldest_job, try_lock

# A drop shuts out writers of all days while it waits for those who read. So it gives up soon and comes again.
DROP_PATIENCE_MS = 100
# An event may be stamped a moment before its job is.
SLACK = timedelta(hours=1)
LONGEST_PAGE = 200
# Expressions of the first key that follows all rows of a row's job, and of a job's rows themselves.
AFTER_JOB = {JobEvent.table.name: "d.job_id", TaskLog.table.name: "GREATEST(d.task_id, left(d.job_id, 39) || '.')"}
FIRST_KEY = {JobEvent.table.name: "job_id", TaskLog.table.name: "task_id"}
ROWS_OF_JOB = {
    JobEvent.table.name: "o.job_id = j",
    TaskLog.table.name: "o.task_id >= left(j, 39) || '-' AND o.task_id < left(j, 39) || '.'",
}


@dataclass(frozen=True)
class OldDay:
    """A partition that is past its time. The catch-all has no day: it loses rows and is never dropped."""

    table: Table
    partition: str
    day: date | None

    @property
    def is_needed_from(self) -> datetime | None:
        """Jobs that were created before this moment may have rows in it."""
        if self.day is None:
            return None
        return datetime.combine(self.day + timedelta(days=1), time(), UTC) + SLACK


def find_old_days(conn: Conn, schema: str, days: float) -> list[OldDay]:
    query = """
        SELECT c.relname FROM pg_class AS c
        JOIN pg_inherits AS i ON i.inhrelid = c.oid
        WHERE c.relnamespace = to_regnamespace(%s)::oid AND c.relkind = 'r' AND c.relname ~ '_[0-9]{8}$'
            AND to_date(right(c.relname, 8), 'YYYYMMDD') + 1
                <= (clock_timestamp() - GREATEST(%s * interval '1 day', interval '1 hour')) AT TIME ZONE 'UTC'
        ORDER BY c.relname
    """
    names = [name for (name,) in conn.execute(query, [schema, days])]
    tables = [JobEvent.table, TaskLog.table]
    return [
        *(OldDay(table, default_partition_name(table), None) for table in tables),
        *(
            OldDay(table, name, date.fromisoformat(name[-8:]))
            for table in tables
            for name in names
            if name.startswith(f"{table.name}_")
        ),
    ]


class Drop(Enum):
    """What came of trying to drop a day. NEEDED: a job that is still there may have rows in it."""

    DONE = auto()
    NEEDED = auto()
    BUSY = auto()


@commit_site
def drop_day_if_unneeded(conn: Conn, schema: str, old: OldDay) -> Drop:
    """Drop the partition, if no job that is still there could have rows in it, or if it is empty."""
    if old.is_needed_from is None:
        return Drop.NEEDED
    try:
        with conn.transaction():
            if not try_lock(conn, "days"):
                return Drop.BUSY
            oldest = oldest_job(conn)
            if oldest is not None and oldest < old.is_needed_from and not _is_empty(conn, schema, old):
                return Drop.NEEDED
            conn.execute(f"SET LOCAL lock_timeout = {DROP_PATIENCE_MS}".encode())
            conn.execute(sql.SQL("SELECT {}(%s)").format(sql.Identifier(schema, DROP_DAY)), [old.partition])
    except errors.LockNotAvailable:
        return Drop.BUSY
    return Drop.DONE


@commit_site
def delete_rows_of_gone_jobs(conn: Conn, schema: str, old: OldDay, after: str, limit: int) -> tuple[Bite, str]:
    """One page of the partition's jobs: the rows of those that are gone, and where the page ended ('' is the end)."""
    with conn.transaction():
        if not try_lock(conn, "days"):
            return Bite(Counter(), False), ""
        page = conn.execute(_statement(NEXT_JOBS, schema, old), {"after": after, "limit": LONGEST_PAGE}).fetchall()
        gone = [job_id for _, job_id, is_there in page if not is_there]
        deleted = 0
        if gone:
            deleted = conn.execute(_statement(DELETE_ROWS, schema, old), {"jobs": gone, "limit": limit}).rowcount
    rows = Counter({old.table.name: deleted})
    if deleted == limit:
        return Bite(rows, True), after
    has_more = len(page) == LONGEST_PAGE
    return Bite(rows, has_more), page[-1][0] if has_more else ""


# From one job to the next by the key: a job may have millions of rows in a day.
NEXT_JOBS = """
WITH RECURSIVE page AS (
    (
        SELECT {after_job} AS place, d.job_id, 1 AS number FROM {partition} AS d
        WHERE d.{key} > %(after)s ORDER BY d.{key} LIMIT 1
    )
    UNION ALL
    SELECT following.place, following.job_id, page.number + 1
    FROM page
    CROSS JOIN LATERAL (
        SELECT {after_job} AS place, d.job_id FROM {partition} AS d
        WHERE d.{key} > page.place ORDER BY d.{key} LIMIT 1
    ) AS following
    WHERE page.number < %(limit)s
)
SELECT place, job_id, EXISTS (SELECT FROM dag_jobs AS j WHERE j.job_id = page.job_id) FROM page ORDER BY number
"""
DELETE_ROWS = """
DELETE FROM {partition} AS d
USING (
    SELECT {columns} FROM unnest(%(jobs)s::text[]) AS j JOIN {partition} AS o ON {rows_of_job} LIMIT %(limit)s
) AS bite
WHERE {same}
"""


def _statement(template: str, schema: str, old: OldDay) -> sql.Composed:
    keys = old.table.key
    return sql.SQL(template).format(
        partition=sql.Identifier(schema, old.partition),
        key=sql.SQL(FIRST_KEY[old.table.name]),
        after_job=sql.SQL(AFTER_JOB[old.table.name]),
        rows_of_job=sql.SQL(ROWS_OF_JOB[old.table.name]),
        columns=sql.SQL(", ").join(sql.Identifier("o", name) for name in keys),
        same=sql.SQL(" AND ").join(
            sql.SQL("{} = {}").format(sql.Identifier("d", name), sql.Identifier("bite", name)) for name in keys
        ),
    )


def _is_empty(conn: Conn, schema: str, old: OldDay) -> bool:
    query = sql.SQL("SELECT FROM {} LIMIT 1").format(sql.Identifier(schema, old.partition))
    return conn.execute(query).fetchone() is None
