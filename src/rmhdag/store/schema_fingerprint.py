"""A digest that changes whenever a schema, its version or the program changes: equal digests need no comparison.

PostgreSQL writes a new version of a catalogue row with every change, so that ids and versions (`xmin`) of all rows that
belong to a schema stand for its state. Reading them takes milliseconds; comparing the schema with the models takes half
a second of processor time, most of it to load SQLAlchemy and Alembic.
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from psycopg import sql

from rmhdag.store.connection import Conn

META_TABLE = "dag_schema_meta"
# The packages whose code decides what a schema should be.
PACKAGES = ("models", "store")

CATALOGUE = """
    WITH relations AS MATERIALIZED (
        SELECT c.oid, c.xmin FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %(schema)s
    ), parts AS (
        SELECT format('schema %%s %%s', oid, xmin) AS part FROM pg_namespace WHERE nspname = %(schema)s
        UNION ALL SELECT format('relation %%s %%s', oid, xmin) FROM relations
        UNION ALL SELECT format('column %%s %%s %%s', attrelid, attnum, a.xmin)
            FROM pg_attribute a JOIN relations r ON r.oid = a.attrelid
        UNION ALL SELECT format('default %%s %%s', d.oid, d.xmin)
            FROM pg_attrdef d JOIN relations r ON r.oid = d.adrelid
        UNION ALL SELECT format('index %%s %%s %%s', indexrelid, i.xmin, indisvalid)
            FROM pg_index i JOIN relations r ON r.oid = i.indexrelid
        UNION ALL SELECT format('parent %%s %%s %%s', inhrelid, inhparent, h.xmin)
            FROM pg_inherits h JOIN relations r ON r.oid = h.inhrelid
        UNION ALL SELECT format('trigger %%s %%s', t.oid, t.xmin)
            FROM pg_trigger t JOIN relations r ON r.oid = t.tgrelid
        UNION ALL SELECT format('constraint %%s %%s', c.oid, c.xmin)
            FROM pg_constraint c JOIN pg_namespace n ON n.oid = c.connamespace WHERE n.nspname = %(schema)s
        UNION ALL SELECT format('type %%s %%s', t.oid, t.xmin)
            FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace WHERE n.nspname = %(schema)s
        UNION ALL SELECT format('label %%s %%s', e.oid, e.xmin)
            FROM pg_enum e JOIN pg_type t ON t.oid = e.enumtypid JOIN pg_namespace n ON n.oid = t.typnamespace
            WHERE n.nspname = %(schema)s
        UNION ALL SELECT format('function %%s %%s', f.oid, f.xmin)
            FROM pg_proc f JOIN pg_namespace n ON n.oid = f.pronamespace WHERE n.nspname = %(schema)s
    )
    SELECT current_database(), current_setting('server_version'), (clock_timestamp() AT TIME ZONE 'UTC')::date,
        to_regclass(%(meta)s)::oid, md5(string_agg(part, ';' ORDER BY part COLLATE "C"))
    FROM parts"""


def fingerprint(conn: Conn, schema: str) -> str:
    """Of the program, the schema and the day, because partitions are created ahead of their days."""
    meta = sql.Identifier(schema, META_TABLE)
    row = conn.execute(CATALOGUE, {"schema": schema, "meta": meta.as_string(conn)}).fetchone()
    assert row is not None
    digest = sha256(f"{schema} {row}".encode())
    if row[3] is not None:
        versions = conn.execute(sql.SQL("SELECT schema_version, oldest_code_version FROM {}").format(meta)).fetchone()
        digest.update(f"{versions}".encode())
    root = Path(__file__).parent.parent
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()
