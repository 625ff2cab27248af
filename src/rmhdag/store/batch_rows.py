"""The rows that travel to the database as JSON arrays: one class per kind, whose fields are in the order of the array.

This is the only list of them. A query names its row (`-- row: NodeChange`) and reads `r->>{status}`; `load_queries`
puts the position there. Objects with names would cost more on both sides (docs/performance.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

import orjson

from rmhdag.models.callbacks import CallbackStatus
from rmhdag.models.catalogue import EntryStatus
from rmhdag.models.data_tables import PlaceStatus
from rmhdag.models.events import ErrorKind, EventStatus, EventType
from rmhdag.models.leases import LogChunk, ReturnedLease, TaskProgress
from rmhdag.models.records import TableRole, Zone
from rmhdag.models.service_calls import CallStatus, ServiceAction
from rmhdag.models.states import JobEnding, JobStatus, NodeStatus, TaskStatus
from rmhdag.models.unpublishing import DeletionStatus


def encode_rows(rows: Iterable[tuple[Any, ...]]) -> str:
    """Made plain tuples first: orjson would ask for each row what to do with it, and that takes longer."""
    return orjson.dumps([*map(tuple, rows)], default=str).decode()


class HeldJob(NamedTuple):
    """A job as its aggregate knows it: the row must still say the same."""

    job_id: str
    owner_epoch: int
    has_ended: bool = False


class NewNode(NamedTuple):
    job_id: str
    node_id: str
    namespace: str
    status: NodeStatus
    max_retries: int
    attempt: int = 1
    task_id: str | None = None
    lease_losses: int = 0
    next_attempt_at: datetime | None = None
    deadline_at: datetime | None = None
    parent_node_id: str | None = None
    fan_out_index: int | None = None
    item_key: str | None = None
    input_params: dict[str, Any] | None = None
    output: Any = None
    error_message: str | None = None
    error: dict[str, Any] | None = None
    reused_task_id: str | None = None


class NodeChange(NamedTuple):
    """None leaves the column as it is, except for the two times, which it clears. `error` goes with its message."""

    job_id: str
    node_id: str
    status: NodeStatus
    attempt: int
    task_id: str | None = None
    lease_losses: int = 0
    next_attempt_at: datetime | None = None
    deadline_at: datetime | None = None
    input_params: dict[str, Any] | None = None
    output: Any = None
    error_message: str | None = None
    error: dict[str, Any] | None = None
    reused_task_id: str | None = None
    checkpoint_phase: str | None = None
    checkpoint_data: Any = None
    duration_ms: int | None = None


class PieceOfFanOut(NamedTuple):
    """A range of indexes of a fan-out's children: from `start`, without `stop`."""

    job_id: str
    fan_out_id: str
    start: int
    stop: int


class QueuedTaskRow(NamedTuple):
    """`params` is None where the node's row has them: retries, and children of a fan-out."""

    task_id: str
    job_id: str
    node_id: str
    queue: str
    handler: str
    order_key: int
    attempt: int
    lease_losses: int
    timeout_seconds: int
    priority: int
    fairness_key: str
    namespace: str
    params: dict[str, Any] | None
    trace_parent: str | None = None


class RequeuedTask(NamedTuple):
    task_id: str
    lease_epoch: int
    lease_losses: int
    order_key: int


class DeadLetterRow(NamedTuple):
    dead_letter_id: str
    namespace: str
    queue: str
    reason: str
    error_message: str
    job_id: str
    node_id: str
    task_id: str
    body: dict[str, Any]


class JobEventRow(NamedTuple):
    job_id: str
    seq: int
    namespace: str
    event_type: EventType
    event_status: EventStatus
    node_id: str | None
    task_id: str | None
    duration_ms: int | None
    error_message: str | None
    data: dict[str, Any]


class JobChange(NamedTuple):
    """None leaves the column as it is."""

    job_id: str
    status: JobStatus
    ending: JobEnding | None = None
    result: dict[str, Any] | None = None
    error_message: str | None = None
    error: dict[str, Any] | None = None


class JobWarnings(NamedTuple):
    job_id: str
    warnings: list[dict[str, Any]]


class ParentNotice(NamedTuple):
    """A row for the inbox of the parent's owner."""

    parent_job_id: str
    parent_node_id: str
    payload: dict[str, Any]


class ChildCancellation(NamedTuple):
    child_job_id: str
    command: dict[str, Any]


class CommandAnswer(NamedTuple):
    command_id: str
    outcome: str
    reason: str


class ApprovalRequest(NamedTuple):
    job_id: str
    node_id: str
    namespace: str
    deadline_at: datetime | None
    message: str | None
    approvers: tuple[str, ...]


class NodeOfJob(NamedTuple):
    job_id: str
    node_id: str


class JobCallback(NamedTuple):
    """Somebody is to be notified of a job's start or end. Further callbacks of the job make their ids from this."""

    job_id: str
    callback_id: str


class TaskReportRow(NamedTuple):
    """`payload` is for the inbox, where rows stand in the order of their `position`."""

    task_id: str
    lease_epoch: int
    status: TaskStatus
    error_kind: ErrorKind | None
    error_message: str | None
    duration_ms: int
    output: orjson.Fragment | None
    metrics: dict[str, Any] | None
    started_ms_ago: float
    payload: dict[str, Any]
    position: int
    records: orjson.Fragment | None = None
    error: orjson.Fragment | None = None
    warnings: orjson.Fragment | None = None


class LeaseKey(NamedTuple):
    task_id: str
    lease_epoch: int


class HeldLogChunk(NamedTuple):
    """A chunk of log as a worker reports it that does not say whose task it is: the row knows."""

    task_id: str
    lease_epoch: int
    chunk_index: int
    line_count: int
    truncated: bool
    content: str
    position: int


class HostLoad(NamedTuple):
    """How many tries to send callbacks to a host are under way."""

    namespace: str
    host: str
    tries: int


class CallbackTry(NamedTuple):
    """`delay_seconds` is for those that stay pending."""

    callback_id: str
    lease_epoch: int
    status: CallbackStatus
    delay_seconds: float | None
    last_status: int | None
    last_error: str | None


class CallbackClaim(NamedTuple):
    callback_id: str
    lease_epoch: int


class SubmissionKey(NamedTuple):
    submitted_by: str
    idempotency_key: str


class WorkflowKey(NamedTuple):
    """`version` is None for the newest."""

    workflow_id: str
    version: int | None


class RevisionKey(NamedTuple):
    namespace: str
    asset_id: str
    revision: int


class StagedItem(NamedTuple):
    """A STAC item that is kept with its revision until the catalogue shows it."""

    namespace: str
    asset_id: str
    revision: int
    collection_id: str
    item_id: str
    body: Mapping[str, Any]
    job_id: str
    node_id: str


class EntryChange(NamedTuple):
    """A collection (`item_id` is '') or an item as the catalogue is to show it, or not to show it any more."""

    collection_id: str
    item_id: str
    namespace: str
    removed: bool
    body: Mapping[str, Any]
    job_id: str | None = None
    node_id: str | None = None


class EntryClaim(NamedTuple):
    """An entry of the catalogue that is being written, under a lease, at one of its versions."""

    namespace: str
    collection_id: str
    item_id: str
    lease_epoch: int
    version: int


class EntryTry(NamedTuple):
    """`newer_version` is the one that the catalogue has, if that is why it did not take the entry."""

    namespace: str
    collection_id: str
    item_id: str
    lease_epoch: int
    version: int
    status: EntryStatus
    delay_seconds: float | None
    error: str | None
    newer_version: int | None


class FilePlace(NamedTuple):
    """Where a file lies, within its namespace."""

    zone: str
    container: str
    path: str


class DoomedFile(NamedTuple):
    """A file that nobody needs any more."""

    file_id: str
    namespace: str
    zone: str
    container: str
    path: str
    unpublishing_id: str


class DeletionTry(NamedTuple):
    """`delay_seconds` is for those that are tried again."""

    file_id: str
    lease_epoch: int
    status: DeletionStatus
    delay_seconds: float | None
    error: str | None


class NewServiceCall(NamedTuple):
    call_id: str
    namespace: str
    service_id: str
    asset_id: str
    revision: int
    action: ServiceAction
    requested_by: str
    body: Mapping[str, Any]


class ServiceTry(NamedTuple):
    """`delay_seconds` is for those that stay pending; `counts`: whether it was one of the tries that are limited."""

    call_id: str
    lease_epoch: int
    status: CallStatus
    counts: bool
    run_id: str | None
    delay_seconds: float | None
    last_status: int | None
    last_error: str | None


class BlobRow(NamedTuple):
    blob_id: str
    namespace: str
    zone: Zone
    container: str
    path: str
    size_bytes: int
    sha256: str
    role: str
    media_type: str | None
    asset_id: str | None
    revision: int | None
    job_id: str
    node_id: str


class TableRow(NamedTuple):
    """A table in the data database."""

    table_id: str
    namespace: str
    table_name: str
    stored_name: str
    role: TableRole
    geometry_type: str
    feature_count: int
    asset_id: str | None
    revision: int | None
    job_id: str
    node_id: str
    details: Mapping[str, Any]


class PlaceName(NamedTuple):
    namespace: str
    table_name: str


class PlaceTry(NamedTuple):
    """`newer_version` is the one that the data database has, if that is why nothing was switched."""

    namespace: str
    table_name: str
    version: int
    lease_epoch: int
    status: PlaceStatus
    delay_seconds: float | None
    error: str | None
    newer_version: int | None


class LineageRow(NamedTuple):
    ref_id: str
    namespace: str
    asset_id: str | None
    revision: int | None
    job_id: str
    node_id: str
    role: str
    source_asset_id: str | None
    source_revision: int | None
    source_url: str | None


class PromotionRow(NamedTuple):
    namespace: str
    asset_id: str
    revision: int
    target: str
    url: str


# Those that a worker tells as well are in the models.
_IN_MODELS: tuple[Any, ...] = (LogChunk, ReturnedLease, TaskProgress)
_DECLARED_HERE = [kind for kind in globals().values() if getattr(kind, "__module__", None) == __name__]
FIELDS: dict[str, tuple[str, ...]] = {
    kind.__name__: kind._fields for kind in (*_IN_MODELS, *_DECLARED_HERE) if hasattr(kind, "_fields")
}
