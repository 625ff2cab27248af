"""How workflows have fared: success, durations, failures, throughput."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query
from pydantic import StringConstraints

from rmhdag.api.context import ApiContext
from rmhdag.api.identity import Reader
from rmhdag.api.problems import not_found
from rmhdag.models.api.metrics import (
    FailureMetrics,
    NodeMetricsList,
    RecentRuns,
    ThroughputMetrics,
    WorkflowMetricsList,
)
from rmhdag.store import workflows
from rmhdag.views import metrics as views
from rmhdag.views.recent_runs import recent_runs

router = APIRouter(prefix="/api/v1/metrics", tags=["metrics"])

WORKFLOW_ID = r"^[a-z][a-z0-9_-]{0,63}$"
Days = Annotated[int, Query(ge=1, le=90)]
WorkflowFilter = Annotated[str | None, Query(pattern=WORKFLOW_ID, description="Only this workflow")]


@router.get("/workflows", summary="Success and durations by workflow")
def workflow_metrics(
    caller: Reader, api: ApiContext, days: Days = 7, workflow_id: WorkflowFilter = None
) -> WorkflowMetricsList:
    """Of the jobs that finished in the period."""
    with api.connection() as conn:
        return views.workflow_metrics(conn, caller.namespace, days, workflow_id)


@router.get("/runs", summary="The last jobs of workflows")
def last_runs(
    caller: Reader,
    api: ApiContext,
    workflow_id: Annotated[
        list[Annotated[str, StringConstraints(pattern=WORKFLOW_ID)]],
        Query(min_length=1, max_length=100, description="May be repeated"),
    ],
    last: Annotated[int, Query(ge=1, le=100, description="Jobs of each workflow")] = 20,
) -> RecentRuns:
    """How each of them ended and how long it took, oldest first."""
    with api.connection() as conn:
        return recent_runs(conn, caller.namespace, workflow_id, last)


@router.get("/workflows/{workflow_id}/nodes", summary="Success and durations by node")
def node_metrics(
    workflow_id: Annotated[str, Path(pattern=WORKFLOW_ID)], caller: Reader, api: ApiContext, days: Days = 7
) -> NodeMetricsList:
    """Of the jobs that finished in the period, all versions together; children are counted under their fan-out."""
    with api.connection() as conn:
        figures = views.node_metrics(conn, caller.namespace, workflow_id, days)
        if not figures.nodes and workflows.current_workflow(conn, caller.namespace, workflow_id) is None:
            raise not_found(f"workflow {workflow_id}", remedy="`GET /api/v1/workflows` lists them.")
        return figures


@router.get("/failures", summary="What jobs failed of")
def failure_metrics(
    caller: Reader,
    api: ApiContext,
    days: Days = 7,
    workflow_id: WorkflowFilter = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
) -> FailureMetrics:
    """The same error of the same node is one line, the most frequent first."""
    with api.connection() as conn:
        return views.failure_metrics(conn, caller.namespace, days, limit, workflow_id)


@router.get("/throughput", summary="Jobs completed over time")
def throughput_metrics(
    caller: Reader,
    api: ApiContext,
    hours: Annotated[int, Query(ge=1, le=168)] = 24,
    bucket_minutes: Annotated[int, Query(ge=1, le=1440)] = 60,
) -> ThroughputMetrics:
    """In buckets of equal length, the empty ones too; the last one is not over yet."""
    with api.connection() as conn:
        return views.throughput_metrics(conn, caller.namespace, hours, bucket_minutes)
