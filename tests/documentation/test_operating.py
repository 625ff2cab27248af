"""docs/operating.md names settings and metrics that exist, its backup can be restored; settings.md is generated."""

import json
import re
import tomllib
from pathlib import Path

from rmhdag.cli.settings import Settings, variables_of
from rmhdag.cli.settings_reference import reference
from tests.documentation.fences import fences_of
from tests.documentation.terminal import open_terminal

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "operating.md").read_text(encoding="utf-8")
VIEWS = DOCS.parent / "src" / "rmhdag" / "views"
EXPOSITION = (VIEWS / "exposition.py").read_text(encoding="utf-8")
QUOTA_METRICS = (VIEWS / "quota_metrics.py").read_text(encoding="utf-8")


def test_the_settings_are_up_to_date() -> None:
    """Made by `python -m rmhdag.cli.settings_reference > docs/settings.md`."""
    assert (DOCS / "settings.md").read_text(encoding="utf-8") == reference()


def test_the_settings_and_metrics_of_the_page_exist() -> None:
    known = {variable for name in Settings.model_fields for variable in variables_of(name)}
    assert set(re.findall(r"RMHDAG_\w+", PAGE)) <= known
    metrics = set(re.findall(r"`(rmhdag_\w+)", PAGE))
    assert len(metrics) > 5
    made = (
        EXPOSITION.replace("{name}", "orchestrators") + "rmhdag_workers" + "rmhdag_database_oldest_transaction_seconds"
    )
    made += "rmhdag_workflow_job_duration_p95_seconds" + QUOTA_METRICS
    assert [name for name in metrics if name not in made] == []


def test_a_backup_is_made_and_restored_as_the_page_says() -> None:
    """In one shell, as the second block uses a variable of the first."""
    dump, restore = fences_of("docs/operating.md", "sh")
    with open_terminal() as terminal:
        terminal.type("rmhdag up")
        terminal.type("rmhdag submit hello_world name=Ada --wait")
        try:
            terminal.type(f"set -e\n{dump.text}{restore.text}", dump.place)
            # The second folder has the job of the first.
            jobs = json.loads(terminal.type('RMHDAG_HOME="$HOME/rmhdag-restored" rmhdag jobs --json'))
        finally:
            terminal.type('RMHDAG_HOME="$HOME/rmhdag-restored" rmhdag db stop')
    assert [job["workflow_id"] for job in jobs["jobs"]] == ["hello_world"]


def test_a_settings_file_is_read_as_the_page_shows_it() -> None:
    (example,) = fences_of("docs/settings.md", "toml")
    with open_terminal() as terminal:
        (terminal.folder / "rmhdag.toml").write_text(example.text, encoding="utf-8")
        shown = json.loads(terminal.type("rmhdag config show --json"))
    values = {setting["name"]: setting["value"] for setting in shown["settings"]}
    for name, value in tomllib.loads(example.text).items():
        assert values[name] == value
