"""What travels through queues: a task for a worker, a submission for an orchestrator.

Readers ignore fields they do not know, so that a newer writer may add some; `schema_version` grows only when an older
reader would misunderstand the message, and such a message is refused by name.
"""

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError

from rmhdag.models.columns import (
    Count,
    Id,
    IdempotencyKey,
    InputJsonObject,
    JsonValue,
    LargeJsonObject,
    Name,
    Namespace,
    NodeName,
    Priority,
    Timestamp,
    Url,
)

SCHEMA_VERSION = 1


def _check_schema_version(version: int) -> int:
    if version > SCHEMA_VERSION:
        raise PydanticCustomError(
            "unknown_schema_version",
            "Message has schema_version {version}, this code reads up to {known}: update it before the writers",
            {"version": version, "known": SCHEMA_VERSION},
        )
    return version


SchemaVersion = Annotated[int, Field(ge=1, strict=True), AfterValidator(_check_schema_version)]


class QueuedMessage(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    schema_version: SchemaVersion = SCHEMA_VERSION

    def as_json(self) -> dict[str, Any]:
        return self.model_dump(mode="json")


class SavedCheckpoint(BaseModel):
    """Where a retried task goes on."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    phase: Name
    data: JsonValue = None


class TaskMessage(QueuedMessage):
    """One attempt of a node. It tells what to run; only a claim of its row entitles to run it."""

    task_id: Id
    job_id: Id
    node_id: NodeName
    handler: Name
    params: LargeJsonObject = Field(default_factory=dict)
    timeout_seconds: Annotated[int, Field(ge=1, le=86_400, strict=True)] = 3600
    retry_count: Count = 0
    checkpoint: SavedCheckpoint | None = None
    trace_parent: Name | None = None
    priority: Priority = 0


class JobQueueMessage(QueuedMessage):
    """A submission. `message_id` is the same however often the message is delivered."""

    message_id: Id
    workflow_id: Name
    namespace: Namespace = "default"
    input_params: InputJsonObject = Field(default_factory=dict)
    correlation_id: Id | None = None
    submitted_by: Name
    callback_url: Url | None = None
    idempotency_key: IdempotencyKey | None = None
    priority: Priority = 0
    submitted_at: Timestamp
