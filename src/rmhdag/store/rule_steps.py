"""Steps for what the database does by itself: enum types, checks, triggers, storage parameters."""

from __future__ import annotations

from rmhdag.models.table import Row, quote
from rmhdag.store.column_steps import filled_check_name
from rmhdag.store.day_functions import DAY_FUNCTIONS
from rmhdag.store.partitions import default_partition_ddl, default_partition_name, missing_partitions
from rmhdag.store.schema import (
    TOUCH_FUNCTION,
    check_name,
    enum_ddl,
    function_ddl,
    is_touched,
    trigger_ddl,
    trigger_name,
)
from rmhdag.store.schema_facts import TableFacts
from rmhdag.store.survey import Survey


def plan_types(survey: Survey) -> None:
    """Everything that tables need to be there before them."""
    if not survey.live.exists:
        survey.change(f"create schema {survey.schema}", f"CREATE SCHEMA IF NOT EXISTS {survey.schema}")
    for name, labels in survey.wished.enums.items():
        live_labels = survey.live.enums.get(name)
        if live_labels is None:
            survey.change(f"create type {name}", enum_ddl(survey.schema, name, labels))
            continue
        for position, label in enumerate(labels):
            if label not in live_labels:
                place = f"AFTER {quote(labels[position - 1])}" if position else f"BEFORE {quote(live_labels[0])}"
                survey.change(
                    f"add {label} to type {name}",
                    f"ALTER TYPE {survey.schema}.{name} ADD VALUE IF NOT EXISTS {quote(label)} {place}",
                )
        for label in live_labels:
            if label not in labels:
                survey.notice(f"label {label} of type {name} is not in the models")
    if survey.live.functions.get(TOUCH_FUNCTION) != survey.wished.functions[TOUCH_FUNCTION]:
        survey.change(f"create function {TOUCH_FUNCTION}", function_ddl(survey.schema))
    for function in DAY_FUNCTIONS:
        if survey.live.functions.get(function.name) != survey.wished.functions[function.name]:
            statements = function.ddl(survey.schema), function.closing_ddl(survey.schema)
            survey.change(f"create function {function.name}", *statements)


def plan_rules(survey: Survey) -> None:
    for row, live, wished in survey.shared_tables():
        _plan_checks(survey, row, live, wished)
        name = trigger_name(row)
        if is_touched(row) and live.triggers.get(name) != wished.triggers[name]:
            survey.change(f"stamp updated_at of {row.table.name}", trigger_ddl(survey.schema, row))
        stores = live.partitions if live.partitioned else {row.table.name: live}
        for store, facts in stores.items():
            _plan_storage(survey, row, store, facts)


def _plan_checks(survey: Survey, row: type[Row], live: TableFacts, wished: TableFacts) -> None:
    table = row.table.name
    alter = f"ALTER TABLE {survey.schema}.{table}"
    for check in row.table.checks:
        name = check_name(row, check)
        live_check = live.checks.get(name)
        if live_check is None or live_check.definition != wished.checks[name].definition:
            if _is_broken(survey, row, check.condition, name):
                continue
            # Replaced in one statement, so that there is no moment without the check.
            drop = f"DROP CONSTRAINT {name}, " if live_check else ""
            survey.change(
                f"{'replace' if live_check else 'add'} check {name}",
                f"{alter} {drop}ADD CONSTRAINT {name} CHECK ({check.condition}) NOT VALID",
            )
        if live_check is None or not live_check.valid or live_check.definition != wished.checks[name].definition:
            survey.change(f"validate check {name}", f"{alter} VALIDATE CONSTRAINT {name}")
    ours = {filled_check_name(table, column) for column in wished.columns}
    for name in live.checks.keys() - wished.checks.keys() - ours:
        survey.notice(f"check {name} of {table} is not in the models")


def _is_broken(survey: Survey, row: type[Row], condition: str, name: str) -> bool:
    live = survey.live.tables[row.table.name]
    missing = survey.wished.tables[row.table.name].columns.keys() - live.columns.keys()
    added = {
        label
        for type_, labels in survey.wished.enums.items()
        for label in labels
        if label not in survey.live.enums.get(type_, labels)
    }
    # Over columns or labels that are still to be added the check cannot be asked; validating it will tell.
    if any(column in condition for column in missing) or any(quote(label) in condition for label in added):
        return False
    if not survey.finds_row(row.table.name, f"NOT ({condition})"):
        return False
    survey.refuse(
        row.table.name,
        f"cannot have the check {name}",
        f"some rows break it: {condition}",
        f"correct them: SELECT * FROM {survey.schema}.{row.table.name} WHERE NOT ({condition})",
    )
    return True


def _plan_storage(survey: Survey, row: type[Row], name: str, facts: TableFacts) -> None:
    wrong = {key: value for key, value in row.table.storage.items() if facts.storage.get(key) != value}
    if wrong:
        settings = ", ".join(f"{key} = {value}" for key, value in wrong.items())
        survey.change(f"set storage parameters of {name}", f"ALTER TABLE {survey.schema}.{name} SET ({settings})")


def plan_partitions(survey: Survey, days_ahead: int) -> None:
    for row, live, _ in survey.shared_tables():
        if live.partitioned and default_partition_name(row.table) not in live.partitions:
            survey.change(
                f"create partition {default_partition_name(row.table)}", default_partition_ddl(survey.schema, row.table)
            )
    for partition in missing_partitions(survey.conn, survey.schema, days_ahead, tuple(survey.rows.values())):
        survey.change(f"create partition {partition.name}", partition.ddl())
