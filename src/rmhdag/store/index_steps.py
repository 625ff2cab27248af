"""Steps for indexes: built beside the writers, invalid ones again, changed ones by replacement."""

from __future__ import annotations

import re

import sqlalchemy as sa

from rmhdag.models.table import Row
from rmhdag.store.schema import index_ddl
from rmhdag.store.schema_facts import TableFacts
from rmhdag.store.survey import Survey


def plan_indexes(survey: Survey) -> None:
    for row, live, wished in survey.shared_tables():
        _compare_key(survey, row, live, wished)
        for index in sorted(survey.table(row.table.name).indexes, key=lambda index: str(index.name)):
            if live.partitioned:
                _plan_partitioned(survey, row, index, live, wished)
            else:
                _plan_plain(survey, row, index, live, wished)
        for name, facts in live.indexes.items():
            if name not in wished.indexes and not facts.primary and not name.endswith("_rebuilt"):
                survey.notice(f"index {name} is not in the models")


def _compare_key(survey: Survey, row: type[Row], live: TableFacts, wished: TableFacts) -> None:
    name, live_key = next(
        ((name, facts.definition) for name, facts in live.indexes.items() if facts.primary), ("", None)
    )
    wished_key = next(index.definition for index in wished.indexes.values() if index.primary)
    if live_key is not None and not live.partitioned and _grows(row, live, live_key):
        _plan_larger_key(survey, row, name)
    elif live_key != wished_key:
        survey.refuse(
            row.table.name,
            "has another primary key",
            f"it is {live_key or 'missing'} in the database and {wished_key} in the models",
            "build the new key by hand: a unique index, then ALTER TABLE … ADD PRIMARY KEY USING INDEX",
        )


def _grows(row: type[Row], live: TableFacts, live_key: str) -> bool:
    """Whether the key has columns more than it had: rows that were unique stay so. All of them must be required."""
    before = set(live_key.partition("(")[2].rstrip(")").split(", "))
    ready = all(name in live.columns and live.columns[name].not_null for name in row.table.key)
    return ready and before < set(row.table.key)


def _plan_larger_key(survey: Survey, row: type[Row], name: str) -> None:
    table, rebuilt = f"{survey.schema}.{row.table.name}", f"{name}_rebuilt"
    columns = ", ".join(row.table.key)
    survey.change_concurrently(
        f"build the primary key of {row.table.name} as the models have it now",
        f"DROP INDEX CONCURRENTLY IF EXISTS {survey.schema}.{rebuilt}",
        f"CREATE UNIQUE INDEX CONCURRENTLY {rebuilt} ON {table} ({columns})",
    )
    survey.change(
        f"replace the primary key of {row.table.name}",
        f"ALTER TABLE {table} DROP CONSTRAINT {name}, ADD CONSTRAINT {name} PRIMARY KEY USING INDEX {rebuilt}",
    )


def _plan_plain(survey: Survey, row: type[Row], index: sa.Index, live: TableFacts, wished: TableFacts) -> None:
    name = str(index.name)
    live_index, wished_index = live.indexes.get(name), wished.indexes[name]
    if (
        live_index
        and live_index.valid
        and (live_index.definition, live_index.unique) == (wished_index.definition, wished_index.unique)
    ):
        return
    if _has_duplicates(survey, row, index):
        return
    if live_index is None or not live_index.valid:
        drop = [f"DROP INDEX CONCURRENTLY IF EXISTS {survey.schema}.{name}"] if live_index else []
        title = f"build index {name}{' again: it is invalid' if live_index else ''}"
        survey.change_concurrently(title, *drop, _concurrent_ddl(survey, index, name, row.table.name))
        return
    rebuilt = f"{name}_rebuilt"
    survey.change_concurrently(
        f"build index {name} as the models have it now",
        f"DROP INDEX CONCURRENTLY IF EXISTS {survey.schema}.{rebuilt}",
        _concurrent_ddl(survey, index, rebuilt, row.table.name),
    )
    survey.change(
        f"replace index {name}",
        f"DROP INDEX {survey.schema}.{name}",
        f"ALTER INDEX {survey.schema}.{rebuilt} RENAME TO {name}",
    )


def _plan_partitioned(survey: Survey, row: type[Row], index: sa.Index, live: TableFacts, wished: TableFacts) -> None:
    """The table's index is made empty, and becomes valid when the last partition's index is attached to it."""
    name, table = str(index.name), row.table.name
    live_index, wished_index = live.indexes.get(name), wished.indexes[name]
    if live_index and (live_index.definition, live_index.unique) != (wished_index.definition, wished_index.unique):
        survey.refuse(
            table,
            f"has another index {name}",
            "an index of a partitioned table cannot be replaced while writers go on",
            "give the index of the models a new name; the old one may be dropped by hand later",
        )
        return
    if live_index is None:
        if _has_duplicates(survey, row, index):
            return
        start = f"{_head(index)} {name} ON ONLY {survey.schema}.{table} {_tail(index)}"
        survey.change(f"begin index {name}", start)
    for leaf in sorted(live.partitions.keys() - live.attached.get(name, set())):
        part = name.replace(table, leaf, 1)
        survey.change_concurrently(
            f"build index {part}",
            f"DROP INDEX CONCURRENTLY IF EXISTS {survey.schema}.{part}",
            _concurrent_ddl(survey, index, part, leaf),
        )
        survey.change(
            f"attach index {part}", f"ALTER INDEX {survey.schema}.{name} ATTACH PARTITION {survey.schema}.{part}"
        )


def _concurrent_ddl(survey: Survey, index: sa.Index, name: str, table: str) -> str:
    return f"{_head(index)} CONCURRENTLY {name} ON {survey.schema}.{table} {_tail(index)}"


def _head(index: sa.Index) -> str:
    return "CREATE UNIQUE INDEX" if index.unique else "CREATE INDEX"


def _tail(index: sa.Index) -> str:
    match = re.search(r"USING .*", index_ddl(index), re.DOTALL)
    assert match, "every index names its method"
    return match[0]


def _has_duplicates(survey: Survey, row: type[Row], index: sa.Index) -> bool:
    spec = next(spec for spec in row.table.indexes if str(index.name).endswith(f"_{spec.name}_idx"))
    live = survey.live.tables[row.table.name].columns
    # Columns that are not there yet are equal in all rows or filled later; building the index will tell.
    if not spec.unique or not all(name in live for name in spec.columns):
        return False
    columns, where = ", ".join(spec.columns), f"WHERE {spec.where}" if spec.where else ""
    query = (
        f"SELECT {columns} FROM {survey.schema}.{row.table.name} {where} GROUP BY {columns} HAVING count(*) > 1 LIMIT 1"
    )
    answer = survey.conn.execute(query.encode()).fetchone()
    if answer:
        survey.refuse(
            row.table.name,
            f"cannot have the unique index {index.name}",
            f"several rows have ({columns}) = {answer}",
            "remove or change the duplicates",
        )
    return answer is not None
