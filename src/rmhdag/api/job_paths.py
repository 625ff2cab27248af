"""Jobs and nodes that are named in a path: their shape, and whether the caller's namespace has them."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path

from rmhdag.api.context import Conn
from rmhdag.api.problems import not_found
from rmhdag.store import views

JobIdParameter = Annotated[str, Path(pattern=r"^[0-9a-zA-Z_-]{1,64}$", description="The whole id")]
NodeIdParameter = Annotated[
    str, Path(pattern=r"^[0-9a-zA-Z_-]{1,64}$", description="A node, or a child of a fan-out: `split__17`")
]


def check_job(conn: Conn, namespace: str, job_id: str) -> views.JobHead:
    """The same answer for a job that does not exist and for one of another namespace."""
    found = views.job_head(conn, namespace, job_id)
    if found is None:
        raise not_found(f"job {job_id}", remedy="`GET /api/v1/jobs` lists the jobs of your namespace.")
    return found


def check_node(conn: Conn, job: views.JobHead, node_id: str) -> dict[str, Any]:
    """A node or a child of a job that was found, with what its task says of itself."""
    found = views.node_progress(conn, job.job_id, node_id)
    if found is None:
        remedy = f"`GET /api/v1/jobs/{job.job_id}/nodes` lists them."
        raise not_found(f"node {node_id} in job {job.job_id}", remedy=remedy)
    return found
