"""Partitions by UTC day: their names and bounds, and making those of the coming days without stopping writers.

A catch-all partition takes rows of days that have none yet, so that a late migration never stops a job; such rows are
moved when their day is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from rmhdag.models.rows import ROWS
from rmhdag.models.table import Row, Table
from rmhdag.store.connection import Conn
from rmhdag.store.day_functions import MAKE_DAY

DAYS_AHEAD = 7


@dataclass(frozen=True)
class DayPartition:
    schema: str
    table: Table
    day: date

    @property
    def name(self) -> str:
        return f"{self.table.name}_{self.day:%Y%m%d}"

    def ddl(self) -> str:
        """A call: who works with the rows may make days, but change no tables."""
        return f"SELECT {self.schema}.{MAKE_DAY}('{self.table.name}', '{self.day}')"


def default_partition_name(table: Table) -> str:
    return f"{table.name}_default"


def default_partition_ddl(schema: str, table: Table) -> str:
    return (
        f"CREATE TABLE {schema}.{default_partition_name(table)} PARTITION OF {schema}.{table.name} DEFAULT"
        f"{storage_clause(table)}"
    )


def storage_clause(table: Table) -> str:
    """A partitioned table has no storage of its own, so its partitions carry the parameters."""
    if not table.storage:
        return ""
    return " WITH (" + ", ".join(f"{name} = {value}" for name, value in table.storage.items()) + ")"


def missing_partitions(
    conn: Conn, schema: str, days_ahead: int = DAYS_AHEAD, rows: Sequence[type[Row]] = ROWS
) -> list[DayPartition]:
    """From the database's today to `days_ahead` later, those that are not attached."""
    answer = conn.execute("SELECT (clock_timestamp() AT TIME ZONE 'UTC')::date").fetchone()
    assert answer
    today: date = answer[0]
    partitions = [
        DayPartition(schema, row.table, today + timedelta(days=offset))
        for row in rows
        if row.table.partition_by
        for offset in range(days_ahead + 1)
    ]
    query = "SELECT relname FROM pg_class WHERE relispartition AND relnamespace = to_regnamespace(%s)::oid"
    there = {name for (name,) in conn.execute(query, [schema])}
    return [partition for partition in partitions if partition.name not in there]


def ensure_partitions(
    conn: Conn, schema: str, days_ahead: int = DAYS_AHEAD, rows: Sequence[type[Row]] = ROWS
) -> list[str]:
    """Make the partitions of the coming days, each in a transaction of its own; returns their names."""
    partitions = []
    for partition in missing_partitions(conn, schema, days_ahead, rows):
        with conn.transaction():
            conn.execute("SELECT pg_advisory_xact_lock(hashtextextended('rmhdag partitions of ' || %s, 0))", [schema])
            # Somebody else may have made it while we waited.
            if partition in missing_partitions(conn, schema, days_ahead, rows):
                conn.execute(partition.ddl().encode())
                partitions.append(partition.name)
    return partitions
