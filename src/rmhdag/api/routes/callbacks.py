"""Callbacks: their outcomes, and sending one again."""

from __future__ import annotations

import re
from typing import Annotated

from fastapi import APIRouter, Path, Query

from rmhdag.api.context import ApiContext
from rmhdag.api.identity import Operator, Reader
from rmhdag.api.pages import CursorParameter, read_cursor, write_cursor
from rmhdag.api.problems import not_found
from rmhdag.models.api.callbacks import CallbackPage, CallbackView
from rmhdag.models.callbacks import CallbackStatus
from rmhdag.models.columns import Id, Url
from rmhdag.models.refusals import Kind, Refusal
from rmhdag.store import callback_endpoints, callbacks

router = APIRouter(prefix="/api/v1", tags=["callbacks"])

AN_ID = re.compile(r"[0-9a-f]{32}")
CallbackId = Annotated[str, Path(description="The id of a callback", examples=["01983f5e7c8b7d3a9f20c4de51b6a7e8"])]
Limit = Annotated[int, Query(ge=1, le=500)]


@router.get("/callbacks")
def list_callbacks(
    api: ApiContext,
    caller: Reader,
    status: Annotated[CallbackStatus | None, Query()] = None,
    job_id: Annotated[Id | None, Query()] = None,
    endpoint_url: Annotated[Url | None, Query(description="Without query")] = None,
    limit: Limit = 50,
    cursor: CursorParameter = None,
) -> CallbackPage:
    """Callbacks, the newest first."""
    with api.connection() as conn:
        lines = callbacks.list_callbacks(
            conn,
            caller.namespace,
            before=read_cursor(cursor, checked_id),
            status=status,
            job_id=job_id,
            endpoint_url=endpoint_url,
            limit=limit + 1,
        )
    page = lines[:limit]
    return CallbackPage(
        callbacks=page,
        next_cursor=write_cursor(page[-1].callback_id) if len(lines) > limit else None,
    )


@router.get("/callbacks/{callback_id}")
def read_callback(callback_id: CallbackId, api: ApiContext, caller: Reader) -> CallbackView:
    """One callback, with the outcome of its last try."""
    with api.connection() as conn:
        callback = (
            callbacks.find_callback(conn, caller.namespace, callback_id) if AN_ID.fullmatch(callback_id) else None
        )
    if callback is None:
        raise unknown(callback_id)
    return callback


@router.post("/callbacks/{callback_id}/redeliver")
def redeliver_callback(callback_id: CallbackId, api: ApiContext, caller: Operator) -> CallbackView:
    """Send it again, whatever its outcome: with the same id and body, and the schedule from its beginning."""
    if not AN_ID.fullmatch(callback_id):
        raise unknown(callback_id)
    with api.connection() as conn:
        callback = callbacks.find_callback(conn, caller.namespace, callback_id)
        if callback is None:
            raise unknown(callback_id)
        endpoint = callback_endpoints.find_by_url(conn, caller.namespace, callback.endpoint_url)
        if endpoint is not None and endpoint.disabled_at is not None:
            raise Refusal(
                Kind.CONFLICT,
                "endpoint_disabled",
                f"nothing is sent to this endpoint: {endpoint.disabled_reason}",
                remedy=f"Enable it first: POST /api/v1/callback-endpoints/{endpoint.endpoint_id}/enable.",
            )
        callbacks.redeliver(conn, caller.namespace, callback_id, caller.name)
        again = callbacks.find_callback(conn, caller.namespace, callback_id)
    if again is None:  # pruned with its job at this moment
        raise unknown(callback_id)
    return again


def checked_id(text: str) -> str:
    if not AN_ID.fullmatch(text):
        raise ValueError(text)
    return text


def unknown(callback_id: str) -> Refusal:
    return not_found(f"callback {callback_id!r}", remedy="GET /api/v1/callbacks lists them.")
