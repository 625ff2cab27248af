"""How far a job or one of its nodes is."""

from __future__ import annotations

from fastapi import APIRouter

from rmhdag.api.context import ApiContext
from rmhdag.api.identity import Reader
from rmhdag.api.job_paths import check_job, check_node
from rmhdag.api.routes.jobs import JobId
from rmhdag.api.routes.nodes import NodeId
from rmhdag.models.api.progress import JobProgress, NodeProgress
from rmhdag.views import progress

router = APIRouter(prefix="/api/v1/jobs/{job_id}", tags=["progress"])


@router.get("/progress", summary="How far a job is")
def job_progress(job_id: JobId, caller: Reader, api: ApiContext) -> JobProgress:
    """The percentage never goes back; the end is estimated from earlier jobs of the workflow."""
    with api.connection() as conn:
        return progress.job_progress(conn, check_job(conn, caller.namespace, job_id))


@router.get("/nodes/{node_id}/progress", summary="How far a node is")
def node_progress(job_id: JobId, node_id: NodeId, caller: Reader, api: ApiContext) -> NodeProgress:
    """With what its task says of itself, and its last checkpoint."""
    with api.connection() as conn:
        job = check_job(conn, caller.namespace, job_id)
        return progress.node_progress(conn, job, check_node(conn, job, node_id))
