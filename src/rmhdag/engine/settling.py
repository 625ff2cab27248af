"""Records the end of a node: completed, skipped, failed or cancelled. Other modules decide what follows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rmhdag.engine.inputs import Output
from rmhdag.engine.outputs import keep_read_paths, summarise
from rmhdag.engine.slots import CANCELLED, COMPLETED, FAILED, SKIPPED, Slot
from rmhdag.models.events import ErrorKind, EventStatus, EventType
from rmhdag.models.limits import MESSAGE_CHARACTERS

if TYPE_CHECKING:
    from rmhdag.engine.run import JobRun


def complete_node(run: JobRun, slot: Slot, output: Output | None, data: dict[str, Any]) -> None:
    """Complete a node that needed no worker; its output, if any, is kept on its row."""
    run.move(slot, COMPLETED)
    slot.deadline_at = None
    keep_read_paths(run, slot.plan, output)
    value = row_value(output)
    run.write(slot, output=value)
    if value is not None and not data:
        data = {"output_summary": summarise(value)}
    run.record(EventType.NODE_COMPLETED, EventStatus.SUCCESS, slot.node_id, data)
    run.settled.append(slot)


def row_value(output: Output | None) -> Any:
    """An output as a node row stores it: the value, or a reference to it."""
    if output is None:
        return None
    return output.value if output.reference is None else output.reference.as_json()


def skip(run: JobRun, slot: Slot, reason: str) -> None:
    run.move(slot, SKIPPED)
    slot.reason = reason
    run.write(slot)
    run.record(EventType.NODE_SKIPPED, EventStatus.INFO, slot.node_id, {"reason": reason})
    run.settled.append(slot)


def cancel_node(run: JobRun, slot: Slot, **data: Any) -> None:
    run.move(slot, CANCELLED)
    slot.next_attempt_at = slot.deadline_at = None
    run.write(slot)
    run.record(EventType.NODE_CANCELLED, EventStatus.INFO, slot.node_id, data)


def write_failure(
    run: JobRun,
    slot: Slot,
    kind: ErrorKind,
    message: str,
    task_id: str | None = None,
    duration_ms: int | None = None,
    error: dict[str, Any] | None = None,
) -> None:
    message = message[:MESSAGE_CHARACTERS]
    record_failure(run, slot, kind, message, task_id, duration_ms, error, will_retry=False)
    run.move(slot, FAILED)
    slot.deadline_at = slot.next_attempt_at = None
    slot.reason = message
    run.write(slot, error_message=message, error=error, task_id=task_id)


def record_failure(
    run: JobRun,
    slot: Slot,
    kind: ErrorKind,
    message: str,
    task_id: str | None,
    duration_ms: int | None,
    error: dict[str, Any] | None,
    *,
    will_retry: bool,
) -> None:
    status = EventStatus.WARNING if will_retry else EventStatus.FAILURE
    data = {"error_kind": str(kind), "will_retry": will_retry}
    if error is not None:
        data |= {"error_code": error["code"], "error_category": error["category"]}
    run.record(EventType.NODE_FAILED, status, slot.node_id, data, task_id, message, duration_ms)
