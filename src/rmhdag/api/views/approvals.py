"""What waits for a person, as it is shown."""

from __future__ import annotations

from typing import Any

import psycopg

from rmhdag.models.api.approvals import ApprovalKind, WaitingApproval
from rmhdag.store.approvals import ApprovalPlace, waiting_approvals

Conn = psycopg.Connection[Any]


def read_approvals(
    conn: Conn, namespace: str, *, after: ApprovalPlace | None = None, limit: int
) -> list[WaitingApproval]:
    """Longest waiting first."""
    return [
        WaitingApproval(
            kind=ApprovalKind.JOB_NODE,
            job_id=line.job_id,
            node_id=line.node_id,
            workflow_id=line.workflow_id,
            submitted_by=line.submitted_by,
            message=line.message,
            approvers=line.approvers,
            waiting_since=line.requested_at,
            deadline_at=line.deadline_at,
            decide_path=f"/api/v1/jobs/{line.job_id}/nodes/{line.node_id}/decide",
            command=f"rmhdag decide {line.job_id} {line.node_id} approve",
        )
        for line in waiting_approvals(conn, namespace, after=after, limit=limit)
    ]
