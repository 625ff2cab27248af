"""The guards are needed and the simulator sees it: without any one of them it finds a violation, with all none."""

from __future__ import annotations

import pytest

from rmhdag.engine import tasks
from rmhdag.engine.run import JobRun
from rmhdag.engine.slots import DISPATCHED, RUNNING, Slot
from rmhdag.lab.simulation.rows import Guards
from rmhdag.lab.simulation.simulate import Failure, run_seed

# Each guard is missed within a few dozen seeds; the bound leaves room for changes of the dice.
ENOUGH_SEEDS = 300


def first_failure(guards: Guards | None = None) -> Failure:
    for seed in range(ENOUGH_SEEDS):
        failure = run_seed(seed, guards=guards).failure
        if failure is not None:
            return failure
    pytest.fail(f"{ENOUGH_SEEDS} seeds did not miss the guard")


@pytest.mark.parametrize(
    ("guards", "invariants"),
    [
        (Guards(owner_fence=False), ["I3 only the owner writes"]),
        (Guards(lease_epoch=False), ["I3 no stale lease"]),
        (Guards(duplicate_report=False), ["I6 one result per task", "I3 no stale lease"]),
        (
            Guards(duplicate_commit=False),
            [
                "the database accepts every write",
                "I2 ends stay",
                "I8 memory equals rows",
                "events are numbered without gaps",
            ],
        ),
        (Guards(duplicate_input=False), ["I6 inputs count once"]),
        (Guards(waiting_result=False), ["I6 no recorded result is thrown away"]),
        (Guards(gives_back=False), ["nothing owed is left"]),
        # As it once was: one torn job condemned its batch, and what the others were owed was gone.
        (Guards(gives_back=False, torn_alone=False), ["nothing owed is left"]),
    ],
    ids=[
        "owner fence",
        "lease epoch",
        "duplicate report",
        "duplicate commit",
        "duplicate input",
        "waiting result",
        "given back",
        "given back, torn batches",
    ],
)
def test_the_store_needs_each_of_its_guards(guards: Guards, invariants: list[str]) -> None:
    failure = first_failure(guards)
    assert failure.invariant in invariants
    assert run_seed(failure.seed).failure is None


def current_whatever_the_attempt(run: JobRun, node_id: str, attempt: int) -> Slot | None:
    slot = run.find(node_id)
    return slot if slot is not None and slot.task is not None and slot.status in (DISPATCHED, RUNNING) else None


def test_the_engine_needs_its_check_of_the_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as without:
        without.setattr(tasks, "_current", current_whatever_the_attempt)
        failure = first_failure()
    assert failure.invariant != "the engine never raises"
    assert run_seed(failure.seed).failure is None
