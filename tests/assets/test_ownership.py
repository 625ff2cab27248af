"""Every statement that changes an asset or a revision, held against the table of who may write what."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import rmhdag.store
from rmhdag.assets.ownership import ASSET_FIELDS, IMMUTABLE, REVISION_FIELDS, Writer
from rmhdag.models.assets import AssetRevision, GeospatialAsset
from rmhdag.store.queries import load_queries

FOLDER = Path(rmhdag.store.__file__).parent
# Files whose statements run for people; all others run for jobs.
COMMANDS = {"assets", "unpublishing"}
TABLES = {"dag_geospatial_assets": ASSET_FIELDS, "dag_asset_revisions": REVISION_FIELDS}
UPDATE = re.compile(r"UPDATE (dag_\w+)(?: AS \w+)?\s+SET\s(.*?)\n(?:FROM|WHERE)", re.DOTALL)
COLUMN = re.compile(r"^    (\w+) = |(?<=, )(\w+) = |^(\w+) = ", re.MULTILINE)


def changes() -> Iterator[tuple[str, str, str]]:
    """(file, table, column)"""
    for path in sorted(FOLDER.glob("*.sql")):
        for query in load_queries(str(path)).values():
            for table, body in UPDATE.findall(query.decode()):
                if table in TABLES:
                    for found in COLUMN.findall(body.strip("\n")):
                        yield path.stem, table, next(filter(None, found))


def test_each_field_is_written_by_those_who_own_it() -> None:
    found = set(changes())
    for file, table, column in found:
        writer = Writer.COMMAND if file in COMMANDS else Writer.ORCHESTRATOR
        assert writer in TABLES[table].get(column, set()), f"{file}.sql must not change {table}.{column}"
    # Else nothing was looked at.
    assert {
        ("assets", "dag_geospatial_assets", "deleted_at"),
        ("assets", "dag_geospatial_assets", "latest_revision"),
    } <= found
    assert ("asset_states", "dag_asset_revisions", "status") in found
    assert ("asset_states", "dag_geospatial_assets", "processing_status") in found


@pytest.mark.parametrize("fields", [ASSET_FIELDS, REVISION_FIELDS])
def test_what_is_immutable_has_no_writer(fields: dict[str, set[Writer]]) -> None:
    assert not IMMUTABLE & fields.keys()


def test_every_column_is_accounted_for() -> None:
    at_birth = {"created_by", "created_at", "params_digest"}
    assert set(GeospatialAsset.model_fields) <= set(ASSET_FIELDS) | IMMUTABLE | at_birth
    assert set(AssetRevision.model_fields) <= set(REVISION_FIELDS) | IMMUTABLE | at_birth
