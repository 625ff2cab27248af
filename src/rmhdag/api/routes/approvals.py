"""What waits for a person."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query

from rmhdag.api.context import ApiContext
from rmhdag.api.identity import Caller, ReaderOrReviewer
from rmhdag.api.pages import CursorParameter, read_cursor, write_cursor
from rmhdag.api.routes.jobs import moment
from rmhdag.models.api.approvals import ApprovalPage, WaitingApproval
from rmhdag.views.approvals import ApprovalPlace, read_approvals

router = APIRouter(prefix="/api/v1/approvals", tags=["approvals"])
NAME_CHARACTERS = 128


@router.get("")
def list_approvals(
    caller: ReaderOrReviewer,
    api: ApiContext,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
    cursor: CursorParameter = None,
) -> ApprovalPage:
    """Approvals that wait for a decision, longest first; each says how to decide."""
    with api.connection() as conn:
        lines = read_approvals(conn, caller.namespace, after=read_cursor(cursor, read_place), limit=limit + 1)
    page = lines[:limit]
    place = write_cursor(*page[-1].place) if len(lines) > limit else None
    return ApprovalPage(approvals=[as_seen_by(caller, line.view) for line in page], next_cursor=place)


def as_seen_by(caller: Caller, waiting: WaitingApproval) -> WaitingApproval:
    """With whether the caller may decide: by the same rules as a decision."""
    is_named = not waiting.approvers or caller.name in waiting.approvers
    may_decide = (
        is_named and caller.name not in waiting.not_by and any(caller.may(scope) for scope in waiting.needs_scopes)
    )
    return waiting.model_copy(update={"may_decide": may_decide})


def read_place(requested_at: Any, first_id: Any, second_id: Any) -> ApprovalPlace:
    for name in (first_id, second_id):
        if not isinstance(name, str) or len(name) > NAME_CHARACTERS or "\0" in name:
            raise ValueError(name)
    return ApprovalPlace(moment(requested_at), first_id, second_id)
