"""The outcome of a task that a worker runs: decided by seed, task and lease alone, on any worker at any time."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from random import Random

from rmhdag.lab.simulation.rows import QueueRow, ResultRow
from rmhdag.models.events import ErrorKind
from rmhdag.models.records import BlobRecord, Zone


class Fate(StrEnum):
    SUCCEEDS = "succeeds"
    FAILS = "fails"
    FAILS_FOR_GOOD = "fails_for_good"
    SNOOZES = "snoozes"
    HANGS = "hangs"  # the worker enforces the time-out
    HANGS_UNNOTICED = "hangs_unnoticed"  # the engine has to
    KILLS_WORKER = "kills_worker"


_WEIGHTS = {
    Fate.SUCCEEDS: 78,
    Fate.FAILS: 12,
    Fate.FAILS_FOR_GOOD: 1,
    Fate.SNOOZES: 3,
    Fate.HANGS: 2,
    Fate.HANGS_UNNOTICED: 2,
    Fate.KILLS_WORKER: 2,
}


@dataclass(slots=True)
class Outcome:
    fate: Fate
    seconds: float
    marks_start: bool
    checkpoints: int
    result: ResultRow


def outcome_of(seed: int, row: QueueRow) -> Outcome:
    """The same attempt has the same fate in each of its leases, except that a snooze ends after the first one."""
    rng = Random(f"{seed}/{row.job_id}/{row.node_id}/{row.attempt}")
    fate = rng.choices(list(_WEIGHTS), list(_WEIGHTS.values()))[0]
    seconds = rng.choice((0.01, 0.05, 0.3, 1.0, 4.0))
    # A task that somebody held before starts only after its start is recorded, or one that kills its worker at once
    # would never be counted; losses of leases that were not started are not in `lease_losses`, but in the epoch.
    marks_start = rng.random() < 0.2 or seconds >= 0.3 or row.lease_epoch > 1
    checkpoints = rng.choice((0, 0, 0, 1, 2))
    if fate is Fate.SNOOZES and row.lease_epoch > 1:
        fate = Fate.SUCCEEDS
    kinds = {Fate.SUCCEEDS: None, Fate.FAILS_FOR_GOOD: ErrorKind.NON_RETRYABLE, Fate.HANGS: ErrorKind.TIMEOUT}
    result = ResultRow(
        row.task_id,
        row.lease_epoch,
        row.job_id,
        row.node_id,
        row.attempt,
        success=fate is Fate.SUCCEEDS,
        error_kind=kinds.get(fate, ErrorKind.HANDLER_ERROR),
    )
    if result.success:
        # The lease is part of the output, so that it shows whose output somebody saw.
        made_by = f"{row.node_id}/{row.attempt}/{row.lease_epoch}"
        result.output = {
            "by": made_by,
            "n": rng.randrange(100),
            "flag": rng.random() < 0.5,
            "items": [{"key": f"k{index}", "n": index} for index in range(rng.choice((0, 1, 3, 7, 15)))],
        }
        if result.output["n"] < 10:
            result.warnings = ({"code": "ODD_DATA", "message": "something is odd", "count": 1 + result.output["n"]},)
        result.is_large = rng.random() < 0.15
        if rng.random() < 0.1:
            result.records = (_file(made_by),)
    if fate in (Fate.HANGS, Fate.HANGS_UNNOTICED):
        seconds = float(row.timeout_seconds)
        marks_start = True
    return Outcome(fate, seconds, marks_start, checkpoints, result)


def _file(path: str) -> BlobRecord:
    return BlobRecord(zone=Zone.SILVER, container="made", path=path, size_bytes=1, sha256="0" * 64, role="data")
