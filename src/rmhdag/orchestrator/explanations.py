"""Why is it not running? The engine's answer, from an aggregate that is loaded for reading and never written."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import psycopg

from rmhdag.engine.explain import Explanation, explain
from rmhdag.orchestrator.owned_jobs import OwnedJobs

Conn = psycopg.Connection[Any]
NO_CACHE = 0


def explain_nodes(
    conn: Conn, job_id: str, owner_id: str, handler_queues: dict[str, str], node_ids: Collection[str]
) -> dict[str, Explanation]:
    """Explanations by node; none if the job has changed hands just now."""
    # The rows are read as their owner would read them; nothing that follows is ever committed.
    jobs = OwnedJobs(owner_id, handler_queues, NO_CACHE)
    jobs.load(conn, [job_id])
    job = jobs.get(job_id)
    return {} if job is None else {node_id: explain(job.run, node_id) for node_id in node_ids}
