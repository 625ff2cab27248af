"""What waits for a person: approvals of jobs under way, in the order in which they were asked for."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, NamedTuple

import psycopg

from rmhdag.store.queries import load_queries

SQL = load_queries(__file__)
Conn = psycopg.Connection[Any]


class ApprovalPlace(NamedTuple):
    """Where a page ended."""

    requested_at: datetime
    job_id: str
    node_id: str


class WaitingLine(NamedTuple):
    job_id: str
    node_id: str
    workflow_id: str
    submitted_by: str
    message: str | None
    approvers: list[str]
    requested_at: datetime
    deadline_at: datetime | None


FIRST = ApprovalPlace(datetime(1970, 1, 1, tzinfo=UTC), "", "")


def waiting_approvals(
    conn: Conn, namespace: str, *, after: ApprovalPlace | None = None, limit: int
) -> list[WaitingLine]:
    """Longest waiting first; `after` is where the page before ended."""
    given = {"namespace": namespace, "limit": limit, **(after or FIRST)._asdict()}
    return [WaitingLine(*row) for row in conn.execute(SQL["waiting"], given).fetchall()]
