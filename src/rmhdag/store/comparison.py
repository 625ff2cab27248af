"""From the models and the live database to a plan: additive steps, or refusals that say why and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg

from rmhdag import __version__
from rmhdag.models.registry import SchemaMeta
from rmhdag.models.rows import OLDEST_CODE_VERSION, ROWS, SCHEMA_VERSION
from rmhdag.models.table import Row, quote
from rmhdag.store.column_steps import plan_tables_and_columns
from rmhdag.store.index_steps import plan_indexes
from rmhdag.store.partitions import DAYS_AHEAD
from rmhdag.store.plan import Plan
from rmhdag.store.rule_steps import plan_partitions, plan_rules, plan_types
from rmhdag.store.schema import check_schema_name
from rmhdag.store.survey import Survey


def plan_migration(
    conn: psycopg.Connection[Any], schema: str, rows: Sequence[type[Row]] = ROWS, *, days_ahead: int = DAYS_AHEAD
) -> Plan:
    """What `schema` lacks. Only reads: the scratch objects of the comparison are rolled back."""
    survey = Survey(conn, check_schema_name(schema), rows)
    version = _recorded_version(survey)
    if version is not None and version > SCHEMA_VERSION:
        survey.refuse(
            SchemaMeta.table.name,
            f"the database has schema version {version}, this program {SCHEMA_VERSION}",
            "a newer program has migrated it, and an older one does not know what it would undo",
            "use the newer program",
        )
        return survey.plan
    plan_types(survey)
    _refuse_other_partitioning(survey)
    plan_tables_and_columns(survey)
    plan_indexes(survey)
    plan_rules(survey)
    plan_partitions(survey, days_ahead)
    for name in survey.live.tables.keys() - survey.rows.keys():
        survey.notice(f"table {name} is not in the models")
    if version != SCHEMA_VERSION or survey.plan.steps:
        _record_version(survey)
    survey.plan.notices.sort()
    return survey.plan


def _recorded_version(survey: Survey) -> int | None:
    if SchemaMeta.table.name not in survey.live.tables:
        return None
    found = survey.conn.execute(
        f"SELECT schema_version FROM {survey.schema}.{SchemaMeta.table.name}".encode()
    ).fetchone()
    return int(found[0]) if found else None


def _record_version(survey: Survey) -> None:
    survey.change(
        f"record schema version {SCHEMA_VERSION}",
        f"INSERT INTO {survey.schema}.{SchemaMeta.table.name} "
        "(meta_id, schema_version, oldest_code_version, migrated_by, migrated_at) "
        f"VALUES (1, {SCHEMA_VERSION}, {OLDEST_CODE_VERSION}, {quote(f'rmhdag {__version__}')}, clock_timestamp()) "
        "ON CONFLICT (meta_id) DO UPDATE SET schema_version = excluded.schema_version, "
        "oldest_code_version = excluded.oldest_code_version, migrated_by = excluded.migrated_by, "
        "migrated_at = excluded.migrated_at",
    )


def _refuse_other_partitioning(survey: Survey) -> None:
    for row, live, wished in survey.shared_tables():
        if live.partitioned != wished.partitioned:
            survey.refuse(
                row.table.name,
                f"is {'' if live.partitioned else 'not '}partitioned",
                "a table cannot be given or lose partitions in place",
                "rename the table by hand, migrate, and copy its rows",
            )
