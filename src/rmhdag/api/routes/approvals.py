"""What waits for a person."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query

from rmhdag.api.context import ApiContext
from rmhdag.api.identity import Reader
from rmhdag.api.pages import CursorParameter, read_cursor, write_cursor
from rmhdag.api.routes.jobs import moment
from rmhdag.api.views.approvals import read_approvals
from rmhdag.models.api.approvals import ApprovalPage
from rmhdag.store.approvals import ApprovalPlace

router = APIRouter(prefix="/api/v1/approvals", tags=["approvals"])
NAME_CHARACTERS = 128


@router.get("")
def list_approvals(
    caller: Reader, api: ApiContext, limit: Annotated[int, Query(ge=1, le=500)] = 50, cursor: CursorParameter = None
) -> ApprovalPage:
    """What waits for a person's decision now, longest first; each says how to decide."""
    with api.connection() as conn:
        found = read_approvals(conn, caller.namespace, after=read_cursor(cursor, read_place), limit=limit + 1)
    shown = found[:limit]
    last = shown[-1] if len(found) > limit else None
    place = None if last is None else write_cursor(last.waiting_since, last.job_id, last.node_id)
    return ApprovalPage(approvals=shown, next_cursor=place)


def read_place(requested_at: Any, job_id: Any, node_id: Any) -> ApprovalPlace:
    for name in (job_id, node_id):
        if not isinstance(name, str) or len(name) > NAME_CHARACTERS or "\0" in name:
            raise ValueError(name)
    return ApprovalPlace(moment(requested_at), job_id, node_id)
