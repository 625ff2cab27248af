"""From the models and the live database to a plan: additive steps, or refusals that say why and what to do."""

from __future__ import annotations

from collections.abc import Sequence

from rmhdag import __version__
from rmhdag.models.audit import AuditRecord
from rmhdag.models.registry import Orchestrator, SchemaMeta, Worker
from rmhdag.models.rows import OLDEST_CODE_VERSION, ROWS, SCHEMA_VERSION
from rmhdag.models.table import Row, quote
from rmhdag.store.column_steps import plan_tables_and_columns
from rmhdag.store.connection import Conn
from rmhdag.store.index_steps import plan_indexes
from rmhdag.store.migration_steps import MigrationSteps
from rmhdag.store.partitions import DAYS_AHEAD
from rmhdag.store.rule_steps import plan_partitions, plan_rules, plan_types
from rmhdag.store.schema import check_schema_name
from rmhdag.store.survey import Survey

# A process that has sent a heartbeat within this time is running.
LIVE_SECONDS = 60
# A setting of the session that says who migrates.
ACTOR_SETTING = "rmhdag.actor"


def plan_migration(
    conn: Conn, schema: str, rows: Sequence[type[Row]] = ROWS, *, days_ahead: int = DAYS_AHEAD
) -> MigrationSteps:
    """What `schema` lacks. Only reads: the scratch objects of the comparison are rolled back."""
    survey = Survey(conn, check_schema_name(schema), rows)
    recorded = _recorded_versions(survey)
    version = None if recorded is None else recorded[0]
    if version is not None and version > SCHEMA_VERSION:
        survey.refuse(
            SchemaMeta.table.name,
            f"the database has schema version {version}, this program {SCHEMA_VERSION}",
            "a newer program has migrated it, and this older one could undo its changes",
            "use the newer program",
        )
        return survey.plan
    if recorded is not None and recorded[1] < OLDEST_CODE_VERSION:
        _refuse_older_processes(survey)
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


def _recorded_versions(survey: Survey) -> tuple[int, int] | None:
    """The schema's version, and the oldest code that may work with it."""
    if SchemaMeta.table.name not in survey.live.tables:
        return None
    row = survey.conn.execute(
        f"SELECT schema_version, oldest_code_version FROM {survey.schema}.{SchemaMeta.table.name}".encode()
    ).fetchone()
    return None if row is None else (int(row[0]), int(row[1]))


def _refuse_older_processes(survey: Survey) -> None:
    """Processes that run now passed the check of their own version, and the new schema shuts them out."""
    for row in (Orchestrator, Worker):
        if row.table.name not in survey.live.tables:
            continue
        query = (
            f"SELECT count(*) FROM {survey.schema}.{row.table.name} "
            f"WHERE heartbeat_at > clock_timestamp() - interval '{LIVE_SECONDS} seconds'"
        )
        count = survey.conn.execute(query.encode()).fetchone()
        if count and count[0]:
            what = row.table.name.removeprefix("dag_")
            survey.refuse(
                row.table.name,
                f"{count[0]} {what if count[0] > 1 else what[:-1]} of an older version of rmhdag may still be running",
                f"schema version {SCHEMA_VERSION} takes programs of version {OLDEST_CODE_VERSION} or newer only, "
                "and older ones would damage it",
                "stop them all, migrate, and start the new version",
            )


def _record_version(survey: Survey) -> None:
    survey.change(
        f"record schema version {SCHEMA_VERSION}",
        f"INSERT INTO {survey.schema}.{SchemaMeta.table.name} "
        "(meta_id, schema_version, oldest_code_version, migrated_by, migrated_at) "
        f"VALUES (1, {SCHEMA_VERSION}, {OLDEST_CODE_VERSION}, {quote(f'rmhdag {__version__}')}, clock_timestamp()) "
        "ON CONFLICT (meta_id) DO UPDATE SET schema_version = excluded.schema_version, "
        "oldest_code_version = excluded.oldest_code_version, migrated_by = excluded.migrated_by, "
        "migrated_at = excluded.migrated_at",
        *_audited(survey),
    )


def _audited(survey: Survey) -> list[str]:
    """At this point the table is there, whatever the steps before have made."""
    if AuditRecord.table.name not in survey.rows:
        return []
    statement = (
        f"INSERT INTO {survey.schema}.{AuditRecord.table.name} (namespace, actor, action, subject, after) "
        f"VALUES ('default', COALESCE(NULLIF(current_setting('{ACTOR_SETTING}', true), ''), session_user), "
        f"'schema.migrate', 'schema {survey.schema}', "
        f"jsonb_build_object('schema_version', {SCHEMA_VERSION}, 'steps', {len(survey.plan.steps)}))"
    )
    return [statement]


def _refuse_other_partitioning(survey: Survey) -> None:
    for row, live, wished in survey.shared_tables():
        if live.partitioned != wished.partitioned:
            survey.refuse(
                row.table.name,
                f"is {'' if live.partitioned else 'not '}partitioned",
                "a table cannot be given or lose partitions in place",
                "rename the table by hand, migrate, and copy its rows",
            )
