"""Results on their way to the database: large outputs stored apart, batches halved until the bad one stands alone."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, NamedTuple

import orjson
import psycopg

from rmhdag.models.columns import INLINE_BYTES
from rmhdag.models.events import ErrorKind
from rmhdag.models.states import TaskStatus
from rmhdag.observability.logs import get_logger
from rmhdag.store import payloads
from rmhdag.store.tasks import ClaimedTask, TaskReport, report_tasks

log = get_logger(__name__)
Conn = psycopg.Connection[Any]
BATCH = 500
BATCH_BYTES = 8 * 1024 * 1024
# Connection gone, serialization, resources, locks, shutdown, system, read-only, schema being changed: not the data's
# fault, so the same batch is sent again.
TRANSIENT_CLASSES = frozenset({"08", "25", "28", "3D", "3F", "40", "42", "53", "55", "57", "58"})


class Finished(NamedTuple):
    """A task that ended here. Its times are offsets of this machine's monotonic clock."""

    task: ClaimedTask
    status: TaskStatus
    error_kind: ErrorKind | None = None
    error_message: str | None = None
    began_ns: int = 0
    duration_ms: int = 0
    output: bytes | None = None
    metrics: dict[str, Any] | None = None


def is_transient(error: psycopg.Error) -> bool:
    return error.sqlstate is None or error.sqlstate[:2] in TRANSIENT_CLASSES


def take_batch(waiting: Iterable[Finished]) -> list[Finished]:
    """The first ones that fit into one statement."""
    batch: list[Finished] = []
    size = 0
    for one in list(islice(waiting, BATCH)):
        size += min(len(one.output or b""), INLINE_BYTES)
        if batch and size > BATCH_BYTES:
            break
        batch.append(one)
    return batch


def report_batch(conn: Conn, worker_id: str, batch: Sequence[Finished]) -> set[str]:
    """Record results; returns the tasks whose lease still matched. Raises only what a later try may get past."""
    if not batch:
        return set()
    try:
        return report_tasks(conn, worker_id, [_as_report(conn, one) for one in batch])
    except psycopg.Error as error:
        if is_transient(error):
            raise
        if len(batch) == 1:
            return _report_refused(conn, worker_id, batch[0], error)
    middle = len(batch) // 2
    return report_batch(conn, worker_id, batch[:middle]) | report_batch(conn, worker_id, batch[middle:])


def _report_refused(conn: Conn, worker_id: str, one: Finished, error: psycopg.Error) -> set[str]:
    said = (error.diag.message_primary or str(error)).strip()
    log.warning("task_result_refused", error=said, **_ids(one))
    refused = Finished(
        one.task,
        TaskStatus.FAILED,
        ErrorKind.OUTPUT_REFUSED,
        f"the database refused the output: {said}"[:2000],
        one.began_ns,
        one.duration_ms,
    )
    try:
        return report_tasks(conn, worker_id, [_as_report(conn, refused)])
    except psycopg.Error as again:
        if is_transient(again):
            raise
        log.error("task_not_reported", error=str(again), **_ids(one))
        return set()


def _as_report(conn: Conn, one: Finished) -> TaskReport:
    output = one.output
    if output is not None and len(output) > INLINE_BYTES:
        output = orjson.dumps(payloads.write_json(conn, one.task.namespace, output))
    return TaskReport(
        one.task.task_id,
        one.task.lease_epoch,
        one.status,
        one.error_kind,
        one.error_message,
        one.duration_ms,
        output,
        one.metrics,
        max(0.0, (time.monotonic_ns() - one.began_ns) / 1e6) if one.began_ns else 0.0,
    )


def _ids(one: Finished) -> dict[str, str]:
    return {"job_id": one.task.job_id, "node_id": one.task.node_id, "task_id": one.task.task_id}
