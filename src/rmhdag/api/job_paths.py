"""Jobs and nodes that are named in a path, found without reading what they hold."""

from __future__ import annotations

import re

from rmhdag.api.problems import not_found
from rmhdag.models.refusals import Refusal
from rmhdag.services.reruns import UnknownJobError
from rmhdag.store.connection import Conn
from rmhdag.views.jobs import JobHead, find_head
from rmhdag.views.nodes import kinds_of
from rmhdag.views.progress import SeenNode, find_node
from rmhdag.workflow.problems import did_you_mean

AN_ID = re.compile(r"[0-9A-Za-z_.-]{1,64}")


def is_id(text: str) -> bool:
    return AN_ID.fullmatch(text) is not None


def check_job(conn: Conn, namespace: str, job_id: str) -> JobHead:
    job = find_head(conn, namespace, job_id) if is_id(job_id) else None
    if job is None:
        raise UnknownJobError(job_id)
    return job


def check_node(conn: Conn, job: JobHead, node_id: str) -> SeenNode:
    """A node or a child, with what its task says of itself."""
    node = find_node(conn, job.job_id, node_id) if is_id(node_id) else None
    if node is None:
        raise no_node(conn, job, node_id)
    return node


def no_node(conn: Conn, job: JobHead, node_id: str) -> Refusal:
    node_ids = kinds_of(conn, job).node_ids()
    return not_found(f"node {node_id!r} in job {job.job_id}", remedy=did_you_mean(node_id, node_ids))
