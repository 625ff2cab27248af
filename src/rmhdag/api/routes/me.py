"""What the caller's key allows, and the next key of a partner."""

from __future__ import annotations

from fastapi import APIRouter

from rmhdag.api.context import ApiContext
from rmhdag.api.identity import Holder, Partner
from rmhdag.api.problems import Problem
from rmhdag.api.routes.keys import check_worth, default_days, show_once
from rmhdag.models.api.keys import KeyMade, Me, RotationRequest
from rmhdag.store import api_keys

router = APIRouter(prefix="/api/v1", tags=["keys"])


@router.get("/me")
def me(caller: Holder) -> Me:
    """Who the caller is."""
    return Me(
        name=caller.name,
        namespace=caller.namespace,
        scopes=sorted(caller.scopes),
        key_id=caller.key_id,
        max_priority=caller.max_priority,
    )


@router.post("/me/key/rotate", status_code=201)
def rotate_own_key(caller: Partner, api: ApiContext, request: RotationRequest) -> KeyMade:
    """Create the next key of the caller. The old one works until the overlap ends."""
    if caller.key_id is None or caller.is_temporary:
        raise Problem(409, "not_a_key", "only a caller with an API key has a key to rotate")
    with api.connection() as conn:
        key = api_keys.rotate_key(
            conn,
            caller.namespace,
            caller.key_id,
            created_by=caller.name,
            overlap_hours=request.overlap_hours,
            days=request.expires_days,
            default_days=default_days(caller),
            allow=lambda scopes, max_priority: check_worth(caller, scopes, max_priority),
        )
        return show_once(conn, caller.namespace, key)
