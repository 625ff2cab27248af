"""What has happened to a job or a node, oldest first."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from rmhdag.api.context import ApiContext
from rmhdag.api.identity import Reader
from rmhdag.api.job_paths import check_job, check_node
from rmhdag.api.routes.jobs import JobId
from rmhdag.api.routes.nodes import NodeId
from rmhdag.models.api.timeline import Timeline
from rmhdag.models.events import EventType
from rmhdag.views.timeline import timeline

router = APIRouter(prefix="/api/v1/jobs/{job_id}", tags=["timeline"])

Limit = Annotated[int, Query(ge=1, le=1000)]
After = Annotated[int, Query(ge=0, le=2**63 - 1, description="`event_id` of the last event seen")]
EventTypes = Annotated[list[EventType] | None, Query(max_length=50, description="Only these; may be repeated")]


@router.get("/timeline", summary="A job's events")
def job_timeline(
    job_id: JobId,
    caller: Reader,
    api: ApiContext,
    limit: Limit = 100,
    after: After = 0,
    event_types: EventTypes = None,
) -> Timeline:
    """Oldest first, each with a sentence; the summary counts all of them."""
    with api.connection() as conn:
        check_job(conn, caller.namespace, job_id)
        return timeline(conn, job_id, after=after, event_types=event_types or (), limit=limit)


@router.get("/nodes/{node_id}/timeline", summary="A node's events")
def node_timeline(
    job_id: JobId,
    node_id: NodeId,
    caller: Reader,
    api: ApiContext,
    limit: Limit = 100,
    after: After = 0,
    event_types: EventTypes = None,
) -> Timeline:
    """Of one node or one child of a fan-out."""
    with api.connection() as conn:
        check_node(conn, check_job(conn, caller.namespace, job_id), node_id)
        return timeline(conn, job_id, node_id=node_id, after=after, event_types=event_types or (), limit=limit)
