"""Results on their way out: large outputs stored apart, batches halved until the bad one stands alone."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import orjson

from rmhdag.models.events import ErrorKind
from rmhdag.models.leases import ClaimedTask, TaskReport
from rmhdag.models.limits import INLINE_BYTES
from rmhdag.models.states import TaskStatus
from rmhdag.observability.logs import get_logger
from rmhdag.worker.transport import NotAllowed, Refused, Transport, TransportError

log = get_logger(__name__)
BATCH = 500
BATCH_BYTES = 8 * 1024 * 1024


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
    records: bytes | None = None
    error: bytes | None = None
    warnings: bytes | None = None


def take_batch(waiting: Sequence[Finished]) -> list[Finished]:
    """The first ones that fit into one statement."""
    batch: list[Finished] = []
    size = 0
    for one in waiting[:BATCH]:
        size += min(len(one.output or b""), INLINE_BYTES) + min(len(one.records or b""), INLINE_BYTES)
        size += len(one.warnings or b"") + len(one.error or b"")
        if batch and size > BATCH_BYTES:
            break
        batch.append(one)
    return batch


def report_batch(
    transport: Transport, worker_id: str, batch: Sequence[Finished], *, is_desperate: bool = False
) -> None:
    """Record results. Raises only what a later try may get past; if desperate, an unknown error is the data's fault."""
    if not batch:
        return
    try:
        transport.report(worker_id, [_as_report(transport, one) for one in batch])
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


def _report_refused(transport: Transport, worker_id: str, one: Finished, error: Exception) -> None:
    log.warning("task_result_refused", error=str(error), **_ids(one))
    refused = Finished(
        one.task,
        TaskStatus.FAILED,
        ErrorKind.OUTPUT_REFUSED,
        f"{transport.name} refused the output: {error}"[:2000],
        one.began_ns,
        one.duration_ms,
    )
    try:
        transport.report(worker_id, [_as_report(transport, refused)])
    except Refused as again:
        log.error("task_not_reported", error=str(again), **_ids(one))


def _as_report(transport: Transport, one: Finished) -> TaskReport:
    output = _inline(transport, one, one.output)
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
        _inline(transport, one, one.records),
        one.error,
        one.warnings,
    )


def _inline(transport: Transport, one: Finished, text: bytes | None) -> bytes | None:
    """As it is, or a reference to where it is stored apart."""
    if text is None or len(text) <= INLINE_BYTES:
        return text
    return orjson.dumps(transport.write_payload(one.task.namespace, one.task.job_id, text).as_json())


def _ids(one: Finished) -> dict[str, str]:
    return {"job_id": one.task.job_id, "node_id": one.task.node_id, "task_id": one.task.task_id}
