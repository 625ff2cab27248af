"""Sends results: stores large outputs separately, and halves a refused batch until the bad result is isolated."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import orjson

from rmhdag.models.events import ErrorKind
from rmhdag.models.leases import ClaimedTask, TaskReport
from rmhdag.models.limits import INLINE_BYTES, MESSAGE_CHARACTERS
from rmhdag.models.states import TaskStatus
from rmhdag.observability.logs import get_logger
from rmhdag.observability.secrets import mask_and_cut
from rmhdag.worker.transport import NotAllowed, Refused, Transport, TransportError

log = get_logger(__name__)
BATCH = 500
BATCH_BYTES = 8 * 1024 * 1024


class Finished(NamedTuple):
    """A task that has ended. Its times are readings of this machine's monotonic clock."""

    task: ClaimedTask
    status: TaskStatus
    error_kind: ErrorKind | None = None
    error_message: str | None = None
    began_ns: int = 0
    duration_ms: int = 0
    output: bytes | None = None
    metrics: dict[str, Any] | None = None
    records: bytes | None = None
    error: bytes | None = None
    warnings: bytes | None = None


def take_batch(waiting: Sequence[Finished]) -> list[Finished]:
    """The first results that fit into one statement."""
    batch: list[Finished] = []
    size = 0
    for result in waiting[:BATCH]:
        size += min(len(result.output or b""), INLINE_BYTES) + min(len(result.records or b""), INLINE_BYTES)
        size += len(result.warnings or b"") + len(result.error or b"")
        if batch and size > BATCH_BYTES:
            break
        batch.append(result)
    return batch


def report_batch(
    transport: Transport, worker_id: str, batch: Sequence[Finished], *, is_desperate: bool = False
) -> None:
    """Record results. Raises only errors that may be temporary; if desperate, unknown errors are blamed on the data."""
    if not batch:
        return
    try:
        transport.report(worker_id, [_as_report(transport, result) for result in batch])
        return
    except Exception as error:
        is_known = isinstance(error, TransportError | NotAllowed)
        if not isinstance(error, Refused) and (is_known or not is_desperate):
            raise
        if len(batch) == 1:
            _report_refused(transport, worker_id, batch[0], error)
            return
    middle = len(batch) // 2
    report_batch(transport, worker_id, batch[:middle], is_desperate=is_desperate)
    report_batch(transport, worker_id, batch[middle:], is_desperate=is_desperate)


def _report_refused(transport: Transport, worker_id: str, result: Finished, error: Exception) -> None:
    log.warning("task_result_refused", error=str(error), **_ids(result))
    refused = Finished(
        result.task,
        TaskStatus.FAILED,
        ErrorKind.OUTPUT_REFUSED,
        mask_and_cut(f"{transport.name} refused the output: {error}", MESSAGE_CHARACTERS),
        result.began_ns,
        result.duration_ms,
    )
    try:
        transport.report(worker_id, [_as_report(transport, refused)])
    except Refused as again:
        log.error("task_not_reported", error=str(again), **_ids(result))


def _as_report(transport: Transport, result: Finished) -> TaskReport:
    output = _inline(transport, result, result.output)
    return TaskReport(
        result.task.task_id,
        result.task.lease_epoch,
        result.status,
        result.error_kind,
        result.error_message,
        result.duration_ms,
        output,
        result.metrics,
        max(0.0, (time.monotonic_ns() - result.began_ns) / 1e6) if result.began_ns else 0.0,
        _inline(transport, result, result.records),
        result.error,
        result.warnings,
    )


def _inline(transport: Transport, result: Finished, text: bytes | None) -> bytes | None:
    """The text itself, or a reference to where it is stored."""
    if text is None or len(text) <= INLINE_BYTES:
        return text
    return orjson.dumps(transport.write_payload(result.task.namespace, result.task.job_id, text).as_json())


def _ids(result: Finished) -> dict[str, str]:
    return {"job_id": result.task.job_id, "node_id": result.task.node_id, "task_id": result.task.task_id}
