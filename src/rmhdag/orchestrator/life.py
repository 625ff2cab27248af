"""One life of an orchestrator under one owner_id: its connections, its memory, the loop that advances jobs, the
heartbeat, and how its jobs are handed over.
"""

from __future__ import annotations

import os
import platform
import threading
from collections.abc import Callable
from contextlib import suppress
from random import Random
from time import monotonic
from typing import Any

import orjson
import psycopg
from psycopg.types.json import set_json_loads

from rmhdag import __version__
from rmhdag.messaging.doorbell import Doorbell
from rmhdag.messaging.pace import WHOLE_EVERY_SECONDS, whole_pause_seconds
from rmhdag.models.events import EventStatus, EventType
from rmhdag.models.leases import BeatAnswer
from rmhdag.observability.logs import get_logger
from rmhdag.observability.supervision import Loop, Overdue, Supervisor
from rmhdag.orchestrator.advance import Advance
from rmhdag.orchestrator.context import OrchestratorSettings
from rmhdag.orchestrator.figures import in_short
from rmhdag.orchestrator.life_threads import LifeThreads
from rmhdag.orchestrator.owned_jobs import OwnedJobs
from rmhdag.orchestrator.trust import Trust
from rmhdag.store import jobs, processes
from rmhdag.store.channels import NEW_JOBS, owner_channel
from rmhdag.store.connection import Conn, connect, enter_schema
from rmhdag.store.identity import new_id
from rmhdag.store.verdicts import Verdict, judge

log = get_logger(__name__)
FIRST_PAUSE_SECONDS = 0.01
LONGEST_PAUSE_SECONDS = 0.3
# Storage and receivers of callbacks may be slow, and other threads do not wait for these.
PATIENCE_WITH_OTHERS_SECONDS = 600.0
HAND_OVER_TRIES = 3
# How long to wait for a claim that is under way before the jobs are released.
LAST_CLAIM_SECONDS = 2.0


class Life:
    """What one owner_id has: connections, threads, memory."""

    def __init__(
        self,
        dsn: str,
        schema: str,
        settings: OrchestratorSettings,
        handler_queues: dict[str, str],
        notify: bool,
        pooled: bool,
        drain: Callable[[], None],
        on_hang: Callable[[], None] | None = None,
    ) -> None:
        self.me = new_id()
        self._dsn = dsn
        self._schema = schema
        self._settings = settings
        self._pooled = pooled
        self._drain = drain
        self._on_hang = on_hang
        self._over = threading.Event()
        self._ended = threading.Event()
        self._supervisor = Supervisor(self._over, self._give_up)
        # Two TTLs, but never less than the longest that one call of the database may take.
        self._patience_seconds = max(2 * settings.ttl_seconds, 1.3 * settings.answer_seconds)
        self._random = Random()
        self._trust = Trust(settings.ttl_seconds, settings.margin_seconds)
        self._conn = self._connect("advance")
        self._owned = OwnedJobs(self.me, handler_queues, settings.cache_bytes, settings.template_env)
        self.advance = Advance(self._conn, self.me, self._owned, settings.catalogue, settings.storage)
        self._doorbell = Doorbell(dsn, schema, [NEW_JOBS, owner_channel(self.me)], notify)
        self._claim_now = threading.Event()
        self._looked_at = 0.0
        self._is_idle = False
        self._failures = 0
        self._heartbeat_conn: Conn | None = None

    def _connect(self, part: str) -> Conn:
        name = f"orchestrator:{part}:{self.me[-8:]}"
        conn = connect(
            self._dsn,
            name,
            autocommit=True,
            reads_whole_tables=False,
            pooled=self._pooled,
            answer_seconds=self._settings.answer_seconds,
        )
        if not self._pooled:
            conn.prepare_threshold = 0
        set_json_loads(orjson.loads, conn)
        enter_schema(conn, self._schema, pooled=self._pooled)
        return conn

    def begin(self) -> None:
        # Before others know our name: who has no connection left for its heartbeat would only be declared dead.
        self._heartbeat_conn = self._connect("heartbeat")
        processes.register_orchestrator(self._conn, self.me, platform.node()[:64], os.getpid(), __version__)
        processes.record_orchestrator_event(
            self._conn, self.me, EventType.ORCHESTRATOR_STARTED, EventStatus.INFO, {"version": __version__}
        )
        self._loop = self._supervisor.watch("advance", self._patience_seconds)
        start, patience = self._supervisor.start, self._patience_seconds
        threads = LifeThreads(
            self.me, self._schema, self._settings, self.advance, self._trust, self._over, self._claim_now, self._connect
        )
        start("heartbeat", self._beat, patience)
        start("liveness", threads.watch_others, patience)
        start("duties", threads.do_prompt_duties, patience)
        start("upkeep", threads.do_upkeep, patience)
        start("retention", threads.keep_tables_small, patience)
        start("fan-ins", threads.reduce_fan_ins, patience)
        start("callbacks", threads.deliver_callbacks, PATIENCE_WITH_OTHERS_SECONDS)
        start("catalogue", threads.update_catalogue, PATIENCE_WITH_OTHERS_SECONDS)
        start("services", threads.notify_services, PATIENCE_WITH_OTHERS_SECONDS)

    # -- the loop --------------------------------------------------------------------------------------------------

    def advance_until(self, stopping: threading.Event) -> None:
        while not stopping.is_set() and not self._over.is_set():
            if not self._trust.holds:
                self._loop.turn()
                self._owned.clear()
                self._trust.wait(0.5)
                continue
            try:
                if self._conn.closed:
                    self._conn = self._connect("advance")
                    self.advance.use(self._conn)
                self._advance_once()
                self._loop.turn()
                self._failures = 0
            except Exception as error:
                # While the heartbeat goes on, our jobs stay ours. What one of them causes is contained further down.
                log.warning("advance_failed", owner_id=self.me, error=in_short(error), exc_info=is_unexpected(error))
                self.advance.figures.note_error(error)
                if judge(error, self._conn) is Verdict.CIRCUMSTANCES:
                    self._loop.turn()  # whatever else fails for two TTLs is not helped by trying it again
                if isinstance(error, psycopg.Error):
                    self._conn.close()
                # At once after the first failure: a connection that breaks every moment must not stop all work.
                pause = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2 ** min(self._failures, 10))
                self._failures += 1
                stopping.wait(self._random.uniform(0.5, 1.5) * pause)
        if stopping.is_set() and not self._over.is_set():
            self._hand_over()

    def _advance_once(self) -> None:
        pause = whole_pause_seconds(self.advance.whole_read_seconds, is_idle=self._is_idle)
        whole = monotonic() - self._looked_at >= pause
        if whole:
            self._looked_at = monotonic()
        self._is_idle = not self.advance.run_once(whole_inbox=whole)
        if not self._is_idle:
            # Also while there is no end of work: a new job must not wait for the poll.
            self._doorbell.take()
        else:
            patience = min(self._settings.poll_seconds, WHOLE_EVERY_SECONDS)
            self._doorbell.wait(patience, [self.advance.fileno()])
        # Only then: results ring too, and every look for jobs walks past all that were claimed and not yet vacuumed.
        if self._doorbell.heard(NEW_JOBS):
            self._claim_now.set()

    def _hand_over(self) -> None:
        """On the connection that is there, or on a new one: without it the others wait for a whole TTL."""
        self._over.set()
        self._wake_all()
        # A job that is claimed after all were released would be left behind.
        self._supervisor.join(LAST_CLAIM_SECONDS, "duties", "liveness")
        for tries_left in reversed(range(HAND_OVER_TRIES)):
            try:
                if self._conn.closed:
                    self._conn = self._connect("advance")
                released = jobs.release_jobs(self._conn, self.me)
                processes.remove_orchestrators(self._conn, [self.me])
                data = {"jobs_handed_over": released}
                processes.record_orchestrator_event(
                    self._conn, self.me, EventType.ORCHESTRATOR_STOPPED, EventStatus.INFO, data
                )
                return
            except psycopg.Error as error:
                log.warning("hand_over_failed", owner_id=self.me, tries_left=tries_left, error=in_short(error))
                self._conn.close()
                self._ended.wait(LONGEST_PAUSE_SECONDS)

    def end(self) -> None:
        self._over.set()
        self._ended.set()
        self._wake_all()
        running = self._supervisor.join(5)
        if running:
            log.warning("threads_still_running", owner_id=self.me, threads=", ".join(running))
        self._doorbell.close()
        self._conn.close()
        if self._heartbeat_conn is not None:
            self._heartbeat_conn.close()
        self.advance.close()

    def _wake_all(self) -> None:
        self._claim_now.set()
        self.advance.callbacks_written.set()
        self.advance.catalogue_written.set()
        self.advance.fan_ins.wake()
        self.advance.wake()

    def _give_up(self, reason: str) -> None:
        """A thread cannot be helped, or hangs: no heartbeat any more, and the jobs are for the others at once."""
        self._trust.revoke()
        self._over.set()
        self._wake_all()
        if self._on_hang is not None:
            threading.Thread(target=self._exit_if_hung, name="hang", daemon=True).start()
        # The loop may hold some of them locked; without our row the others take those as soon as they can.
        for step in (jobs.release_jobs, lambda conn, me: processes.remove_orchestrators(conn, [me])):
            try:
                with self._connect("hand-over") as conn:
                    step(conn, self.me)
            except psycopg.Error as error:
                log.warning("hand_over_failed", owner_id=self.me, tries_left=0, error=in_short(error))
        with suppress(psycopg.Error), self._connect("hand-over") as conn:
            failure = EventType.ORCHESTRATOR_ERROR, EventStatus.FAILURE
            processes.record_orchestrator_event(conn, self.me, *failure, {}, reason)

    def _exit_if_hung(self) -> None:
        if not self._ended.wait(self._patience_seconds) and self._on_hang is not None:
            log.error("process_hangs", owner_id=self.me)
            self._on_hang()

    # -- the heartbeat ---------------------------------------------------------------------------------------------

    def _stats(self) -> dict[str, Any]:
        return {
            **self.advance.figures.tell(),
            "loops": self._supervisor.ages(),
            "threads": self._supervisor.restarts(),
            "restarted_seconds_ago": self._supervisor.seconds_since_restart(),
            "sizes": self.advance.sizes(),
        }

    def _beat(self, loop: Loop) -> None:
        """A connection of its own, so that no full pool and no slow batch can make us look dead."""
        conn, self._heartbeat_conn = self._heartbeat_conn, None
        overdue = Overdue(self._supervisor, self._patience_seconds)
        try:
            while not self._over.is_set():
                loop.turn()
                if overdue.give_up_if_stuck():
                    return
                began = monotonic()
                try:
                    conn = conn or self._connect("heartbeat")
                    answer = processes.beat_orchestrator(conn, self.me, self._stats())
                    if answer is BeatAnswer.GONE:
                        log.warning("orchestrator_was_taken_for_dead", owner_id=self.me)
                        self._trust.revoke()
                        self._over.set()
                        self._wake_all()
                        return
                    self._trust.renew(began)
                    if answer is BeatAnswer.DRAIN:
                        self._drain()
                except psycopg.Error as error:
                    log.warning("heartbeat_failed", owner_id=self.me, error=in_short(error))
                    self.advance.figures.note_error(error)
                    if conn is not None:
                        conn.close()
                    conn = None
                interval = self._settings.heartbeat_seconds
                self._over.wait(interval if conn is not None else min(0.5, interval))
        finally:
            if conn is not None:
                conn.close()


def is_unexpected(error: Exception) -> bool:
    """Whether a traceback is worth its lines: errors of the database are logged without one."""
    return not isinstance(error, psycopg.Error)
