"""What services read about public tables: `table_catalog`, and a style for each kind of geometry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from psycopg import sql
from psycopg.types.json import Jsonb

from rmhdag.postgis.database import Conn, DataDatabase

FACTS = (
    "title description keywords license attribution temporal_start temporal_end temporal_property stac_collection_id "
    "stac_item_id stac_extensions providers sci_doi sci_citation column_definitions table_group custom_properties"
).split()
# What the data says is always that of the table. The rest was said by people: it stays until they say something else.
MEASURED = ("bbox_minx", "bbox_miny", "bbox_maxx", "bbox_maxy", "geometry_type", "feature_count", "table_type")
DATA_FACTS = frozenset(
    "temporal_start temporal_end temporal_property column_definitions table_group stac_collection_id "
    "stac_item_id".split()
)
JSON_FACTS = frozenset({"stac_extensions", "providers", "column_definitions", "custom_properties"})

FILL = {"color": "#3388ff", "opacity": 0.6}
STROKE = {"color": "#2266cc", "width": 1.5}
STYLES: dict[str, dict[str, Any]] = {
    "MultiPolygon": {"fill": FILL, "stroke": STROKE},
    "MultiLineString": {"stroke": {**STROKE, "width": 2}},
    "MultiPoint": {"marker": {"elements": [{"type": "Dot", "size": 8, "fill": FILL, "stroke": STROKE}]}},
}


def catalogue_table(database: DataDatabase, conn: Conn, table_name: str, details: Mapping[str, Any]) -> None:
    """Within the transaction that shows the table."""
    bounds = details.get("bbox") or (None,) * 4
    row: dict[str, Any] = {
        "table_name": table_name,
        "schema_name": database.schema,
        **dict(zip(MEASURED[:4], bounds, strict=True)),
        "geometry_type": details.get("geometry_type"),
        "feature_count": details.get("feature_count"),
        "table_type": details.get("table_type", "user"),
        **{name: _value(name, details.get(name)) for name in FACTS},
    }
    properties = {"tipg_collection_id": _collection(database, table_name), **(details.get("custom_properties") or {})}
    row["custom_properties"] = Jsonb(properties)
    changes = [sql.SQL(_change(name)).format(sql.Identifier(name)) for name in (*MEASURED, *FACTS)]
    query = sql.SQL(
        "INSERT INTO {} AS c ({}) VALUES ({}) ON CONFLICT (table_name) DO UPDATE SET {}, updated_at = now()"
    ).format(
        sql.Identifier(database.schema, "table_catalog"),
        sql.SQL(", ").join(map(sql.Identifier, row)),
        sql.SQL(", ").join(map(sql.Placeholder, row)),
        sql.SQL(", ").join(changes),
    )
    conn.execute(query, row)
    style = STYLES.get(str(details.get("geometry_type")))
    if style is not None:
        conn.execute(
            sql.SQL(
                "INSERT INTO {} (collection_id, style_id, title, style_spec, is_default) "
                "VALUES (%s, 'default', 'Default', %s, true) ON CONFLICT DO NOTHING"
            ).format(_styles(database)),
            [_collection(database, table_name), Jsonb({"stylingRules": [{"symbolizer": style}]})],
        )


def forget_table(database: DataDatabase, conn: Conn, table_name: str) -> None:
    """Within the transaction that takes the table away."""
    query = sql.SQL("DELETE FROM {} WHERE table_name = %s").format(sql.Identifier(database.schema, "table_catalog"))
    conn.execute(query, [table_name])
    query = sql.SQL("DELETE FROM {} WHERE collection_id = %s").format(_styles(database))
    conn.execute(query, [_collection(database, table_name)])


def _change(name: str) -> str:
    if name in MEASURED or name in DATA_FACTS:
        return "{0} = EXCLUDED.{0}"
    return "{0} = c.{0} || EXCLUDED.{0}" if name == "custom_properties" else "{0} = COALESCE(EXCLUDED.{0}, c.{0})"


def _styles(database: DataDatabase) -> sql.Identifier:
    return sql.Identifier(database.schema, "feature_collection_styles")


def _collection(database: DataDatabase, table_name: str) -> str:
    return f"{database.schema}.{table_name}"


def _value(name: str, value: Any) -> Any:
    if value is None:
        return None
    if name in JSON_FACTS:
        return Jsonb(value)
    return ", ".join(value) if name == "keywords" and isinstance(value, list) else value
