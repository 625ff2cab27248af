"""Every named query is prepared against the migrated schema, so that none can be wrong without anybody noticing."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import psycopg
import pytest

import rmhdag.store
from rmhdag.store.queries import load_queries

FOLDER = Path(rmhdag.store.__file__).parent
QUERIES = [(path.stem, name) for path in sorted(FOLDER.glob("*.sql")) for name in load_queries(str(path))]
PARAMETER = re.compile(r"%\((\w+)\)s")


@pytest.mark.parametrize(("module", "name"), QUERIES, ids=[f"{module}.{name}" for module, name in QUERIES])
def test_it_can_be_prepared(conn: psycopg.Connection[Any], module: str, name: str) -> None:
    query = load_queries(str(FOLDER / f"{module}.sql"))[name].decode()
    names = list(dict.fromkeys(PARAMETER.findall(query)))
    numbered = PARAMETER.sub(lambda found: f"${names.index(found[1]) + 1}", query).replace("%%", "%")
    conn.execute("SET LOCAL search_path TO dagapp")
    conn.execute(f"PREPARE tried AS {numbered}".encode())


def test_every_sql_file_has_its_module() -> None:
    assert all(path.with_suffix(".py").exists() for path in FOLDER.glob("*.sql"))
    assert len(QUERIES) == len(set(QUERIES)) > 50
