"""The statements that switch what the catalogue shows: their cost is that of one asset, however many there are."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from rmhdag.store import catalogue_entries, revision_items
from rmhdag.store.connection import Conn, connect, enter_schema
from tests.store.test_hot_plans import Hot, explain, prepare, scanned

ASSETS = 20_000
ITEMS = 5
BIG = {"dag_geospatial_assets", "dag_revision_items", "dag_catalogue_entries"}
FILL = f"""
INSERT INTO dag_geospatial_assets (asset_id, platform_id, platform_refs, kind, created_by, latest_revision,
    current_revision)
  SELECT lpad(n::text, 32, '0'), 'ddh', '{{}}', 'raster', 'me', 2, 2 FROM generate_series(1, {ASSETS}) n;
INSERT INTO dag_revision_items (asset_id, revision, collection_id, item_id, size_bytes, body)
  SELECT lpad(n::text, 32, '0'), v, 'c' || n % 50, 'i' || n || '-' || i, 10, '{{}}'
  FROM generate_series(1, {ASSETS}) n, generate_series(1, 2) v, generate_series(1, {ITEMS}) i;
INSERT INTO dag_catalogue_entries (collection_id, item_id, asset_id, revision, status, published_version, body)
  SELECT 'c' || n % 50, 'i' || n || '-' || i, lpad(n::text, 32, '0'), 1, 'published', 1, '{{}}'
  FROM generate_series(1, {ASSETS}) n, generate_series(1, {ITEMS}) i;
"""
REVISIONS = {"revisions": json.dumps([["default", f"{n * 1_000:032}", 2] for n in range(1, 11)])}
RANGE = {
    "namespace": "default",
    "asset_id": f"{1_000:032}",
    "revision": 2,
    "after_collection": "",
    "after_item": "",
    "last_collection": "d",
    "last_item": "",
}
COPIED = {"to_revision": 3, "job_id": None, "nodes": None, "fan_outs": None}
SWITCH = [
    Hot(revision_items.SQL, "revisions_to_show", REVISIONS, rows=10),
    Hot(revision_items.SQL, "item_ranges", REVISIONS | {"range_bytes": 8_000_000}, rows=10),
    Hot(revision_items.SQL, "keep_shown_entries", REVISIONS, rows=10),
    Hot(revision_items.SQL, "withdraw_older_entries", REVISIONS, rows=10),
    Hot(revision_items.SQL, "show_items", RANGE, rows=ITEMS),
    Hot(revision_items.SQL, "copy_items", RANGE | COPIED, rows=ITEMS),
    Hot(revision_items.SQL, "withdraw_asset", {"namespace": "default", "asset_id": f"{1_000:032}"}, rows=ITEMS),
    Hot(catalogue_entries.SQL, "has_due", {}, rows=1),
]


@pytest.fixture
def planner(migrated_database: str) -> Iterator[Conn]:
    with connect(migrated_database, "test", autocommit=True, statement_timeout_seconds=60) as conn:
        enter_schema(conn, "dagapp")
        for table in BIG:
            conn.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = false)".encode())
        conn.execute("SET plan_cache_mode = force_generic_plan")
        yield conn


def test_no_statement_of_the_switch_reads_a_whole_table(planner: Conn) -> None:
    planner.execute(FILL.encode())
    for moment in ("not analysed", "analysed"):
        for hot in SWITCH:
            prepare(planner, hot)
            plan = explain(planner, hot)
            assert not scanned(plan) & BIG, f"{hot.name}, {moment}: {plan}"
            pages = plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
            assert pages <= hot.pages_per_row * hot.rows * 2, f"{hot.name}, {moment}: {pages} pages"
            planner.execute(f"DEALLOCATE {hot.name}".encode())
        planner.execute("ANALYZE")
