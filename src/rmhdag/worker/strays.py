"""Leases that only the crew or only the exchange knows: found and resolved, whatever went wrong."""

from __future__ import annotations

from rmhdag.models.leases import Pair, ReturnedLease
from rmhdag.observability.logs import get_logger
from rmhdag.worker.crew import Crew
from rmhdag.worker.exchange import Exchange

log = get_logger(__name__)
LOOK_SECONDS = 1.0
# Far longer than the way of a lease from the exchange to the crew or back.
STRAY_SECONDS = 5.0


class Strays:
    """A lease that the crew does not have is released; a task that the exchange does not have is stopped."""

    def __init__(self, exchange: Exchange, crew: Crew) -> None:
        self._exchange = exchange
        self._crew = crew
        self._unknown: dict[Pair, float] = {}
        self._unclaimed: dict[Pair, float] = {}
        self._looked_at = 0.0

    @property
    def count(self) -> int:
        return len(self._unknown) + len(self._unclaimed)

    def look(self, now: float) -> None:
        if now - self._looked_at < LOOK_SECONDS:
            return
        self._looked_at = now
        passed_on = self._exchange.passed_on()
        held = self._crew.by_pair
        self._unknown = {pair: self._unknown.get(pair, now) for pair in passed_on if pair not in held}
        self._unclaimed = {pair: self._unclaimed.get(pair, now) for pair in held if pair not in passed_on}
        for pair, since in self._unknown.items():
            if now - since >= STRAY_SECONDS:
                log.error("lease_unknown_to_the_crew", task_id=pair[0], lease_epoch=pair[1], remedy="it is released")
                self._exchange.release(ReturnedLease(*pair))
        for pair, since in self._unclaimed.items():
            if now - since >= STRAY_SECONDS and (lease := held.get(pair)) is not None:
                log.error("task_without_a_lease", remedy="it is ended", **lease.ids)
                self._crew.drop(lease)
