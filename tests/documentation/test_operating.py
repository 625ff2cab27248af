"""docs/operating.md names settings and metrics that exist; docs/settings.md is what the settings say of themselves."""

import re
from pathlib import Path

from rmhdag.cli.settings import Settings, variables_of
from rmhdag.cli.settings_reference import reference

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "operating.md").read_text(encoding="utf-8")
EXPOSITION = (DOCS.parent / "src" / "rmhdag" / "api" / "views" / "exposition.py").read_text(encoding="utf-8")


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
    made += "rmhdag_workflow_job_duration_p95_seconds"
    assert [name for name in metrics if name not in made] == []
