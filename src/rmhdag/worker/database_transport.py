"""The transport over the database."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import orjson
import psycopg
from psycopg.types.json import set_json_loads

from rmhdag.messaging.claims import ClaimMarks
from rmhdag.messaging.doorbell import Doorbell
from rmhdag.models.leases import (
    BeatAnswer,
    CheckpointToSave,
    ClaimedTask,
    HeldTask,
    LogChunk,
    Pair,
    ReturnedLease,
    TaskProgress,
    TaskReport,
)
from rmhdag.models.references import Reference
from rmhdag.observability.supervision import Supervisor
from rmhdag.store import payloads, suspects, tasks, workers
from rmhdag.store.channels import queue_channel
from rmhdag.store.connection import Conn, connect, enter_schema
from rmhdag.worker.settings import WorkerSettings
from rmhdag.worker.transport import Identity, Refused, Unreachable

# Connection lost, serialization, resources, locks, shutdown, system, read-only, schema change: not caused by the
# data, so the same data is sent again.
# Longer than the server's own limit: a frozen server cannot cancel its statements itself.
ANSWER_GRACE_SECONDS = 2.0
TRANSIENT_CLASSES = frozenset({"08", "25", "28", "3D", "3F", "40", "42", "53", "55", "57", "58"})


@contextmanager
def told_apart() -> Iterator[None]:
    """Translates errors of the driver into errors of the transport, by how to react to them."""
    try:
        yield
    except psycopg.Error as error:
        if error.sqlstate is None or error.sqlstate[:2] in TRANSIENT_CLASSES:
            raise Unreachable(str(error).strip()) from error
        raise Refused((error.diag.message_primary or str(error)).strip()) from error


def _nothing() -> None:
    """Ignores the progress of calls."""


class DatabaseLink:
    """A connection that is opened on demand: autocommit, our schema, JSON decoded by orjson."""

    def __init__(self, settings: WorkerSettings, role: str, statement_timeout_seconds: float) -> None:
        self._settings = settings
        self._role = role
        self._statement_timeout_seconds = statement_timeout_seconds
        self._conn: Conn | None = None
        self.on_call: Callable[[], None] = _nothing

    @property
    def is_open(self) -> bool:
        return self._conn is not None

    @property
    def conn(self) -> Conn:
        self.on_call()
        if self._conn is None:
            self._conn = self._open()
        return self._conn

    def disconnect(self) -> None:
        if self._conn is not None:
            self._conn.close()
            self._conn = None

    def _open(self) -> Conn:
        settings = self._settings
        conn = connect(
            settings.dsn,
            f"rmhdag:worker:{self._role}",
            autocommit=True,
            statement_timeout_seconds=self._statement_timeout_seconds,
            reads_whole_tables=False,
            pooled=settings.pooled,
            answer_seconds=self._statement_timeout_seconds + ANSWER_GRACE_SECONDS,
        )
        try:
            enter_schema(conn, settings.schema, pooled=settings.pooled)
            set_json_loads(orjson.loads, conn)
        except BaseException:
            conn.close()
            raise
        return conn


class DatabasePulse(DatabaseLink):
    def __init__(self, settings: WorkerSettings) -> None:
        super().__init__(settings, "heartbeat", statement_timeout_seconds=4)

    def beat(self, worker_id: str, stats: dict[str, Any], *, draining: bool) -> BeatAnswer:
        with told_apart():
            return workers.beat_if_registered(self.conn, worker_id, stats, draining=draining)


class DatabaseTransport(DatabaseLink):
    name = "the database"

    def __init__(self, settings: WorkerSettings) -> None:
        super().__init__(settings, "exchange", statement_timeout_seconds=10)
        self.has_bell = settings.notify and not settings.pooled
        self.poll_seconds = settings.poll_seconds
        self._turns = deque(settings.queues)
        self._marks = ClaimMarks()
        self._handlers: frozenset[str] | None = None
        channels = [queue_channel(queue) for queue in settings.queues]
        self._doorbell = Doorbell(settings.dsn, settings.schema, channels, enabled=self.has_bell)

    def pulse(self) -> DatabasePulse:
        return DatabasePulse(self._settings)

    def start(self, supervisor: Supervisor) -> None:
        pass

    def connect(self) -> bool:
        if self.is_open:
            return False
        with told_apart():
            return self.conn is not None

    def close(self) -> None:
        self._doorbell.close()
        self.disconnect()

    def register(self, identity: Identity, before: str | None) -> None:
        self._handlers = identity.handler_names
        with told_apart():
            if before is not None:
                tasks.report_lost_tasks(self.conn, [before])
            with self.conn.transaction():
                workers.register_worker(self.conn, *identity[:6], self._handlers)
                workers.register_handlers(self.conn, identity.handlers)

    def leave(self, worker_id: str) -> None:
        with told_apart():
            workers.unregister_worker(self.conn, worker_id)

    def wait(self, timeout_seconds: float, wake_fd: int, *, is_hungry: bool) -> bool:
        return self._doorbell.wait(timeout_seconds, [wake_fd])

    def has_rung(self) -> bool:
        return self._doorbell.take()

    def claim(self, worker_id: str, limit: int) -> Iterator[list[ClaimedTask]]:
        """Claim from queue after queue; each queue is first in turn."""
        self._turns.rotate(-1)
        for queue in self._turns:
            if limit <= 0:
                return
            with told_apart():
                claimed = self._marks.claim(self.conn, worker_id, queue, limit, self._handlers)
            limit -= len(claimed)
            if claimed:
                yield claimed

    def suspect_waits(self) -> bool:
        with told_apart():
            return suspects.suspect_waits(self.conn, self._settings.queues, handlers=self._handlers)

    def claim_suspect(self, worker_id: str) -> ClaimedTask | None:
        with told_apart():
            return suspects.claim_suspect(self.conn, worker_id, self._settings.queues, handlers=self._handlers)

    def mark_starts(self, worker_id: str, pairs: Sequence[Pair]) -> set[str]:
        with told_apart():
            return tasks.start_tasks(self.conn, worker_id, pairs)

    def save_progress(self, worker_id: str, progress: Sequence[TaskProgress]) -> None:
        with told_apart():
            workers.save_progress_if_held(self.conn, worker_id, progress)

    def save_checkpoints(self, worker_id: str, checkpoints: Sequence[CheckpointToSave]) -> Iterator[str | None]:
        for checkpoint in checkpoints:
            refusal = None
            try:
                with told_apart():
                    if not workers.save_checkpoint_if_held(self.conn, worker_id, *checkpoint):
                        refusal = "the task belongs to another worker now"
            except Refused as error:
                refusal = str(error)
            yield refusal

    def keep_logs(self, worker_id: str, chunks: Sequence[LogChunk]) -> None:
        with told_apart():
            workers.insert_logs(self.conn, chunks)

    def report(self, worker_id: str, reports: Sequence[TaskReport]) -> None:
        with told_apart():
            tasks.report_tasks(self.conn, worker_id, reports)

    def release(self, worker_id: str, leases: Sequence[ReturnedLease]) -> None:
        with told_apart():
            tasks.release_tasks(self.conn, worker_id, leases)

    def held_tasks(self, worker_id: str, epochs: Mapping[str, int]) -> list[HeldTask]:
        with told_apart():
            return workers.held_tasks(self.conn, worker_id)

    def write_payload(self, namespace: str, job_id: str, text: bytes) -> Reference:
        with told_apart():
            return payloads.write_json(self.conn, namespace, job_id, text)

    def read_payload(self, namespace: str, digest: str) -> bytes:
        with told_apart():
            return payloads.read_text(self.conn, namespace, digest)
