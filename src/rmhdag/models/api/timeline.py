"""The timeline of a job or of one of its nodes."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pydantic import Field

from rmhdag.models.api.api_model import ApiModel
from rmhdag.models.api.event_messages import message
from rmhdag.models.events import EventStatus, EventType


class TimelineEvent(ApiModel):
    event_id: int = Field(description="The event's number in its job; `after` takes it")
    timestamp: datetime
    event_type: EventType
    node_id: str | None
    task_id: str | None
    status: EventStatus
    message: str = Field(description="What happened, in a sentence")
    duration_ms: int | None
    data: dict[str, Any]
    error_message: str | None = None
    source_app: str | None = Field(
        default=None, description="The process that recorded it; not included in live streams"
    )


class StreamedEvent(TimelineEvent):
    """An event as live streams tell it."""

    job_id: str


class TimelineSummary(ApiModel):
    """Over all events, whatever the page shows."""

    total_events: int
    first_event: datetime | None
    last_event: datetime | None
    duration_seconds: float | None
    event_counts: dict[EventType, int]
    nodes_with_retries: list[str] = Field(description="At most 100, in the order of their ids")


class Timeline(ApiModel):
    job_id: str
    node_id: str | None = None
    summary: TimelineSummary
    events: list[TimelineEvent]
    next_after: int | None = Field(description="`after` of the next page; null on the last one")


def event_fields(row: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a `TimelineEvent` from a row of `dag_job_events`. Live streams write them as they are: thousands of
    events pass there per second, and to build models of what our own table says would take most of that time.
    """
    return {
        "event_id": row["seq"],
        "timestamp": row["created_at"],
        "event_type": row["event_type"],
        "node_id": row["node_id"],
        "task_id": row["task_id"],
        "status": row["event_status"],
        "message": message(row["event_type"], row["node_id"], row["event_data"], row["error_message"]),
        "duration_ms": row["duration_ms"],
        "data": row["event_data"],
        "error_message": row["error_message"],
    }


def read_event(row: Mapping[str, Any]) -> TimelineEvent:
    return TimelineEvent(**event_fields(row), source_app=row.get("source_app"))
