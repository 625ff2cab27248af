"""One thread that reads new events once for all listeners of this process; it sleeps while there are no listeners.

It reads on a connection of its own and hands chunks over to the event loop. A listener decides by itself whether a
chunk follows what it has, so this may stop, start over or lose its connection at any time without a gap.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import threading
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import orjson
import psycopg
from psycopg.types.json import set_json_loads

from rmhdag.api.problems import RETRY_SECONDS, Problem
from rmhdag.api.quotas import quota_exceeded
from rmhdag.api.streams.chunks import Chunk, Message, chunks_of_rows, event_body
from rmhdag.api.streams.listener import Listener
from rmhdag.api.streams.shared_reads import SharedReads
from rmhdag.messaging.doorbell import Doorbell
from rmhdag.observability.logs import get_logger
from rmhdag.store import api_keys, streams
from rmhdag.store.channels import JOBS_ENDED, NEW_JOBS
from rmhdag.store.connection import Conn, connect, enter_schema
from rmhdag.store.streams import Page, Place, StreamRow, Wanted

# New and ended jobs ring; what happens between is found by looking, within a quarter of a second.
LEAST_SECONDS = 0.05
USUAL_SECONDS = 0.25
MOST_SECONDS = 0.8
# At most one part in so many of a processor goes into telling, unless looks would become rarer than that: what costs is
# to wake every listener for every look, however little there is to tell.
PARTS = 20
# What a look finds is told at once, up to so many events: each telling wakes everybody.
ROWS_AT_ONCE = 5_000
# Listeners that are woken in one turn of the event loop.
TOLD_AT_ONCE = 4
# The database ends a statement by itself after ten, unless it is stopped.
ANSWER_SECONDS = 12.0
TROUBLE_SECONDS = 1.0
# A transaction that writes for so long holds up the stream of all jobs; jobs are then read by their own numbers.
STALL_SECONDS = 1.0
# A key is looked at with every call, and so often while it listens.
KEYS_SECONDS = 2.0

log = get_logger(__name__)


class Audience(NamedTuple):
    """Listeners to all jobs of a namespace that want the same types of events; no types means all."""

    namespace: str
    event_types: frozenset[str] | None

    def wants(self, row: StreamRow) -> bool:
        return row.namespace == self.namespace and (self.event_types is None or row.event_type in self.event_types)


class Delivery(NamedTuple):
    """For the event loop: chunks with those who get them, and how far everybody else has missed nothing."""

    chunks: Sequence[tuple[Chunk[Any], Sequence[Listener[Any]]]]
    silent: list[Listener[Place]]
    until: Place | None


class Hub:
    def __init__(
        self, dsn: str, schema: str, *, pooled: bool, notify: bool, max_listeners: int, max_listeners_per_key: int
    ) -> None:
        self._dsn = dsn
        self._schema = schema
        self._pooled = pooled
        self._notify = notify and not pooled
        self._max_listeners = max_listeners
        self._max_listeners_per_key = max_listeners_per_key
        self._everybody: set[Listener[Any]] = set()
        self._of_namespace: Counter[str] = Counter()
        self._closed = False
        self.reads = SharedReads()

        self._stopping = False

        self._lock = threading.Lock()  # for the next four, which both sides touch
        self._of_key: dict[str, set[Listener[Any]]] = {}
        self._jobs: dict[str, list[Listener[int]]] = {}
        self._audiences: dict[Audience, list[Listener[Place]]] = {}
        self._newcomers: list[Listener[Any]] = []

        self._awake = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._nudge_out = self._nudge_in = -1

    # -- the event loop's side -------------------------------------------------------------------------------------

    @asynccontextmanager
    async def listening(
        self,
        listener: Listener[Any],
        key: str,
        namespace: str,
        most_of_namespace: int,
        *,
        job_id: str | None = None,
        audience: Audience | None = None,
    ) -> AsyncIterator[None]:
        """The listener is offered what is new, until the block ends."""
        self._admit(key, namespace, most_of_namespace)
        self._everybody.add(listener)
        self._of_namespace[namespace] += 1
        with self._lock:
            self._of_key.setdefault(key, set()).add(listener)
        place: tuple[dict[Any, list[Listener[Any]]], Any] = (
            (self._jobs, job_id) if job_id is not None else (self._audiences, audience)
        )
        self._join(listener, *place)
        try:
            yield
        finally:
            self._leave(listener, *place)
            self._everybody.discard(listener)
            self._of_namespace[namespace] -= 1
            with self._lock:
                self._of_key[key].discard(listener)
                if not self._of_key[key]:
                    del self._of_key[key]

    def end_streams(self) -> None:
        """All listeners are closed, and nobody is let in any more."""
        self._closed = True
        for listener in list(self._everybody):
            listener.close()

    def end_streams_of(self, keys: Sequence[str]) -> None:
        for key in keys:
            for listener in list(self._of_key.get(key, ())):
                listener.close()

    def close(self) -> None:
        """The thread ends."""
        self._stopping = True
        if self._thread is None:
            return
        self._awake.set()
        self._nudge()
        self._thread.join()
        self._thread = None
        os.close(self._nudge_in)
        os.close(self._nudge_out)

    @property
    def listeners(self) -> int:
        return len(self._everybody)

    @property
    def most_queued(self) -> int:
        """Chunks that wait for the slowest listener."""
        return max((listener.queued for listener in list(self._everybody)), default=0)

    def listeners_of(self, namespace: str) -> int:
        return self._of_namespace[namespace]

    def _admit(self, key: str, namespace: str, most_of_namespace: int) -> None:
        later = {"Retry-After": str(RETRY_SECONDS)}
        if self._closed:
            raise Problem(503, "stopping", "this server is about to stop", headers=later)
        if self._of_namespace[namespace] >= most_of_namespace:
            raise quota_exceeded("listeners", most_of_namespace, self._of_namespace[namespace])
        if len(self._everybody) >= self._max_listeners:
            raise Problem(503, "too_many_listeners", "this server has as many listeners as it takes", headers=later)
        if len(self._of_key.get(key, ())) >= self._max_listeners_per_key:
            raise Problem(
                429,
                "too_many_streams",
                f"a key may have {self._max_listeners_per_key} streams open on one server",
                remedy="Close some of them, or follow all jobs by one stream.",
                headers=later,
            )

    def _join(self, listener: Listener[Any], members: dict[Any, list[Listener[Any]]], place: Any) -> None:
        self._loop = asyncio.get_running_loop()
        with self._lock:
            # Never changed in place: the thread may be walking the old list.
            members[place] = [*members.get(place, ()), listener]
            self._newcomers.append(listener)
        if self._thread is None:
            self._nudge_out, self._nudge_in = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
            self._thread = threading.Thread(target=self._run, name="stream-hub", daemon=True)
            self._thread.start()
        self._awake.set()
        self._nudge()

    def _leave(self, listener: Listener[Any], members: dict[Any, list[Listener[Any]]], place: Any) -> None:
        with self._lock:
            others = [other for other in members[place] if other is not listener]
            if others:
                members[place] = others
            else:
                del members[place]
            if not self._jobs and not self._audiences:
                self._awake.clear()

    def _nudge(self) -> None:
        with contextlib.suppress(BlockingIOError):  # full: it will be seen anyway
            os.write(self._nudge_in, b".")

    def _begin_delivery(self, delivery: Delivery, delivered: threading.Event) -> None:
        task = asyncio.ensure_future(self._deliver(delivery))
        task.add_done_callback(lambda done: delivered.set())

    async def _deliver(self, delivery: Delivery) -> None:
        """A few listeners at a time, small audiences first: to wake 400 at once would stop everybody for as long as it
        takes to write to all of them, up to half a second.
        """
        count, began = 0, time.thread_time()
        for chunk, listeners in sorted(delivery.chunks, key=lambda pair: len(pair[1])):
            for listener in listeners:
                listener.offer(chunk)
                count += 1
                if count % TOLD_AT_ONCE == 0:
                    # They write now; then all others have as long for themselves.
                    await asyncio.sleep(0)
                    await asyncio.sleep(time.thread_time() - began)
                    began = time.thread_time()
        if delivery.until is not None:
            for listener in delivery.silent:
                listener.pass_silence(delivery.until)

    # -- the thread's side -----------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._stopping:
            self._awake.wait()
            if not self._stopping:
                with contextlib.closing(_Reader(self)) as reader:
                    reader.read_while(lambda: self._awake.is_set() and not self._stopping)

    def members(
        self,
    ) -> tuple[dict[str, list[Listener[int]]], dict[Audience, list[Listener[Place]]], list[Listener[Any]]]:
        """Who listens now, and who of them is new."""
        with self._lock:
            newcomers, self._newcomers = self._newcomers, []
            return dict(self._jobs), dict(self._audiences), newcomers

    def keys(self) -> list[str]:
        with self._lock:
            return list(self._of_key)

    def hand_over(self, call: Callable[..., None], *arguments: Any) -> None:
        """To the event loop; when that is gone there is nobody left to tell."""
        assert self._loop is not None
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(call, *arguments)

    def deliver(self, delivery: Delivery) -> None:
        """Waits until the event loop has taken it, so that chunks do not pile up before a loop that has much to do."""
        delivered = threading.Event()
        self.hand_over(self._begin_delivery, delivery, delivered)
        while not delivered.wait(0.5) and not self._stopping:
            pass

    def connect(self) -> Conn:
        conn = connect(self._dsn, "rmhdag:streams", autocommit=True, pooled=self._pooled, answer_seconds=ANSWER_SECONDS)
        enter_schema(conn, self._schema, pooled=self._pooled)
        set_json_loads(orjson.loads, conn)
        return conn

    def bell(self) -> Doorbell:
        return Doorbell(self._dsn, self._schema, (JOBS_ENDED, NEW_JOBS), self._notify)

    def rest(self, bell: Doorbell, seconds: float) -> None:
        """At least as long as that, and then until somebody rings; a newcomer ends it at once."""
        if not select.select([self._nudge_out], [], [], seconds)[0]:
            bell.wait(max(0.0, USUAL_SECONDS - seconds), also=[self._nudge_out])
        with contextlib.suppress(BlockingIOError):
            while os.read(self._nudge_out, 4096):
                pass


class _Reader:
    """From the first listener to the last: a connection, a bell, and the place up to which all was handed over."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._bell = hub.bell()
        self._conn: Conn | None = None
        self._place: Place | None = None
        # Where the last chunk of each audience ended: the next one follows that, for nothing was between.
        self._told: dict[Audience, Place] = {}
        self._horizon = (0, 0.0)
        self._stall_read_at = 0.0
        self._keys_read_at = time.monotonic()

    def close(self) -> None:
        self._bell.close()
        self._disconnect()

    def _disconnect(self) -> None:
        if self._conn is not None:
            self._conn.close()
            self._conn = None

    def read_while(self, is_needed: Callable[[], bool]) -> None:
        newcomers: list[Listener[Any]] = []
        used = time.process_time()
        while is_needed():
            jobs, audiences, new = self._hub.members()
            newcomers += new
            try:
                if self._conn is None:
                    self._conn = self._hub.connect()
                if self._place is None:
                    self._place = streams.now(self._conn)
                # From here on they are among those who get what this reads; what they read themselves is later still.
                for listener in newcomers:
                    self._hub.hand_over(listener.greet)
                newcomers = []
                self._look(self._conn, jobs, audiences)
                self._look_at_keys(self._conn)
            except Exception as error:  # whatever it is: without this thread all listeners would wait for ever
                expected = isinstance(error, psycopg.Error)
                log.warning("stream_reader_lost", error=type(error).__name__, exc_info=None if expected else error)
                self._disconnect()
                self._hub.rest(self._bell, TROUBLE_SECONDS)
                continue
            before, used = used, time.process_time()
            self._hub.rest(self._bell, min(MOST_SECONDS, max(LEAST_SECONDS, PARTS * (used - before))))

    def _look_at_keys(self, conn: Conn) -> None:
        """Whose key is revoked hears no more. Who comes back is refused by its key, so nothing is told here."""
        now = time.monotonic()
        if now - self._keys_read_at >= KEYS_SECONDS:
            self._keys_read_at = now
            if dead := api_keys.find_dead(conn, self._hub.keys()):
                self._hub.hand_over(self._hub.end_streams_of, dead)

    def _look(
        self,
        conn: Conn,
        jobs: dict[str, list[Listener[int]]],
        audiences: dict[Audience, list[Listener[Place]]],
    ) -> None:
        assert self._place is not None
        self._told = {audience: self._told.get(audience, self._place) for audience in audiences}
        events = Wanted(tuple(jobs), {audience.namespace for audience in audiences}, _union(audiences))
        page: Page | None = None
        while page is None or not page.is_last:
            page = streams.read_all(conn, self._place, events)
            rows = page.rows
            while not page.is_last and len(rows) < ROWS_AT_ONCE:
                page = streams.read_all(conn, page.until, events)
                rows += page.rows
            self._hub.deliver(self._sort(rows, page.until, jobs, audiences))
            self._place = page.until
        if jobs and self._is_stalled(page):
            self._read_stalled(conn, jobs)

    def _sort(
        self,
        rows: Sequence[StreamRow],
        until: Place,
        jobs: dict[str, list[Listener[int]]],
        audiences: dict[Audience, list[Listener[Place]]],
    ) -> Delivery:
        """Which listener gets which rows. Each event is encoded once, however many listeners get it."""
        of_jobs: dict[str, list[tuple[StreamRow, bytes]]] = defaultdict(list)
        of_all: dict[Audience, list[Message[Place]]] = defaultdict(list)
        for row in rows:
            body = event_body(row)
            if row.job_id in jobs:
                of_jobs[row.job_id].append((row, body))
            for audience in audiences:
                if audience.wants(row):
                    of_all[audience].append(Message(row.place, body))
        chunks: list[tuple[Chunk[Any], Sequence[Listener[Any]]]] = [
            (chunk, jobs[job_id]) for job_id, rows_of_job in of_jobs.items() for chunk in chunks_of_rows(rows_of_job)
        ]
        silent: list[Listener[Place]] = []
        for audience, listeners in audiences.items():
            if messages := of_all.get(audience):
                chunks.append((Chunk(self._told[audience], until, tuple(messages)), listeners))
                self._told[audience] = until
            else:
                silent += listeners
        return Delivery(chunks, silent, until)

    def _is_stalled(self, page: Page) -> bool:
        """Some transaction has been writing for long, and others have followed it."""
        now = time.monotonic()
        if page.horizon != self._horizon[0]:
            self._horizon = (page.horizon, now)
        return page.newest > page.horizon and now - self._horizon[1] > STALL_SECONDS

    def _read_stalled(self, conn: Conn, jobs: dict[str, list[Listener[int]]]) -> None:
        now = time.monotonic()
        if now - self._stall_read_at < STALL_SECONDS:
            return
        self._stall_read_at = now
        places = {job_id: min(listener.place for listener in listeners) for job_id, listeners in jobs.items()}
        by_job: dict[str, list[tuple[StreamRow, bytes]]] = defaultdict(list)
        for row in streams.read_jobs(conn, places, 100):
            by_job[row.job_id].append((row, event_body(row)))
        chunks = [(chunk, jobs[job_id]) for job_id, rows in by_job.items() for chunk in chunks_of_rows(rows)]
        self._hub.deliver(Delivery(chunks, [], None))


def _union(audiences: dict[Audience, list[Listener[Place]]]) -> set[str] | None:
    """The types that anybody wants; None if somebody wants all."""
    types: set[str] = set()
    for audience in audiences:
        if audience.event_types is None:
            return None
        types |= audience.event_types
    return types
