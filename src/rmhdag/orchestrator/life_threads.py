"""The threads of an orchestrator besides its loop and its heartbeat: duties in rounds, and relays that repeat a step.
Each has a connection of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from random import Random
from types import ModuleType

import psycopg

from rmhdag.observability.logs import get_logger
from rmhdag.observability.supervision import Loop
from rmhdag.orchestrator import duties
from rmhdag.orchestrator.advance import Advance
from rmhdag.orchestrator.aggregation import answer_fan_in
from rmhdag.orchestrator.context import Context, OrchestratorSettings
from rmhdag.orchestrator.duties import Duties, callbacks, catalogue, data_tables, file_deletions, service_calls
from rmhdag.orchestrator.duty_rounds import DutyRounds
from rmhdag.orchestrator.figures import in_short
from rmhdag.orchestrator.retention import Retention
from rmhdag.orchestrator.trust import SilenceWatch, Trust
from rmhdag.storage.errors import StorageError
from rmhdag.store.connection import Conn

log = get_logger(__name__)
# After a failure, before the next try.
PAUSE_SECONDS = 0.3


def run_all(parts: Sequence[Callable[[Conn], int]], conn: Conn) -> int:
    """What the parts have done together. One that fails keeps none of the others from its turn."""
    errors: list[Exception] = []
    done = 0
    for part in parts:
        try:
            done += part(conn)
        except Exception as error:
            if conn.closed:
                raise
            errors.append(error)
    for further in errors[1:]:
        log.warning("relay_part_failed", error=in_short(further))
    if errors:
        raise errors[0]
    return done


class LifeThreads:
    """`over` ends them all; `claim_now` says that there are jobs to claim; `connect` opens a connection for a part."""

    def __init__(
        self,
        me: str,
        schema: str,
        settings: OrchestratorSettings,
        advance: Advance,
        trust: Trust,
        over: threading.Event,
        claim_now: threading.Event,
        connect: Callable[[str], Conn],
    ) -> None:
        self._me = me
        self._schema = schema
        self._settings = settings
        self._advance = advance
        self._trust = trust
        self._over = over
        self._claim_now = claim_now
        self._connect = connect
        self._random = Random()

    def _rounds(self, part: str, table: Duties) -> DutyRounds:
        ttl = self._settings.ttl_seconds
        context = Context(
            self._connect(part),
            self._me,
            self._schema,
            self._settings,
            self._advance,
            SilenceWatch(ttl),
            SilenceWatch(ttl),
            trust=self._trust,
        )
        context.after_reconnect()
        return DutyRounds(context, table, lambda: self._connect(part))

    def _do_duties(
        self,
        loop: Loop,
        part: str,
        table: Duties,
        pause: Callable[[], ModuleType | None],
        after: Callable[[DutyRounds, dict[ModuleType, int]], None] | None = None,
    ) -> None:
        """Rounds of duties while we trust ourselves; `pause` waits, and says which duty is urgent."""
        rounds: DutyRounds | None = None
        try:
            while not self._over.is_set():
                urgent = pause()
                loop.turn()
                if self._over.is_set() or not self._trust.holds:
                    continue
                try:
                    rounds = rounds or self._rounds(part, table)
                except psycopg.Error as error:
                    log.warning("duties_wait", thread=loop.name, error=in_short(error))
                    self._advance.figures.note_error(error)
                    continue
                done = rounds.run(loop, urgent)
                if after is not None:
                    after(rounds, done)
        finally:
            if rounds is not None:
                rounds.close()

    def _wait_a_moment(self) -> ModuleType | None:
        self._over.wait(self._settings.timer_seconds * self._random.uniform(0.8, 1.0))
        return None

    def do_prompt_duties(self, loop: Loop) -> None:
        def pause() -> ModuleType | None:
            urgent = self._claim_now.wait(self._settings.timer_seconds * self._random.uniform(0.8, 1.0))
            self._claim_now.clear()
            return duties.claim_submissions if urgent else None

        def after(rounds: DutyRounds, done: dict[ModuleType, int]) -> None:
            if done.get(duties.claim_submissions, 0) >= duties.claim_submissions.BITE:
                self._claim_now.set()  # there are more

        self._do_duties(loop, "duties", duties.PROMPT, pause, after)

    def watch_others(self, loop: Loop) -> None:
        def after(rounds: DutyRounds, done: dict[ModuleType, int]) -> None:
            if done.get(duties.orphans):
                rounds.hurry(duties.orphans)  # this was our share; what nobody else takes is shared out again

        self._do_duties(loop, "liveness", duties.LIVENESS, self._wait_a_moment, after)

    def do_upkeep(self, loop: Loop) -> None:
        self._do_duties(loop, "upkeep", duties.UPKEEP, self._wait_a_moment)

    def _repeat(self, loop: Loop, part: str, step: Callable[[Conn], None]) -> None:
        """Steps on a connection of their own; a failure costs that connection and a moment."""
        conn: Conn | None = None
        try:
            while not self._over.is_set():
                loop.turn()
                try:
                    conn = conn or self._connect(part)
                    step(conn)
                except (psycopg.Error, StorageError) as error:
                    log.warning(f"{part}_failed", owner_id=self._me, error=in_short(error))
                    self._advance.figures.note_error(error)
                    if conn is not None:
                        conn.close()
                    conn = None
                    self._over.wait(PAUSE_SECONDS)
        finally:
            if conn is not None:
                conn.close()

    def reduce_fan_ins(self, loop: Loop) -> None:
        def step(conn: Conn) -> None:
            request = self._advance.fan_ins.take(0.5)
            if request is None:
                return
            try:
                answer = answer_fan_in(conn, request, loop.turn)
            except Exception:
                self._advance.fan_ins.postpone(request)
                raise
            # Given before it is finished: at no moment may it look as if nobody had it.
            self._advance.give([answer])
            self._advance.fan_ins.finish()

        self._repeat(loop, "fan_in", step)

    def update_catalogue(self, loop: Loop) -> None:
        """Like callbacks: each claim is a lease of its own."""
        woken = self._advance.catalogue_written
        relay = catalogue.Relay(self._settings.catalogue, self._settings.storage)
        remover = file_deletions.Remover(self._settings.storage)
        shower = data_tables.Shower(
            self._settings.postgis_dsn, self._settings.table_revisions, self._settings.retention_days
        )

        parts: tuple[Callable[[Conn], int], ...] = (
            lambda conn: data_tables.run_once(conn, shower),
            lambda conn: catalogue.run_once(conn, relay),
            lambda conn: file_deletions.run_once(conn, remover),
        )

        def step(conn: Conn) -> None:
            woken.clear()
            if not run_all(parts, conn):
                woken.wait(self._settings.poll_seconds)

        self._repeat(loop, "catalogue", step)

    def notify_services(self, loop: Loop) -> None:
        """Like callbacks: each claim is a lease of its own."""
        announcer = service_calls.Announcer(self._settings.callbacks, over=self._over)

        def step(conn: Conn) -> None:
            if not service_calls.run_once(conn, announcer):
                self._over.wait(self._settings.poll_seconds)

        self._repeat(loop, "services", step)

    def keep_tables_small(self, loop: Loop) -> None:
        """Rollups and retention, apart from the duties: nobody waits for them. They need no trust: rows are locked."""
        retention = Retention(self._schema, self._settings, self._advance.figures)

        def step(conn: Conn) -> None:
            try:
                pause = retention.run_once(conn)
            except psycopg.Error:
                raise
            except Exception as error:  # of one chore, and the others come first now
                log.exception("retention_failed", error=in_short(error))
                self._advance.figures.note_error(error)
                pause = self._settings.poll_seconds
            self._over.wait(pause)

        self._repeat(loop, "retention", step)

    def deliver_callbacks(self, loop: Loop) -> None:
        """Callbacks need no trust in ourselves: each claim is a lease of its own."""
        woken = self._advance.callbacks_written
        delivery = callbacks.Delivery(self._settings.callbacks, woken)

        def step(conn: Conn) -> None:
            woken.clear()
            if callbacks.run_once(conn, delivery):
                self._over.wait(callbacks.TURN_SECONDS)
            else:
                woken.wait(self._settings.poll_seconds)

        try:
            self._repeat(loop, "callbacks", step)
        finally:
            with suppress(psycopg.Error), self._connect("callbacks") as conn:
                delivery.stop(conn)
