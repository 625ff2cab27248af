"""Duties of one thread, each at its own pace; one that fails is that one's failure, and the others go on."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from types import ModuleType

import psycopg

from rmhdag.messaging.pace import pause_seconds
from rmhdag.observability.logs import get_logger
from rmhdag.observability.supervision import Loop
from rmhdag.orchestrator.context import Context
from rmhdag.orchestrator.duties import LIVENESS, NOBODY_WAITS, Duties
from rmhdag.orchestrator.figures import in_short
from rmhdag.store.connection import Conn

log = get_logger(__name__)
LONGEST_PAUSE_SECONDS = 30.0


def name_of(duty: ModuleType) -> str:
    return duty.__name__.rpartition(".")[2]


class DutyRounds:
    def __init__(self, context: Context, table: Duties, connect: Callable[[], Conn]) -> None:
        self._context = context
        self._table = table
        self._connect = connect
        self._due = dict.fromkeys(table, 0.0)
        self._failures = dict.fromkeys(table, 0)

    def run(self, loop: Loop, urgent: ModuleType | None = None) -> dict[ModuleType, int]:
        """Do what is due, or urgent; how much each of them found to do."""
        done: dict[ModuleType, int] = {}
        self._context.notice_gap()
        for duty, interval_of in self._table.items():
            if monotonic() < self._due[duty] and duty is not urgent:
                continue
            loop.turn()
            began = monotonic()
            self._due[duty] = began + interval_of(self._context.settings)
            try:
                if self._context.conn.closed:
                    self._context.conn = self._connect()
                    self._context.after_reconnect()
                done[duty] = duty.run_once(self._context)
            except Exception as error:
                self._note_failure(duty, error)
                if self._context.conn.closed:
                    break
                continue
            self._failures[duty] = 0
            self._context.advance.figures.note_duty(name_of(duty), done[duty])
            if duty in NOBODY_WAITS:
                self._due[duty] = max(self._due[duty], began + pause_seconds(monotonic() - began))
        loop.turn()
        return done

    def hurry(self, duty: ModuleType) -> None:
        self._due[duty] = 0.0

    def close(self) -> None:
        self._context.conn.close()

    def _note_failure(self, duty: ModuleType, error: Exception) -> None:
        self._failures[duty] += 1
        figures = self._context.advance.figures
        figures.note_error(error)
        figures.counts["duty_failures"] += 1
        log.warning("duty_failed", duty=name_of(duty), times=self._failures[duty], error=in_short(error))
        if not isinstance(error, psycopg.OperationalError):
            # The database is well, so another try at once would end the same way.
            pause = min(LONGEST_PAUSE_SECONDS, 0.5 * 2 ** min(self._failures[duty] - 1, 10))
            self._due[duty] = max(self._due[duty], monotonic() + pause)
        if duty in LIVENESS:
            self._context.skip_gap()
        if isinstance(error, psycopg.Error) and error.sqlstate is None:
            self._context.conn.close()
