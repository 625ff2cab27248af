"""Jobs and nodes that are named in a path, found without reading what they hold."""

from __future__ import annotations

from typing import Any

from rmhdag.api.context import Conn
from rmhdag.api.routes.jobs import is_id, no_job
from rmhdag.api.routes.nodes import no_node
from rmhdag.store import views


def check_job(conn: Conn, namespace: str, job_id: str) -> views.JobHead:
    found = views.job_head(conn, namespace, job_id) if is_id(job_id) else None
    if found is None:
        raise no_job(job_id)
    return found


def check_node(conn: Conn, job: views.JobHead, node_id: str) -> dict[str, Any]:
    """A node or a child, with what its task says of itself."""
    found = views.node_progress(conn, job.job_id, node_id) if is_id(node_id) else None
    if found is None:
        raise no_node(conn, job._asdict(), node_id)
    return found
