"""The schemas of a namespace and the tables that rmhdag keeps in them, made on first use."""

from __future__ import annotations

from psycopg import sql

from rmhdag.postgis.database import Conn, DataDatabaseError

# Any number that nobody else uses: two that make the schemas at once would collide.
LAYOUT_LOCK = 0x726D6864
INSTALL = "install PostGIS (Debian: postgresql-15-postgis-3) and run CREATE EXTENSION postgis in this database"

# What services and people read: nothing about jobs, workers or storage.
PUBLIC_TABLES = """
CREATE TABLE IF NOT EXISTS {schema}.table_catalog (
    table_name text PRIMARY KEY,
    schema_name text NOT NULL,
    title varchar(500),
    description text,
    keywords text,
    license text,
    attribution varchar(500),
    bbox_minx double precision,
    bbox_miny double precision,
    bbox_maxx double precision,
    bbox_maxy double precision,
    temporal_start timestamptz,
    temporal_end timestamptz,
    temporal_property text,
    geometry_type text,
    primary_geometry text NOT NULL DEFAULT 'geom',
    srid integer NOT NULL DEFAULT 4326,
    feature_count bigint,
    stac_collection_id text,
    stac_item_id text,
    stac_extensions jsonb,
    providers jsonb,
    sci_doi text,
    sci_citation text,
    table_type text NOT NULL DEFAULT 'user' CHECK (table_type IN ('user', 'curated', 'system', 'split_view')),
    column_definitions jsonb,
    table_group text,
    custom_properties jsonb NOT NULL DEFAULT '{{}}',
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE IF NOT EXISTS {schema}.feature_collection_styles (
    collection_id text NOT NULL,
    style_id text NOT NULL,
    title text,
    style_spec jsonb NOT NULL,
    is_default boolean NOT NULL DEFAULT false,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (collection_id, style_id)
);
CREATE UNIQUE INDEX IF NOT EXISTS feature_collection_styles_default
    ON {schema}.feature_collection_styles (collection_id) WHERE is_default;
"""

# `relation` follows a table through every change of its name and schema.
WORK_TABLES = """
CREATE TABLE IF NOT EXISTS {work}.loaded_tables (
    stored_name text PRIMARY KEY,
    relation oid NOT NULL,
    is_finished boolean NOT NULL DEFAULT false,
    row_count bigint,
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE IF NOT EXISTS {work}.loaded_chunks (
    stored_name text NOT NULL,
    batch_id text NOT NULL,
    content_hash text NOT NULL,
    row_count bigint NOT NULL,
    first_id bigint NOT NULL,
    loaded_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (stored_name, batch_id)
);
CREATE TABLE IF NOT EXISTS {work}.places (
    table_name text PRIMARY KEY,
    stored_name text,
    label text,
    version bigint NOT NULL
);
"""


def ensure_layout(conn: Conn, schema: str, work: str) -> None:
    """Safe to call at any time by any number of processes."""
    tables = conn.execute(
        "SELECT to_regclass(%s), to_regclass(%s)",
        [_quoted(work, "places"), _quoted(schema, "feature_collection_styles")],
    )
    if None not in (tables.fetchone() or (None,)):
        return
    if conn.execute("SELECT FROM pg_extension WHERE extname = 'postgis'").fetchone() is None:
        raise DataDatabaseError(f"the data database has no PostGIS: {INSTALL}")
    names = {"schema": sql.Identifier(schema), "work": sql.Identifier(work)}
    with conn.transaction():
        conn.execute("SELECT pg_advisory_xact_lock(%s)", [LAYOUT_LOCK])
        for name in (schema, work):
            # Not IF NOT EXISTS: that needs the right to create schemas even if there is nothing to do.
            if conn.execute("SELECT FROM pg_namespace WHERE nspname = %s", [name]).fetchone() is None:
                conn.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(name)))
        conn.execute(sql.SQL(PUBLIC_TABLES).format(**names))
        conn.execute(sql.SQL(WORK_TABLES).format(**names))


def _quoted(schema: str, table: str) -> str:
    return f'"{schema}".{table}'
