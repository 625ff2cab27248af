"""Tables of revisions in a data database, and the relay that shows them."""

from __future__ import annotations

from typing import Any

import psycopg

from rmhdag.models.records import TableRecord
from rmhdag.orchestrator.duties.data_tables import Shower, run_once
from rmhdag.postgis.database import DataDatabase
from rmhdag.postgis.loading import create_table
from tests.orchestrator.platform import Platform, Seat
from tests.orchestrator.test_publishing import one_task
from tests.orchestrator.test_shown_revisions import begin, publish


class Data:
    """The data database, here the same one, and the relay of an orchestrator."""

    def __init__(self, platform: Platform, keep: int = 2) -> None:
        self.platform = platform
        self.dsn = platform.conn.info.dsn + f" password={platform.conn.info.password}"
        self.database = DataDatabase(self.dsn, "default")
        self.shower = Shower(self.dsn, keep)

    def table(self, stored_name: str, rows: int = 1) -> None:
        with self.database.connect() as conn:
            create_table(self.database, conn, stored_name, "MultiPoint", [])
            conn.execute(
                f"INSERT INTO geo_work.{stored_name} SELECT n, NULL FROM generate_series(1, {rows}) AS n".encode()
            )

    def relay(self) -> None:
        while run_once(self.platform.conn, self.shower):
            pass

    def count(self, name: str) -> int | None:
        """Rows of a table; None if there is none."""
        with psycopg.connect(self.dsn, autocommit=True) as conn:
            try:
                row = conn.execute(f"SELECT count(*) FROM {name}".encode()).fetchone()
            except psycopg.errors.UndefinedTable:
                return None
        assert row is not None
        return int(row[0])


def table(stored_name: str, table_name: str = "roads", rows: int = 1, **more: Any) -> TableRecord:
    details = {"geometry_type": "MultiPoint", "feature_count": rows, "title": "Roads"}
    return TableRecord(
        table_name=table_name,
        stored_name=stored_name,
        geometry_type="MultiPoint",
        feature_count=rows,
        details=details,
        **more,
    )


def run_job(platform: Platform, seat: Seat, *records: Any) -> str:
    """A job that makes no revision."""
    job_id = platform.submit(one_task())
    seat.work()
    [claimed] = platform.claim()
    publish(platform, seat, claimed, *records)
    return job_id


def revision(platform: Platform, seat: Seat, data: Data, number: int, *records: Any, **more: Any) -> Any:
    """The next revision of the asset, with as many rows as its number."""
    data.table(f"roads_{number}", number)
    ordered, claimed = begin(platform, seat, input_params={"n": number}, **more)
    publish(platform, seat, claimed, table(f"roads_{number}", rows=number), *records)
    return ordered
