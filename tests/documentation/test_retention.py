"""docs/retention.md names every table, and settings that exist; what is deleted by time has its setting there."""

import re
from pathlib import Path

from rmhdag.cli.settings import Settings, variables_of
from rmhdag.models.rows import ROWS
from rmhdag.store import retention

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "retention.md").read_text(encoding="utf-8")
LINES = re.findall(r"^\| `(dag_\w+)` \| (.+?) \| (`RMHDAG_\w+`|—) \|$", PAGE, re.MULTILINE)
SETTINGS = {
    variables_of(field)[0]: Settings.model_fields[field].default
    for field in Settings.model_fields
    if field.startswith("retention_")
}
DELETED = {
    *retention.OF_JOBS.values(),
    *retention.OF_JOBS_BY_DAY.values(),
    *retention.HISTORY.values(),
    "dag_jobs",
    "dag_pruned_jobs",
    "dag_payloads",
}


def test_every_table_is_on_the_page_once() -> None:
    assert sorted(table for table, _, _ in LINES) == sorted(row.table.name for row in ROWS)


def test_tables_that_lose_rows_by_time_name_a_setting_that_exists() -> None:
    named = {table: setting.strip("`") for table, _, setting in LINES if setting != "—"}
    assert named.keys() == DELETED
    assert set(named.values()) == SETTINGS.keys()


def test_the_defaults_are_those_of_the_settings() -> None:
    defaults = dict(re.findall(r"^\| `(RMHDAG_\w+)` \| ([\d.]+) \|", PAGE, re.MULTILINE))
    assert {name: float(text) for name, text in defaults.items()} == SETTINGS
