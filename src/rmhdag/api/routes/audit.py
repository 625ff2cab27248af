"""The audit trail: of the caller's namespace, or of all of them for the platform's operators."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query

from rmhdag.api.context import ApiContext
from rmhdag.api.identity import NamespaceOrPlatform
from rmhdag.api.pages import CursorParameter, read_cursor, write_cursor
from rmhdag.models.api.audit import AuditPage
from rmhdag.store.audit import NEWEST, list_audit

router = APIRouter(prefix="/api/v1/audit", tags=["audit"])


@router.get("", summary="Who did what")
def read_audit(
    caller: NamespaceOrPlatform,
    api: ApiContext,
    action: Annotated[
        str | None,
        Query(max_length=64, pattern=r"^[a-z_.]+$", description="Only this action, as `key.revoke`, or kind, as `key`"),
    ] = None,
    subject: Annotated[str | None, Query(max_length=400, description="Only what was done to this")] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
    cursor: CursorParameter = None,
) -> AuditPage:
    """Actions on keys, approvals, assets, the catalogue, workflows and the schema, newest first. With the scope
    `platform`, of all namespaces.
    """
    below = read_cursor(cursor, _place)
    with api.connection() as conn:
        lines = list_audit(
            conn,
            caller.sees,
            action=action,
            subject=subject,
            below=NEWEST if below is None else below,
            limit=limit + 1,
        )
    more = write_cursor(lines[limit - 1].seq) if len(lines) > limit else None
    return AuditPage(entries=lines[:limit], next_cursor=more)


def _place(seq: Any) -> int:
    if type(seq) is not int or not 0 <= seq <= NEWEST:
        raise ValueError(seq)
    return seq
