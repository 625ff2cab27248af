"""The routes of the platform's older documents, as other names of today's."""

from __future__ import annotations

from fastapi import APIRouter

from rmhdag.api.routes import jobs, nodes
from rmhdag.models.api.jobs import JobView

router = APIRouter(prefix="/api/dag", tags=["legacy"], deprecated=True)

router.add_api_route(
    "/submit",
    jobs.submit_job,
    methods=["POST"],
    status_code=201,
    responses={200: {"model": JobView, **jobs.REPEAT[200]}},
    name="submit_job_by_old_name",
)
router.add_api_route("/jobs/{job_id}", jobs.get_job, methods=["GET"], name="get_job_by_old_name")
router.add_api_route("/jobs/{job_id}/nodes", nodes.get_nodes, methods=["GET"], name="get_nodes_by_old_name")
router.add_api_route(
    "/jobs/{job_id}/cancel", jobs.cancel, methods=["POST"], responses=jobs.COMMAND, name="cancel_by_old_name"
)
