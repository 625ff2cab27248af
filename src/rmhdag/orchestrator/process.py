"""One orchestrator: a heartbeat that nothing holds up, threads for duties, fan-ins, callbacks, the loop that advances.

All of them trust the process only as long as its heartbeat is fresh. When the row is gone, others have taken its jobs:
it forgets everything and begins again under a new name.
"""

from __future__ import annotations

import os
import platform
import threading
from contextlib import suppress
from random import Random
from time import monotonic
from typing import Any

import orjson
import psycopg
from psycopg.types.json import set_json_loads

from rmhdag import __version__
from rmhdag.messaging.doorbell import Doorbell
from rmhdag.messaging.pace import WHOLE_EVERY_SECONDS, pause_seconds, whole_pause_seconds
from rmhdag.models.events import EventStatus, EventType
from rmhdag.observability.logs import get_logger
from rmhdag.orchestrator import duties
from rmhdag.orchestrator.advance import Advance, LocalInput
from rmhdag.orchestrator.aggregation import reduce_children
from rmhdag.orchestrator.context import Context, OrchestratorSettings
from rmhdag.orchestrator.duties import callbacks, catalogue
from rmhdag.orchestrator.owned_jobs import OwnedJobs
from rmhdag.orchestrator.retention import Retention
from rmhdag.orchestrator.trust import SilenceWatch, Trust
from rmhdag.storage.errors import StorageError
from rmhdag.store import jobs, processes
from rmhdag.store.channels import NEW_JOBS, owner_channel
from rmhdag.store.connection import connect, enter_schema
from rmhdag.store.identity import new_id

log = get_logger(__name__)
Conn = psycopg.Connection[Any]
ERROR_PAUSE_SECONDS = 0.2


class Orchestrator:
    """`run` until `stop`; every life of it has an owner_id of its own."""

    def __init__(
        self,
        dsn: str,
        schema: str,
        settings: OrchestratorSettings,
        handler_queues: dict[str, str],
        *,
        notify: bool = True,
        pooled: bool = False,
    ) -> None:
        self._dsn = dsn
        self._schema = schema
        self._settings = settings
        self._handler_queues = handler_queues
        self._notify = notify and not pooled
        self._pooled = pooled
        self._stopping = threading.Event()
        self._random = Random()
        self._life: Life | None = None

    def stop(self) -> None:
        """Hand the jobs over and end; safe in a signal handler."""
        self._stopping.set()
        if self._life is not None:
            self._life.advance.wake()

    @property
    def owner_id(self) -> str | None:
        return None if self._life is None else self._life.me

    def run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._live_once()
            except psycopg.Error as error:
                log.warning("orchestrator_starts_over", error=str(error).strip())
                self._stopping.wait(self._random.uniform(0.5, 1.5) * ERROR_PAUSE_SECONDS)

    def _live_once(self) -> None:
        life = Life(self._dsn, self._schema, self._settings, self._handler_queues, self._notify, self._pooled)
        self._life = life
        try:
            life.begin()
            life.advance_until(self._stopping)
        finally:
            life.end()
            self._life = None


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
    ) -> None:
        self.me = new_id()
        self._dsn = dsn
        self._schema = schema
        self._settings = settings
        self._pooled = pooled
        self._over = threading.Event()
        self._threads: list[threading.Thread] = []
        self._random = Random()
        self._trust = Trust(settings.ttl_seconds, settings.margin_seconds)
        self._conn = self._connect("advance")
        self._owned = OwnedJobs(self.me, handler_queues, settings.cache_bytes)
        self.advance = Advance(self._conn, self.me, self._owned, settings.catalogue)
        self._doorbell = Doorbell(dsn, schema, [NEW_JOBS, owner_channel(self.me)], notify)
        self._claim_now = threading.Event()
        self._looked_at = 0.0
        self._heartbeat_conn: Conn | None = None

    def _connect(self, part: str) -> Conn:
        name = f"orchestrator:{part}:{self.me[-8:]}"
        conn = connect(self._dsn, name, autocommit=True, reads_whole_tables=False, pooled=self._pooled)
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
        for target in (
            self._beat,
            self._do_duties,
            self._aggregate,
            self._deliver,
            self._tell_catalogue,
            self._keep_tables_small,
        ):
            thread = threading.Thread(target=target, name=target.__name__, daemon=True)
            thread.start()
            self._threads.append(thread)

    # -- the loop --------------------------------------------------------------------------------------------------

    def advance_until(self, stopping: threading.Event) -> None:
        while not stopping.is_set() and not self._over.is_set():
            if not self._trust.holds:
                self._owned.clear()
                self._trust.wait(0.5)
                continue
            try:
                self._advance_once()
            except psycopg.Error as error:
                # While the heartbeat goes on, our jobs stay ours: only what was in memory is in doubt.
                log.warning("advance_failed", owner_id=self.me, error=str(error).strip())
                self.advance.figures.note_error(error)
                self._owned.clear()
                stopping.wait(self._random.uniform(0.5, 1.5) * ERROR_PAUSE_SECONDS)
                self._reconnect()
        if stopping.is_set() and not self._over.is_set():
            self._hand_over()

    def _advance_once(self) -> None:
        whole = monotonic() - self._looked_at >= whole_pause_seconds(self.advance.whole_read_seconds)
        if whole:
            self._looked_at = monotonic()
        if self.advance.run_once(whole_inbox=whole):
            # Also while there is no end of work: a new job must not wait for the poll.
            self._doorbell.take()
        else:
            patience = min(self._settings.poll_seconds, WHOLE_EVERY_SECONDS)
            self._doorbell.wait(patience, [self.advance.fileno()])
        # Only then: results ring too, and every look for jobs walks past all that were claimed and not yet vacuumed.
        if self._doorbell.heard(NEW_JOBS):
            self._claim_now.set()

    def _reconnect(self) -> None:
        """If there is no connection to be had, the next turn fails like this one."""
        self._conn.close()
        with suppress(psycopg.Error):
            self._conn = self._connect("advance")
            self.advance.use(self._conn)
            self.advance.take_over(jobs.open_jobs_of(self._conn, self.me))

    def _hand_over(self) -> None:
        released = jobs.release_jobs(self._conn, self.me)
        processes.remove_orchestrators(self._conn, [self.me])
        processes.record_orchestrator_event(
            self._conn, self.me, EventType.ORCHESTRATOR_STOPPED, EventStatus.INFO, {"jobs_handed_over": released}
        )

    def end(self) -> None:
        self._over.set()
        self._claim_now.set()
        self.advance.callbacks_written.set()
        self.advance.catalogue_written.set()
        for thread in self._threads:
            thread.join(5)
        self._doorbell.close()
        self._conn.close()
        if self._heartbeat_conn is not None:
            self._heartbeat_conn.close()
        self.advance.close()

    # -- threads ---------------------------------------------------------------------------------------------------

    def _beat(self) -> None:
        """A connection of its own, so that no full pool and no slow batch can make us look dead."""
        conn = self._heartbeat_conn
        while not self._over.is_set():
            began = monotonic()
            try:
                conn = conn or self._connect("heartbeat")
                if not processes.beat_orchestrator(conn, self.me, self.advance.figures.tell()):
                    log.warning("orchestrator_was_taken_for_dead", owner_id=self.me)
                    self._trust.revoke()
                    self._over.set()
                    self.advance.wake()
                    return
                self._trust.renew(began)
            except psycopg.Error as error:
                log.warning("heartbeat_failed", owner_id=self.me, error=str(error).strip())
                self.advance.figures.note_error(error)
                if conn is not None:
                    conn.close()
                conn = None
            pause = self._settings.heartbeat_seconds if conn is not None else min(0.5, self._settings.heartbeat_seconds)
            self._over.wait(pause)
        if conn is not None:
            conn.close()

    def _do_duties(self) -> None:
        ttl = self._settings.ttl_seconds
        context: Context | None = None
        watches = SilenceWatch(ttl), SilenceWatch(ttl)
        due = dict.fromkeys(duties.ALL, 0.0)
        unbroken = 0.0
        while not self._over.is_set():
            urgent = self._claim_now.wait(self._settings.timer_seconds * self._random.uniform(0.8, 1.0))
            self._claim_now.clear()
            if self._over.is_set() or not self._trust.holds:
                continue
            try:
                if context is None:
                    conn = self._connect("duties")
                    # A claim may have gone through although its answer was lost: all that is mine is looked at again.
                    self.advance.take_over(jobs.open_jobs_of(conn, self.me))
                    context = Context(conn, self.me, self._schema, self._settings, self.advance, *watches)
                if self._trust.unbroken_since != unbroken:
                    unbroken = self._trust.unbroken_since
                    context.look_anew()
                for duty, interval_of in duties.ALL.items():
                    if monotonic() >= due[duty] or (urgent and duty is duties.claim_submissions):
                        due[duty] = monotonic() + interval_of(self._settings)
                        began = monotonic()
                        done = duty.run_once(context)
                        self.advance.figures.note_duty(duty.__name__.rpartition(".")[2], done)
                        if duty in duties.UNHURRIED:
                            due[duty] = max(due[duty], began + pause_seconds(monotonic() - began))
                        if duty is duties.orphans and done:
                            due[duty] = 0.0  # this was our share; what nobody else takes is shared out again
                        if duty is duties.claim_submissions and done >= duties.claim_submissions.BITE:
                            self._claim_now.set()  # there are more
            except psycopg.Error as error:
                log.warning("duty_failed", owner_id=self.me, error=str(error).strip())
                self.advance.figures.note_error(error)
                if context is not None:
                    context.look_anew()
                    context.conn.close()
                context = None
        if context is not None:
            context.conn.close()

    def _aggregate(self) -> None:
        conn: Conn | None = None
        while not self._over.is_set():
            if not self.advance.aggregations:
                self.advance.aggregation_wanted.wait(0.5)
                self.advance.aggregation_wanted.clear()
                continue
            job_id, plan, namespace, wanted = self.advance.aggregations[0]
            try:
                conn = conn or self._connect("fan-in")
                answer = reduce_children(conn, plan, namespace, job_id, wanted)
            except psycopg.Error as error:
                log.warning("fan_in_failed", job_id=job_id, error=str(error).strip())
                self.advance.figures.note_error(error)
                if conn is not None:
                    conn.close()
                conn = None
                self._over.wait(ERROR_PAUSE_SECONDS)
                continue
            self.advance.aggregations.popleft()
            self.advance.give([LocalInput(job_id, answer)])
        if conn is not None:
            conn.close()

    def _tell_catalogue(self) -> None:
        """Like callbacks: each claim is a lease of its own."""
        conn: Conn | None = None
        woken = self.advance.catalogue_written
        relay = catalogue.Relay(self._settings.catalogue, self._settings.storage)
        while not self._over.is_set():
            try:
                conn = conn or self._connect("catalogue")
                woken.clear()
                if not catalogue.run_once(conn, relay):
                    woken.wait(self._settings.poll_seconds)
            except (psycopg.Error, StorageError) as error:
                log.warning("catalogue_failed", owner_id=self.me, error=str(error).strip())
                if conn is not None:
                    conn.close()
                conn = None
                self._over.wait(self._settings.poll_seconds)
        if conn is not None:
            conn.close()

    def _keep_tables_small(self) -> None:
        """Rollups and retention, apart from the duties: nobody waits for them. They need no trust: rows are locked."""
        conn: Conn | None = None
        retention = Retention(self._schema, self._settings, self.advance.figures)
        while not self._over.is_set():
            try:
                conn = conn or self._connect("retention")
                pause = retention.run_once(conn)
            except psycopg.Error as error:
                log.warning("retention_failed", owner_id=self.me, error=str(error).strip())
                self.advance.figures.note_error(error)
                if conn is not None:
                    conn.close()
                conn = None
                pause = self._settings.poll_seconds
            self._over.wait(pause)
        if conn is not None:
            conn.close()

    def _deliver(self) -> None:
        """Callbacks need no trust in ourselves: each claim is a lease of its own."""
        conn: Conn | None = None
        woken = self.advance.callbacks_written
        delivery = callbacks.Delivery(self._settings.callbacks, woken)
        while not self._over.is_set():
            try:
                conn = conn or self._connect("callbacks")
                woken.clear()
                if callbacks.run_once(conn, delivery):
                    self._over.wait(callbacks.TURN_SECONDS)
                else:
                    woken.wait(self._settings.poll_seconds)
            except psycopg.Error as error:
                log.warning("callbacks_failed", owner_id=self.me, error=str(error).strip())
                if conn is not None:
                    conn.close()
                conn = None
                self._over.wait(ERROR_PAUSE_SECONDS)
        with suppress(psycopg.Error):
            delivery.stop(conn)
        if conn is not None:
            conn.close()
