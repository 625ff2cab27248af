"""Figures of an orchestrator. It is written with the heartbeat and costs the loop a few assignments a batch.

No time of this process's clock is told: the heartbeat's own time and ages in seconds say when something was.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from time import monotonic, perf_counter
from typing import Any, Literal

import psycopg

from rmhdag.observability.secrets import mask_and_cut

Phase = Literal["idle", "inbox", "deciding", "writing"]
REMEMBERED_CYCLES = 1_000
COUNTED_DUTIES = {"claim_submissions": "jobs_claimed", "orphans": "jobs_reclaimed"}


class Figures:
    """A cycle is a turn of the loop that found something to do."""

    def __init__(self) -> None:
        self.phase: Phase = "idle"
        self.counts: Counter[str] = Counter()
        self._cycle_ms: deque[float] = deque(maxlen=REMEMBERED_CYCLES)
        self._backlog = 0
        self._last_error: str | None = None
        self._orphans_looked_for: float | None = None
        self._pruned_rows: dict[str, int] = {}
        self._retention_due: float | None = None

    def begin_cycle(self) -> float:
        self.phase = "inbox"
        return perf_counter()

    def end_cycle(self, began: float, backlog: int) -> None:
        self.phase = "idle"
        self.counts["cycles"] += 1
        self._cycle_ms.append((perf_counter() - began) * 1000)
        self._backlog = backlog

    def note_duty(self, duty: str, done: int) -> None:
        if duty in COUNTED_DUTIES:
            self.counts[COUNTED_DUTIES[duty]] += done
        if duty == "orphans":
            self._orphans_looked_for = monotonic()

    def note_retention(self, rows: Mapping[str, int], due: float) -> None:
        """Rows deleted, by table; `due` is when the next look at everything that may be old has to be finished."""
        self._retention_due = due
        if any(rows.values()):
            # A new one each time: the heartbeat's thread may be reading the old one.
            self._pruned_rows = {**self._pruned_rows, **{t: self._pruned_rows.get(t, 0) + n for t, n in rows.items()}}

    def note_error(self, error: Exception) -> None:
        self.counts["errors"] += 1
        self._last_error = in_short(error)

    def tell(self) -> dict[str, Any]:
        """From the heartbeat's thread: a copy of the cycles is made in one step."""
        cycles = sorted(self._cycle_ms)
        scanned = self._orphans_looked_for
        due = self._retention_due
        return {
            **dict(self.counts),
            "phase": self.phase,
            "backlog": self._backlog,
            "cycle_ms_avg": round(sum(cycles) / len(cycles), 2) if cycles else None,
            "cycle_ms_p99": round(cycles[int(len(cycles) * 0.99)], 2) if cycles else None,
            "last_error": self._last_error,
            "orphan_scan_age_seconds": None if scanned is None else round(monotonic() - scanned, 1),
            "pruned_rows": self._pruned_rows,
            "retention_behind_seconds": None if due is None else round(max(0.0, monotonic() - due), 1),
        }


def in_short(error: Exception) -> str:
    """Never the whole: the database quotes rows in its details, and rows hold what users gave us."""
    text = error.diag.message_primary if isinstance(error, psycopg.Error) else str(error)
    return mask_and_cut(f"{type(error).__name__}: {text}", 500)
