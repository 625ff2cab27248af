"""What keeps the tables small: finished jobs are summed up, old ones are deleted, and so is whatever else grows.

It has a thread and a connection of its own. `run_once` does one small piece of work, one transaction in most cases, and
says how long to wait before the next: so it takes a part of the database's time that does not depend on what there is
to do. Several orchestrators share the work row by row, or one of them does a part at a time. A process that is killed
loses the transaction that it was in; the next one goes on from the rows.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from time import monotonic

from psycopg import errors

from rmhdag.orchestrator.context import OrchestratorSettings
from rmhdag.orchestrator.duties import late_jobs, rollups
from rmhdag.orchestrator.figures import Figures
from rmhdag.store import old_days, partitions, retention, unused_payloads
from rmhdag.store.connection import Conn
from rmhdag.store.old_days import Drop, OldDay
from rmhdag.store.retention import Bite, Place, RetentionDays
from rmhdag.store.unused_payloads import PayloadPlace

MOST_ROWS = 5_000
FEWEST_ROWS = 50
# A transaction should take about so long: longer, and claims would feel it; shorter, and most of it is overhead.
SHORT_SECONDS, LONG_SECONDS = 0.1, 0.5
# After each piece of work a pause of so many times its length, at most the second number in seconds.
PAUSE_PARTS, LONGEST_PAUSE_SECONDS = 4, 5.0
# How often to look at what grows slowly.
SLOWLY_SECONDS = 600.0
DONE = Bite(Counter(), False)
# An upload that nobody has finished within an hour was given up.
UPLOAD_DAYS = 1 / 24


@dataclass
class Chore:
    """Steps make a pass; the next pass begins an interval after the last. Times are this process's monotonic clock."""

    name: str
    interval_seconds: float
    step: Callable[[Conn], Bite]
    due: float = field(default_factory=monotonic)
    pass_began: float | None = None
    # When the last pass began that left nothing behind.
    in_order_at: float = field(default_factory=monotonic)

    @property
    def next_pass_due(self) -> float:
        return self.in_order_at + self.interval_seconds


class Retention:
    def __init__(self, schema: str, settings: OrchestratorSettings, figures: Figures) -> None:
        self._schema = schema
        self._settings = settings
        self._figures = figures
        self._rows = MOST_ROWS
        self._rollup_size = rollups.BiteSize()
        self._place = Place()
        self._payload_place = PayloadPlace()
        self._old_days: deque[OldDay] = deque()
        self._day_place = ""
        self._day_is_held_up = False
        days = RetentionDays(settings.retention_days, settings.retention_history_days, settings.retention_payload_days)
        often, slowly = settings.pruning_seconds, max(settings.pruning_seconds, SLOWLY_SECONDS)
        self.chores = [
            Chore("rollups", settings.rollup_seconds, self._sum_up),
            Chore("late_jobs", settings.late_jobs_seconds, self._look_for_late_jobs),
            Chore("partitions", often, self._make_days),
            Chore("jobs", often, self._take_out_jobs),
            Chore("pruned_jobs", often, self._delete_pruned_jobs),
            Chore("days", often, self._prune_days),
            Chore("payloads", slowly, self._delete_unused_payloads),
            Chore("uploads", slowly, self._delete_old_uploads),
            *(
                Chore(name, slowly, partial(self._delete_history, name, days.of_history(name)))
                for name in retention.HISTORY
            ),
        ]

    def run_for(self, conn: Conn, seconds: float) -> tuple[Counter[str], bool]:
        """Do now, without rests, what is due at all: rows deleted by table, and whether the time was too short."""
        deadline = monotonic() + seconds
        deleted: Counter[str] = Counter()
        for chore in self.chores:
            while True:
                bite = chore.step(conn)
                deleted.update(bite.rows)
                if monotonic() > deadline:
                    return +deleted, True
                if not bite.has_more:
                    break
        return +deleted, False

    def run_once(self, conn: Conn) -> float:
        """Do what is due first, if anything is; returns the seconds until the next call."""
        chore = min(self.chores, key=lambda chore: chore.due)
        began = monotonic()
        if chore.due > began:
            return min(LONGEST_PAUSE_SECONDS, chore.due - began)
        # If it fails, the others come first.
        chore.due = began + min(LONGEST_PAUSE_SECONDS, chore.interval_seconds)
        if chore.pass_began is None:
            chore.pass_began = began
        try:
            bite = chore.step(conn)
        except errors.QueryCanceled:
            # A statement took longer than the server allows, and nothing of it was kept.
            self._rows = max(FEWEST_ROWS, self._rows // 8)
            return LONGEST_PAUSE_SECONDS
        took = monotonic() - began
        if took > LONG_SECONDS:
            self._rows = max(FEWEST_ROWS, self._rows // 2)
        elif took < SHORT_SECONDS:
            self._rows = min(MOST_ROWS, self._rows * 2)
        self._settle(chore, bite)
        return min(LONGEST_PAUSE_SECONDS, PAUSE_PARTS * took)

    def _settle(self, chore: Chore, bite: Bite) -> None:
        now = monotonic()
        if bite.has_more:
            chore.due = now
        else:
            assert chore.pass_began is not None
            if not bite.is_held_up:
                chore.in_order_at = chore.pass_began
            chore.pass_began = None
            chore.due = now + chore.interval_seconds
        if chore.name == "jobs" and bite.rows["dag_jobs"]:
            self._chore("pruned_jobs").due = now
        self._figures.note_retention(bite.rows, min(chore.next_pass_due for chore in self.chores))

    def _chore(self, name: str) -> Chore:
        return next(chore for chore in self.chores if chore.name == name)

    # -- steps -----------------------------------------------------------------------------------------------------

    def _sum_up(self, conn: Conn) -> Bite:
        rollups.run_once(conn, self._rollup_size)
        return DONE

    def _look_for_late_jobs(self, conn: Conn) -> Bite:
        late_jobs.run_once(conn)
        return DONE

    def _make_days(self, conn: Conn) -> Bite:
        partitions.ensure_partitions(conn, self._schema)
        return DONE

    def _take_out_jobs(self, conn: Conn) -> Bite:
        days = self._settings.retention_days
        bite, self._place = retention.take_out_expired_jobs(conn, days, self._place, self._rows)
        if bite.has_more or not retention.is_waiting_for_metrics(conn, days):
            return bite
        return bite._replace(is_held_up=True)

    def _delete_pruned_jobs(self, conn: Conn) -> Bite:
        return retention.delete_pruned_jobs(conn, self._rows, with_days=self._settings.retention_days < 1)

    def _prune_days(self, conn: Conn) -> Bite:
        if not self._old_days:
            self._old_days.extend(old_days.find_old_days(conn, self._schema, self._settings.retention_days))
            self._day_is_held_up = False
        old, bite = self._old_days[0], DONE
        drop = old_days.drop_day_if_unneeded(conn, self._schema, old)
        if drop is Drop.NEEDED:
            bite, self._day_place = old_days.delete_rows_of_gone_jobs(
                conn, self._schema, old, self._day_place, self._rows
            )
            if bite.has_more:
                return bite
            drop = old_days.drop_day_if_unneeded(conn, self._schema, old)
        self._old_days.popleft()
        self._day_place = ""
        self._day_is_held_up |= drop is Drop.BUSY
        return Bite(bite.rows, bool(self._old_days), self._day_is_held_up)

    def _delete_unused_payloads(self, conn: Conn) -> Bite:
        days = self._settings.retention_payload_days
        bite, self._payload_place = unused_payloads.delete_unused_payloads(conn, days, self._payload_place, self._rows)
        return bite

    def _delete_old_uploads(self, conn: Conn) -> Bite:
        return unused_payloads.delete_old_uploads(conn, UPLOAD_DAYS)

    def _delete_history(self, name: str, days: float, conn: Conn) -> Bite:
        return retention.delete_history(conn, name, days, self._rows)
