"""An older set of models: today's, minus what later versions are imagined to have added or changed."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Annotated, Any

from pydantic import create_model

from rmhdag.models.columns import varchar
from rmhdag.models.events import EventType
from rmhdag.models.history import JobEvent
from rmhdag.models.jobs import Job, NodeState
from rmhdag.models.queues import DeadLetter, QueueMessage
from rmhdag.models.rows import ROWS
from rmhdag.models.states import NodeStatus
from rmhdag.models.table import Check, Index, Row, Table
from rmhdag.models.tasks import Checkpoint, TaskLog


def changed(
    model: type[Row], *, without: Iterable[str] = (), types: Mapping[str, Any] | None = None, table: Table | None = None
) -> type[Row]:
    """A model of the same name and table, with fewer columns or other types."""
    given = types or {}
    fields: dict[str, Any] = {}
    for name, info in model.model_fields.items():
        if name not in without:
            fields[name] = (given.get(name, model.__annotations__[name]), info)
    made: type[Row] = create_model(model.__name__, __base__=Row, __module__=model.__module__, **fields)
    made.table = table or model.table
    return made


def reduced(
    table: Table,
    *,
    indexes: Iterable[str] = (),
    checks: Iterable[str] = (),
    other_indexes: Mapping[str, Index] | None = None,
    other_checks: Mapping[str, Check] | None = None,
    storage: dict[str, str] | None = None,
) -> Table:
    """The table without the named indexes and checks, and with some of them otherwise."""
    kept_indexes = [
        (other_indexes or {}).get(index.name, index) for index in table.indexes if index.name not in indexes
    ]
    kept_checks = [(other_checks or {}).get(check.name, check) for check in table.checks if check.name not in checks]
    return replace(
        table,
        indexes=tuple(kept_indexes),
        checks=tuple(kept_checks),
        storage=table.storage if storage is None else storage,
    )


def fewer(enum: type[StrEnum], *missing: str) -> Any:
    """The enum type without some labels; typed loosely, because a made class is no type to a checker."""
    return StrEnum(enum.__name__, {member.name: member.value for member in enum if member.value not in missing})


OlderNodeStatus = fewer(NodeStatus, "skipped", "cancelled")
OlderEventType = fewer(EventType, "job_created", "node_lost", "orchestrator_backpressure")

OLDER_JOB = changed(
    Job,
    without=("depth", "request_id", "updated_at"),
    types={"correlation_id": Annotated[str, varchar(32)] | None},
    table=reduced(
        Job.table,
        indexes=("idempotency", "request", "list"),
        checks=("depth_range", "priority_range"),
        other_indexes={"owned": Index("owned", ("owner_id",), where="status = 'running'")},
        other_checks={"parent_whole": Check("parent_whole", "parent_job_id IS NULL OR parent_node_id IS NOT NULL")},
        storage={"fillfactor": "100"},
    ),
)
OLDER_NODE = changed(
    NodeState,
    types={"status": OlderNodeStatus},
    table=reduced(
        NodeState.table,
        other_checks={
            "terminal_has_end": Check(
                "terminal_has_end", "(status IN ('completed', 'failed')) = (completed_at IS NOT NULL)"
            )
        },
    ),
)
OLDER_EVENT = changed(
    JobEvent,
    without=("namespace", "transaction_id"),
    types={"event_type": OlderEventType},
    table=reduced(JobEvent.table, indexes=("arrival",), checks=("seq_positive",), storage={}),
)
OLDER_QUEUE = changed(QueueMessage, without=("created_at", "concurrency_key"))

_REPLACED = {Job: OLDER_JOB, NodeState: OLDER_NODE, JobEvent: OLDER_EVENT, QueueMessage: OLDER_QUEUE}
_NOT_YET = (DeadLetter, Checkpoint, TaskLog)

OLDER_ROWS = tuple(_REPLACED.get(row, row) for row in ROWS if row not in _NOT_YET)
