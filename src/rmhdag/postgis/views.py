"""Views of a loaded table by the values of a column, and the span of time that a table covers."""

from __future__ import annotations

from typing import Any, NamedTuple

from psycopg import sql

from rmhdag.models.table_names import digest, name_with
from rmhdag.postgis.database import Conn, DataDatabase
from rmhdag.postgis.loading import LoadingError

MOST_VIEWS = 20


class SplitView(NamedTuple):
    stored_name: str
    column: str
    text: str
    row_count: int
    bounds: tuple[float, float, float, float] | None


def make_split_views(database: DataDatabase, conn: Conn, stored_name: str, column: str) -> list[SplitView]:
    """One for each value; rows without a value are in none. All of them or none, and the same ones if repeated."""
    table = sql.Identifier(database.work_schema, stored_name)
    query = """SELECT {column}, count(*), ST_XMin(ST_Extent(geom)), ST_YMin(ST_Extent(geom)), ST_XMax(ST_Extent(geom)),
            ST_YMax(ST_Extent(geom))
        FROM {table} WHERE {column} IS NOT NULL GROUP BY 1 ORDER BY 1 LIMIT {most}"""
    views = []
    with conn.transaction():
        names = {"column": sql.Identifier(column), "table": table, "most": sql.Literal(MOST_VIEWS + 1)}
        rows = conn.execute(sql.SQL(query).format(**names)).fetchall()
        if not rows:
            raise LoadingError(f"column {column} has no values to make views by")
        if len(rows) > MOST_VIEWS:
            raise LoadingError(
                f"column {column} has more than {MOST_VIEWS} values: views are made for at most {MOST_VIEWS}"
            )
        for value, count, *bounds in rows:
            name = name_with(stored_name, f"_{digest(repr(value))[:8]}")
            view = sql.Identifier(database.work_schema, name)
            conn.execute(
                sql.SQL("CREATE OR REPLACE VIEW {} AS SELECT * FROM {} WHERE {} = {}").format(
                    view, table, sql.Identifier(column), sql.Literal(value)
                )
            )
            conn.execute(
                sql.SQL(
                    "INSERT INTO {} (stored_name, relation, is_finished, row_count) VALUES (%s, %s::regclass, true, "
                    "%s) ON CONFLICT (stored_name) DO UPDATE SET relation = EXCLUDED.relation, "
                    "row_count = EXCLUDED.row_count"
                ).format(sql.Identifier(database.work_schema, "loaded_tables")),
                [name, view.as_string(conn), count],
            )
            views.append(SplitView(name, column, str(value), count, None if bounds[0] is None else tuple(bounds)))
    return views


def find_time_span(database: DataDatabase, conn: Conn, stored_name: str, column: str) -> dict[str, Any]:
    query = sql.SQL("SELECT min({0})::timestamptz, max({0})::timestamptz FROM {1}").format(
        sql.Identifier(column), sql.Identifier(database.work_schema, stored_name)
    )
    row = conn.execute(query).fetchone()
    if row is None or row[0] is None:
        return {"temporal_property": column}
    return {"temporal_start": row[0].isoformat(), "temporal_end": row[1].isoformat(), "temporal_property": column}
