"""Revisions that wait for a reviewer, as they are shown; and the rows of approval nodes, which follow the same rule."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, NamedTuple

from psycopg.rows import dict_row

from rmhdag.models.api.reviews import ReviewView
from rmhdag.store.connection import Conn
from rmhdag.store.queries import load_queries

SQL = load_queries(__file__)


class ReviewPlace(NamedTuple):
    """Where a page ended."""

    requested_at: datetime
    approval_id: str


FIRST = ReviewPlace(datetime(1970, 1, 1, tzinfo=UTC), "")


class ReviewLine(NamedTuple):
    """`job_id` and `workflow_id` made the revision; None for a rollback. `not_by` must not approve it."""

    place: ReviewPlace
    view: ReviewView
    job_id: str | None
    workflow_id: str | None
    not_by: list[str]


class WaitingCount(NamedTuple):
    namespace: str
    revisions: int
    oldest_seconds: float


def read_reviews(conn: Conn, namespace: str, *, after: ReviewPlace | None = None, limit: int) -> list[ReviewLine]:
    """Longest waiting first; `after` is where the page before ended."""
    parameters = {"namespace": namespace, "limit": limit, **(after or FIRST)._asdict()}
    with conn.cursor(row_factory=dict_row) as cursor:
        return [_line(row) for row in cursor.execute(SQL["waiting_reviews"], parameters)]


def read_waiting_nodes(conn: Conn, parameters: dict[str, Any]) -> list[dict[str, Any]]:
    with conn.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(SQL["waiting_nodes"], parameters).fetchall()


def count_waiting(conn: Conn, namespace: str | None = None) -> list[WaitingCount]:
    """Of one namespace, or of all."""
    return [WaitingCount(*row) for row in conn.execute(SQL["count_waiting"], {"namespace": namespace})]


def _line(row: dict[str, Any]) -> ReviewLine:
    content, revision = row["content_hash"], row["revision"]
    view = ReviewView(
        asset_id=row["asset_id"],
        revision=revision,
        platform_id=row["platform_id"],
        platform_refs=row["platform_refs"],
        kind=row["kind"],
        version_label=row["version_label"],
        content_hash=content,
        submitted_by=row["created_by"],
        message=row["message"],
        waiting_since=row["requested_at"],
        served_revision=row["current_revision"],
        approve_path=f"/api/v1/assets/{row['asset_id']}/revisions/{revision}/approve",
        command=f"rmhdag asset approve {row['asset_id']} --revision {revision} --content {content[:16]} --clearance …",
    )
    place = ReviewPlace(row["requested_at"], row["approval_id"])
    return ReviewLine(place, view, row["job_id"], row["workflow_id"], row["not_by"])
