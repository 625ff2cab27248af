"""The state of a comparison: both catalogues side by side, and the plan that grows from them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import sqlalchemy as sa

from rmhdag.models.table import Column, Row, columns_of
from rmhdag.store.connection import Conn
from rmhdag.store.migration_steps import Change, ConcurrentChange, MigrationSteps, UnsafeChange
from rmhdag.store.schema import make_metadata
from rmhdag.store.schema_facts import TableFacts, read_live, read_wished


class Survey:
    def __init__(self, conn: Conn, schema: str, rows: Sequence[type[Row]]) -> None:
        self.conn = conn
        self.schema = schema
        self.rows = {row.table.name: row for row in rows}
        self.live = read_live(conn, schema)
        self.wished = read_wished(conn, rows)
        self.metadata = make_metadata(schema, rows)
        self.plan = MigrationSteps(schema)

    def change(self, title: str, *statements: str) -> None:
        self.plan.steps.append(Change(title, statements))

    def change_concurrently(self, title: str, *statements: str) -> None:
        self.plan.steps.append(ConcurrentChange(title, statements))

    def refuse(self, where: str, what: str, why: str, remedy: str) -> None:
        self.plan.refusals.append(UnsafeChange(what, f"{self.schema}.{where}", why, remedy))

    def notice(self, text: str) -> None:
        self.plan.notices.append(text)

    def shared_tables(self) -> Iterator[tuple[type[Row], TableFacts, TableFacts]]:
        """(row, live, wished) of the tables that are on both sides."""
        for name, row in self.rows.items():
            if name in self.live.tables:
                yield row, self.live.tables[name], self.wished.tables[name]

    def table(self, name: str) -> sa.Table:
        return self.metadata.tables[f"{self.schema}.{name}"]

    def column(self, table: str, name: str) -> Column:
        return next(column for column in columns_of(self.rows[table]) if column.name == name)

    def finds_row(self, table: str, condition: str) -> bool:
        query = f"SELECT EXISTS (SELECT FROM {self.schema}.{table} WHERE {condition})"
        return bool(self.conn.execute(query.encode()).fetchone() == (True,))

    def has_rows(self, table: str) -> bool:
        return self.finds_row(table, "true")
