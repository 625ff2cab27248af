"""Rows of every table for Hypothesis: values by column type, then made to fit the table's own invariants."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import strategies as st

from rmhdag.models.assets import (
    OPEN_STATUSES,
    ApiRequest,
    Approval,
    ApprovalState,
    AssetRevision,
    BlobAsset,
    BlobState,
    Classification,
    DatasetRef,
    GeospatialAsset,
)
from rmhdag.models.callbacks import Callback, CallbackEndpoint, CallbackStatus
from rmhdag.models.catalogue import CatalogueEntry
from rmhdag.models.columns import BooleanType, BytesType, FloatType, IntegerType, JsonType, TextType, TimestampType
from rmhdag.models.data_tables import DataTable, TablePlace, TableState
from rmhdag.models.history import JobEvent
from rmhdag.models.jobs import Job, JobCommand, NodeState
from rmhdag.models.promoted import PromotedEntry
from rmhdag.models.queues import DeadLetter, InboxRow, OutboxRow, OutboxStatus, QueueMessage
from rmhdag.models.registry import SchemaMeta
from rmhdag.models.service_calls import CallStatus, ServiceCall
from rmhdag.models.states import JOB_TERMINAL, NODE_TERMINAL, JobStatus, NodeStatus, TaskStatus
from rmhdag.models.table import Column, Row, columns_of
from rmhdag.models.tasks import Checkpoint, Payload, TaskLog, TaskResult
from rmhdag.models.unpublishing import DeletionStatus, FileDeletion, Unpublishing, UnpublishingStatus

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)

TEXT = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
# Beyond 15 digits jsonb's decimal numbers and Python's floats have other shortest spellings.
NUMBERS = st.integers(-(2**53), 2**53) | st.floats(-1e15, 1e15, allow_nan=False).map(lambda x: round(x, 6))
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(TEXT, max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(TEXT, max_size=8), inner, max_size=4),
    max_leaves=8,
)
LISTS = frozenset(
    {
        "aliases",
        "approvers",
        "queues",
        "scopes",
        "catalogue",
        "warnings",
        "handlers",
        "identity_refs",
        "optional_refs",
        "tags",
    }
)


def values_of(column: Column) -> st.SearchStrategy[Any]:
    kind = column.column_type
    made: st.SearchStrategy[Any]
    if column.enum:
        made = st.sampled_from(list(column.enum))
    elif isinstance(kind, TextType):
        made = st.text(TEXT, min_size=kind.min_length, max_size=min(kind.max_length or 100, max(kind.min_length, 40)))
    elif isinstance(kind, IntegerType):
        made = st.integers(kind.minimum, kind.maximum)
    elif isinstance(kind, FloatType):
        made = st.floats(kind.minimum, kind.maximum)
    elif isinstance(kind, BooleanType):
        made = st.booleans()
    elif isinstance(kind, BytesType):
        made = st.binary(max_size=100)
    elif isinstance(kind, TimestampType):
        made = st.integers(0, 10**12).map(lambda micros: NOW + timedelta(microseconds=micros))
    else:
        assert isinstance(kind, JsonType)
        made = JSON
        if column.name in LISTS:
            made = st.lists(JSON, max_size=3)
        elif not column.nullable or column.name in ("result_data", "body", "error", "subscriber"):
            made = st.dictionaries(st.text(TEXT, max_size=8), JSON, max_size=3)
    return st.none() | made if column.nullable else made


def _job(row: dict[str, Any]) -> None:
    status = row["status"]
    row["completed_at"] = NOW if status in JOB_TERMINAL else None
    row["started_at"] = NOW if status in (JobStatus.RUNNING, JobStatus.COMPLETED) else row["started_at"]
    row["ending"] = None if status is JobStatus.COMPLETED else row["ending"]
    row["parent_node_id"] = "n" if row["parent_job_id"] else None
    row["asset_id"] = row["asset_id"] or "a" * 32
    row["revision"] = row["revision"] or 1


def _node(row: dict[str, Any]) -> None:
    row["completed_at"] = NOW if row["status"] in NODE_TERMINAL else None
    row["task_id"] = "t" if row["status"] is NodeStatus.DISPATCHED else row["task_id"]
    row["retry_count"] = row["attempt"] - 1
    row["fan_out_index"] = 3 if row["parent_node_id"] else None
    row["checkpoint_saved_at"] = NOW if row["checkpoint_phase"] else None


def _command(row: dict[str, Any]) -> None:
    row["applied_at"] = NOW if row["outcome"] else None


def _result(row: dict[str, Any]) -> None:
    row["lease_epoch"] = row["lease_epoch"] or 1
    if row["status"] is TaskStatus.FAILED and row["error_kind"] is None:
        row["error_kind"] = "timeout"


def _leased(row: dict[str, Any]) -> None:
    row["lease_epoch"] = row["lease_epoch"] or 1


def _payload(row: dict[str, Any]) -> None:
    row["chunk_index"] = row["chunk_count"] - 1
    row["size_bytes"] %= 64 * 1024 * 1024


def _queued(row: dict[str, Any]) -> None:
    row["timeout_seconds"] = row["timeout_seconds"] % 86_400 + 1
    if row["worker_id"]:
        row["lease_epoch"] = row["lease_epoch"] or 1
        row["claimed_at"], row["available_at"] = NOW, None
    else:
        row["claimed_at"] = row["started_at"] = None


def _inbox(row: dict[str, Any]) -> None:
    row["lease_epoch"] = 1 if row["task_id"] else None


def _outbox(row: dict[str, Any]) -> None:
    row["settled_at"] = None if row["status"] is OutboxStatus.PENDING else NOW


def _callback(row: dict[str, Any]) -> None:
    row["settled_at"] = None if row["status"] is CallbackStatus.PENDING else NOW


def _endpoint(row: dict[str, Any]) -> None:
    row["previous_expires_at"] = NOW if row["previous_secret"] else None
    row["disabled_at"] = NOW if row["disabled_reason"] is not None else None


def _dead_letter(row: dict[str, Any]) -> None:
    if row["body"] is None and row["raw"] is None:
        row["raw"] = "{"


def _event(row: dict[str, Any]) -> None:
    row["seq"] = row["seq"] or 1


def _meta(row: dict[str, Any]) -> None:
    row["meta_id"] = 1
    row["oldest_code_version"] = min(row["oldest_code_version"], row["schema_version"])


def _asset(row: dict[str, Any]) -> None:
    if row["current_revision"]:
        row["latest_revision"] = row["current_revision"]
    else:
        row["content_hash"] = None


def _revision(row: dict[str, Any]) -> None:
    row["completed_at"] = None if row["status"] in OPEN_STATUSES else NOW


def _of_asset(row: dict[str, Any]) -> None:
    row["revision"] = 1 if row["asset_id"] else None


def _data_table(row: dict[str, Any]) -> None:
    _of_asset(row)
    row["dropped_at"] = NOW if row["state"] is TableState.DROPPED else None


def _table_place(row: dict[str, Any]) -> None:
    row["version"] = max(1, row["version"])


def _blob(row: dict[str, Any]) -> None:
    _of_asset(row)
    row["deleted_at"] = NOW if row["state"] is BlobState.DELETED else None


def _lineage(row: dict[str, Any]) -> None:
    _of_asset(row)
    row["source_revision"] = 1 if row["source_asset_id"] else None
    row["source_url"] = None if row["source_asset_id"] else "https://example.org/a.tif"


def _entry(row: dict[str, Any]) -> None:
    _of_asset(row)
    row["version"] = row["published_version"] = row["version"] or 1


def _approval(row: dict[str, Any]) -> None:
    row["decided_at"] = None if row["state"] in (ApprovalState.NONE, ApprovalState.PENDING_REVIEW) else NOW


def _service_call(row: dict[str, Any]) -> None:
    row["settled_at"] = None if row["status"] is CallStatus.PENDING else NOW


def _promoted(row: dict[str, Any]) -> None:
    row["classification"] = Classification.PUBLIC


def _unpublishing(row: dict[str, Any]) -> None:
    row["completed_at"] = None if row["status"] is UnpublishingStatus.PENDING else NOW


def _deletion(row: dict[str, Any]) -> None:
    is_open = row["status"] in (DeletionStatus.PENDING, DeletionStatus.DELETING)
    row["settled_at"] = None if is_open else NOW


FITTING: dict[type[Row], Callable[[dict[str, Any]], None]] = {
    Job: _job,
    NodeState: _node,
    JobCommand: _command,
    TaskResult: _result,
    TaskLog: _leased,
    Checkpoint: _leased,
    Payload: _payload,
    QueueMessage: _queued,
    InboxRow: _inbox,
    OutboxRow: _outbox,
    DeadLetter: _dead_letter,
    Callback: _callback,
    CallbackEndpoint: _endpoint,
    JobEvent: _event,
    SchemaMeta: _meta,
    GeospatialAsset: _asset,
    AssetRevision: _revision,
    ApiRequest: _of_asset,
    BlobAsset: _blob,
    DataTable: _data_table,
    TablePlace: _table_place,
    DatasetRef: _lineage,
    Approval: _approval,
    CatalogueEntry: _entry,
    ServiceCall: _service_call,
    PromotedEntry: _promoted,
    Unpublishing: _unpublishing,
    FileDeletion: _deletion,
}


@st.composite
def rows_of(draw: st.DrawFn, model: type[Row]) -> Row:
    values = {column.name: draw(values_of(column)) for column in columns_of(model)}
    if model in FITTING:
        FITTING[model](values)
    return model.model_validate(values)
