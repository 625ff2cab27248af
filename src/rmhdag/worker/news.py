"""News from the exchange to the supervisor: what it has claimed, checked, marked, saved and registered."""

from __future__ import annotations

from typing import NamedTuple

from rmhdag.models.leases import ClaimedTask, Pair
from rmhdag.worker.transport import Failed


class Claimed(NamedTuple):
    worker_id: str
    tasks: list[ClaimedTask]
    refused: list[tuple[ClaimedTask, str]]


class LeasesChecked(NamedTuple):
    """The state of our leases according to the rows: asked to stop, or lost."""

    to_stop: list[Pair]
    gone: list[Pair]


class StartsMarked(NamedTuple):
    asked: list[Pair]
    matched: set[str]


class CheckpointSaved(NamedTuple):
    pair: Pair
    refusal: str | None


class Registered(NamedTuple):
    worker_id: str


Heard = Claimed | LeasesChecked | StartsMarked | CheckpointSaved | Registered | Failed
