"""A seed is a whole history: the same one in every process, whatever Python's hashes are."""

from __future__ import annotations

import os
import subprocess
import sys

from rmhdag.lab.simulation.rows import Guards
from rmhdag.lab.simulation.simulate import Report, replay, run_seed, run_seeds

SEEDS = (3, 17, 42)
PRINT_TRACES = f"""
from rmhdag.lab.simulation.simulate import replay
for seed in {SEEDS}:
    print("\\n".join(replay(seed)))
"""


def test_a_seed_tells_the_same_story_twice() -> None:
    assert replay(3) == replay(3)
    assert replay(3) != replay(4)
    assert len(replay(3)) > 50


def test_a_seed_tells_the_same_story_in_every_process() -> None:
    stories = [
        subprocess.run(
            [sys.executable, "-c", PRINT_TRACES],
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONIOENCODING": "utf-8"},
            capture_output=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    ]
    ours = "".join(f"{line}\n" for seed in SEEDS for line in replay(seed)).encode()
    assert stories == [ours, ours]


def test_tracing_changes_nothing() -> None:
    silent, told = run_seed(17), run_seed(17, trace=True)
    assert (silent.steps, silent.seconds, silent.operations) == (told.steps, told.seconds, told.operations)
    assert silent.trace == []


def test_several_processes_find_what_one_finds() -> None:
    seen: list[int] = []
    together = run_seeds(100, 12, processes=2, on_progress=lambda report: seen.append(report.seeds))
    alone = run_seeds(100, 12)
    assert together == alone
    assert seen == list(range(1, 13))


def test_a_failing_seed_fails_again_in_the_same_way() -> None:
    broken = Guards(duplicate_report=False)
    report: Report = run_seeds(0, 5, guards=broken)
    assert report.failures
    failure = report.failures[0]
    again = run_seed(failure.seed, trace=True, guards=broken).failure
    assert again == failure
    assert failure.trace_tail[-1].endswith(f"violated: {failure.invariant}: {failure.message}")
    assert failure.trace_tail == replay(failure.seed, guards=broken)[-len(failure.trace_tail) :]
