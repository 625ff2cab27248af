"""The campaign of every test run: 200 seeds, nothing violated, and every kind of thing has happened."""

from __future__ import annotations

import typing

from rmhdag.engine.effects import Effect
from rmhdag.engine.inputs import Input
from rmhdag.lab.simulation.faults import Fault
from rmhdag.lab.simulation.simulate import run_seeds
from rmhdag.models.events import EventType
from rmhdag.models.states import JOB_TERMINAL, NODE_TERMINAL

# After 100 seeds each kind has happened at least five times; `rmhdag simulate` goes on from there.
SEEDS = 200
COMMANDS = ("CancelJob", "Decided", "RetryNode")
BY_OTHERS = (EventType.JOB_CREATED, EventType.JOB_RECLAIMED, EventType.JOB_RERUN)  # not the engine's to record


def kinds_that_must_occur() -> list[str]:
    kinds = [f"input {kind.__name__}" for kind in typing.get_args(Input)]
    kinds += [f"effect {kind.__name__}" for kind in typing.get_args(Effect)]
    kinds += [f"fault {fault}" for fault in Fault]
    kinds += [f"event {kind}" for kind in EventType if kind.startswith(("job_", "node_")) and kind not in BY_OTHERS]
    kinds += [f"{kind} {answer}" for kind in COMMANDS for answer in ("applied", "refused")]
    kinds += [f"job {status}" for status in JOB_TERMINAL]
    kinds += [f"node {status}" for status in NODE_TERMINAL]
    kinds += ["check counters", "check reload", "outcome commit lost", "outcome news overtaken", "depth 8"]
    return [*kinds, "outcome report accepted", "outcome report stale", "outcome report repeated"]


def test_two_hundred_seeds_hold_and_leave_nothing_out() -> None:
    """A campaign that never loses a commit or never expands in chunks would prove little, so that fails too."""
    report = run_seeds(0, SEEDS)
    assert [(failure.seed, failure.invariant, failure.message) for failure in report.failures] == []
    assert report.seeds == SEEDS
    missing = [kind for kind in kinds_that_must_occur() if not report.operations[kind]]
    assert missing == []
