"""Decisions about the content of revisions: approve, reject, revoke, make public; and what waits for them."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query

from rmhdag.api.context import ApiContext
from rmhdag.api.identity import Caller, ReaderOrReviewer, Reviewer
from rmhdag.api.pages import CursorParameter, read_cursor, write_cursor
from rmhdag.api.problems import not_found
from rmhdag.api.routes.assets import AN_ID, AssetName, RevisionName
from rmhdag.api.routes.jobs import moment, plain
from rmhdag.models.api.reviews import (
    Approval,
    ClearanceChange,
    DecisionView,
    Rejection,
    ReviewPage,
    Revocation,
)
from rmhdag.services.reviews import Decided, approve, clear, reject, revoke
from rmhdag.store.batch_rows import RevisionKey
from rmhdag.views.reviews import ReviewPlace, read_reviews

router = APIRouter(prefix="/api/v1", tags=["reviews"])
DECISIONS = "/assets/{asset_id}/revisions/{revision}"


@router.get("/reviews")
def list_reviews(
    caller: ReaderOrReviewer,
    api: ApiContext,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
    cursor: CursorParameter = None,
) -> ReviewPage:
    """Revisions that wait for a reviewer, longest first; each says how to decide."""
    with api.connection() as conn:
        lines = read_reviews(conn, caller.namespace, after=read_cursor(cursor, read_place), limit=limit + 1)
    page = [line.view for line in lines[:limit]]
    last = lines[limit - 1].place if len(lines) > limit else None
    return ReviewPage(reviews=page, next_cursor=None if last is None else write_cursor(*last))


@router.post(f"{DECISIONS}/approve")
def approve_revision(
    asset_id: AssetName, revision: RevisionName, body: Approval, caller: Reviewer, api: ApiContext
) -> DecisionView:
    """Approve a revision: it is served from now on. 409 if it does not wait for a review, or has other content."""
    with api.connection() as conn:
        decided = approve(
            conn,
            _key(caller, asset_id, revision),
            content_hash=body.content_hash,
            issued_by=caller.name,
            clearance=body.clearance,
            reason=body.reason,
        )
    return _view(decided)


@router.post(f"{DECISIONS}/reject")
def reject_revision(
    asset_id: AssetName, revision: RevisionName, body: Rejection, caller: Reviewer, api: ApiContext
) -> DecisionView:
    """Reject a revision: it is never served. 409 if it does not wait for a review, or has other content."""
    with api.connection() as conn:
        key = _key(caller, asset_id, revision)
        decided = reject(conn, key, content_hash=body.content_hash, issued_by=caller.name, reason=body.reason)
    return _view(decided)


@router.post(f"{DECISIONS}/revoke")
def revoke_revision(
    asset_id: AssetName, revision: RevisionName, body: Revocation, caller: Reviewer, api: ApiContext
) -> DecisionView:
    """Take an approval back: the newest revision that is still approved is served again, or none. 409 if it is not
    approved, or has other content.
    """
    with api.connection() as conn:
        key = _key(caller, asset_id, revision)
        decided = revoke(conn, key, content_hash=body.content_hash, issued_by=caller.name, reason=body.reason)
    return _view(decided)


@router.post(f"{DECISIONS}/clear")
def clear_revision(
    asset_id: AssetName, revision: RevisionName, body: ClearanceChange, caller: Reviewer, api: ApiContext
) -> DecisionView:
    """Make approved content public that was restricted. 409 if it is not approved, or public already."""
    with api.connection() as conn:
        decided = clear(
            conn,
            _key(caller, asset_id, revision),
            content_hash=body.content_hash,
            issued_by=caller.name,
            reason=body.reason,
            clearance=body.clearance,
        )
    return _view(decided)


def _key(caller: Caller, asset_id: str, revision: int) -> RevisionKey:
    if not AN_ID.fullmatch(asset_id):
        raise not_found(f"asset {asset_id!r}", remedy="`GET /api/v1/assets` lists them.")
    return RevisionKey(caller.namespace, asset_id, revision)


def _view(decided: Decided) -> DecisionView:
    return DecisionView(
        asset_id=decided.key.asset_id,
        revision=decided.key.revision,
        review_state=decided.state,
        clearance=decided.clearance,
        served_revision=decided.served,
        notices=list(decided.notices),
    )


def read_place(requested_at: Any, approval_id: Any) -> ReviewPlace:
    return ReviewPlace(moment(requested_at), plain(approval_id))
