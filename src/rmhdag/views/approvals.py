"""What waits for a person, as it is shown: approval nodes of jobs, and revisions under review."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, NamedTuple

from rmhdag.models.api.approvals import ApprovalKind, WaitingApproval
from rmhdag.models.scopes import Scope
from rmhdag.store.connection import Conn
from rmhdag.views.reviews import ReviewLine, ReviewPlace, read_reviews, read_waiting_nodes


class ApprovalPlace(NamedTuple):
    """Where a page ended. The ids are of a job and its node; or of a review, and nothing."""

    requested_at: datetime
    first_id: str
    second_id: str


class ApprovalLine(NamedTuple):
    place: ApprovalPlace
    view: WaitingApproval


FIRST = ApprovalPlace(datetime(1970, 1, 1, tzinfo=UTC), "", "")


def read_approvals(conn: Conn, namespace: str, *, after: ApprovalPlace | None = None, limit: int) -> list[ApprovalLine]:
    """Longest waiting first; `after` is where the page before ended."""
    place = after or FIRST
    parameters = {"namespace": namespace, "limit": limit, **place._asdict()}
    nodes = [_of_node(row) for row in read_waiting_nodes(conn, parameters)]
    after_review = ReviewPlace(place.requested_at, place.first_id)
    revisions = [_of_revision(line) for line in read_reviews(conn, namespace, after=after_review, limit=limit)]
    return sorted([*nodes, *revisions], key=lambda line: line.place)[:limit]


def _of_node(row: dict[str, Any]) -> ApprovalLine:
    is_reviewed, not_by = row.pop("is_reviewed"), row.pop("not_by")
    command = f"rmhdag decide {row['job_id']} {row['node_id']} approve{' --clearance …' if is_reviewed else ''}"
    view = WaitingApproval(
        **row,
        kind=ApprovalKind.JOB_NODE,
        decide_path=f"/api/v1/jobs/{row['job_id']}/nodes/{row['node_id']}/decide",
        command=command,
        needs_scopes=[Scope.REVIEWER] if is_reviewed else [Scope.OPERATE, Scope.REVIEWER],
        not_by=not_by if is_reviewed else [],
    )
    return ApprovalLine(ApprovalPlace(view.waiting_since, row["job_id"], row["node_id"]), view)


def _of_revision(line: ReviewLine) -> ApprovalLine:
    review = line.view
    view = WaitingApproval(
        kind=ApprovalKind.REVISION,
        job_id=line.job_id,
        node_id=None,
        workflow_id=line.workflow_id,
        submitted_by=review.submitted_by,
        asset_id=review.asset_id,
        revision=review.revision,
        content_hash=review.content_hash,
        platform_id=review.platform_id,
        platform_refs=review.platform_refs,
        message=review.message,
        approvers=[],
        waiting_since=review.waiting_since,
        deadline_at=None,
        decide_path=review.approve_path,
        command=review.command,
        needs_scopes=[Scope.REVIEWER],
        not_by=line.not_by,
    )
    return ApprovalLine(ApprovalPlace(*line.place, ""), view)
