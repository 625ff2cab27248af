"""Results of campaigns: what is written down of a report, and that page and file say the same."""

from __future__ import annotations

import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from rmhdag.lab.chaos.campaign import CampaignOptions, Drill
from rmhdag.lab.chaos.records import campaign_record
from rmhdag.models.chaos_results import add_campaign, read_results, render_campaigns, render_deaths

ROOT = Path(__file__).resolve().parents[3]
REPORT: dict[str, Any] = {
    "minutes": 10.0,
    "jobs": 100,
    "tasks": 900,
    "kills": 9,
    "freezes": 4,
    "freezes_in_transaction": 1,
    "wake_ups_after_lease": 3,
    "database_restarts": 2,
    "terminated_backends": 1,
    "cuts": 2,
    "half_open": 3,
    "delays": 4,
    "hand_overs": 5,
    "lost": 1,
    "duplicated": 2,
    "stuck": 3,
    "violated": {"i1_none_vanishes": 1, "i9_nothing_completes_twice": 2, "leases_unknown": 4},
    "unexpected": ["a process ended by itself"],
}


def test_the_tables_of_the_page_are_those_of_the_file() -> None:
    """Made by `python -m rmhdag.models.chaos_results`."""
    page = (ROOT / "docs/reliability.md").read_text(encoding="utf-8")
    assert f"\n{render_campaigns(read_results())}\n" in page
    assert f"\n{render_deaths(read_results())}\n" in page


def test_a_record_hides_nothing_that_was_violated() -> None:
    record = campaign_record(REPORT, command="rmhdag chaos", version="1", day=date(2026, 11, 18))
    assert (record.lost, record.doubled, record.stuck, record.late) == (1, 2, 3, 5)
    assert (record.freezes, record.freezes_past_lease, record.freezes_in_transaction) == (4, 3, 1)
    assert record.other_faults == 15


def test_a_campaign_is_added_and_replaces_an_earlier_one_of_its_command(tmp_path: Path) -> None:
    file = tmp_path / "results.json"

    def add(command: str, jobs: int) -> list[tuple[str, int]]:
        report = REPORT | {"jobs": jobs}
        add_campaign(file, campaign_record(report, command=command, version="1", day=date(2026, 11, 18)))
        return [(one.command, one.jobs) for one in read_results(file).campaigns]

    assert add("one", 1) == [("one", 1)]
    assert add("two", 2) == [("one", 1), ("two", 2)]
    assert add("one", 3) == [("two", 2), ("one", 3)]
    file.write_bytes((ROOT / "src/rmhdag/models/chaos_results.json").read_bytes())
    add("another", 4)
    assert read_results(file).deaths == read_results().deaths


@pytest.mark.parametrize(
    ("options", "command"),
    [
        (CampaignOptions(seed=2), "rmhdag chaos --minutes 10 --seed 2"),
        (CampaignOptions(seed=4, drill=Drill.NO_FAULTS), "rmhdag chaos --minutes 10 --seed 4 --no-faults"),
        (
            CampaignOptions(minutes=0.5, lease_seconds=3, workers=2, small=True),
            "rmhdag chaos --minutes 0.5 --seed 1 --lease 3 --workers 2 --small",
        ),
    ],
)
def test_the_command_repeats_the_campaign(options: CampaignOptions, command: str) -> None:
    assert options.command == command


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--one-by-one", "--record", "new.json"], "--record is for campaigns"),
        (["--record", "missing/new.json"], "cannot take the figures"),
        (["--record", "other.json"], "cannot take the figures"),
    ],
)
def test_what_cannot_be_recorded_is_refused_before_the_campaign(
    tmp_path: Path, options: list[str], message: str
) -> None:
    (tmp_path / "other.json").write_text('{"mine": true}', encoding="utf-8")
    command = [sys.executable, "-m", "rmhdag.cli", "chaos", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["other.json"]
    assert (tmp_path / "other.json").read_text(encoding="utf-8") == '{"mine": true}'
