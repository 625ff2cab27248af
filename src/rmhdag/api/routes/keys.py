"""Keys of the caller's namespace: made, rotated, revoked, and listed without their secrets."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query

from rmhdag.api.context import ApiContext
from rmhdag.api.identity import Administrator, Caller
from rmhdag.api.pages import CursorParameter, read_cursor, write_cursor
from rmhdag.api.quotas import quota_exceeded
from rmhdag.models.api.keys import KeyMade, KeyPage, KeyRequest, KeyView, RotationRequest
from rmhdag.models.refusals import Kind, Refusal
from rmhdag.models.scopes import Scope
from rmhdag.store import api_keys, quotas
from rmhdag.store.connection import Conn

router = APIRouter(prefix="/api/v1/keys", tags=["keys"])

TEMPORARY_MAKERS_DAYS = 90.0
KeyId = Annotated[str, Path(max_length=64, pattern=r"^[0-9a-f]+$")]


@router.get("")
def list_keys(
    caller: Administrator,
    api: ApiContext,
    dead_too: Annotated[bool, Query(description="Also those that are revoked or have expired")] = False,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
    cursor: CursorParameter = None,
) -> KeyPage:
    """List the keys and sessions of the namespace."""
    after = read_cursor(cursor, str) or ""
    with api.connection() as conn:
        lines = api_keys.list_keys(conn, caller.namespace, dead_too=dead_too, after=after, limit=limit + 1)
    more = write_cursor(lines[limit - 1].key_id) if len(lines) > limit else None
    return KeyPage(keys=lines[:limit], next_cursor=more)


@router.post("", status_code=201)
def create_key(caller: Administrator, api: ApiContext, request: KeyRequest) -> KeyMade:
    """Create a key. It is shown only now."""
    check_scopes(caller, frozenset(request.scopes))
    max_priority = caller.max_priority if request.max_priority is None else request.max_priority
    check_priority(caller, max_priority)
    most = api.quotas.limits(caller.namespace).keys
    with api.connection() as conn, conn.transaction():
        quotas.hold_additions(conn, caller.namespace)
        if (used := quotas.count_keys(conn, caller.namespace)) >= most:
            raise quota_exceeded("keys", most, used)
        key = api_keys.create_key(
            conn,
            request.name,
            frozenset(request.scopes),
            created_by=caller.name,
            namespace=caller.namespace,
            days=default_days(caller) if request.expires_days is None else request.expires_days,
            max_priority=max_priority,
        )
        return show_once(conn, caller.namespace, key)


@router.post("/{key_id}/rotate", status_code=201)
def rotate_key(caller: Administrator, api: ApiContext, key_id: KeyId, request: RotationRequest) -> KeyMade:
    """Create the next key of the same owner. The old one works until the overlap ends."""
    with api.connection() as conn:
        key = api_keys.rotate_key(
            conn,
            caller.namespace,
            key_id,
            created_by=caller.name,
            overlap_hours=request.overlap_hours,
            days=request.expires_days,
            default_days=default_days(caller),
            allow=lambda scopes, max_priority: check_worth(caller, scopes, max_priority),
        )
        return show_once(conn, caller.namespace, key)


@router.post("/{key_id}/revoke")
def revoke_key(caller: Administrator, api: ApiContext, key_id: KeyId) -> KeyView:
    """Revoke a key or a session immediately."""
    with api.connection() as conn:
        return api_keys.revoke_key(conn, caller.namespace, key_id, revoked_by=caller.name)


def default_days(caller: Caller) -> float | None:
    """What somebody makes who is only here for hours must not stay for ever."""
    return TEMPORARY_MAKERS_DAYS if caller.is_temporary else None


def check_worth(caller: Caller, scopes: frozenset[Scope], max_priority: int | None) -> None:
    check_scopes(caller, scopes)
    check_priority(caller, max_priority)


def check_priority(caller: Caller, max_priority: int | None) -> None:
    if caller.max_priority is not None and (max_priority is None or max_priority > caller.max_priority):
        raise Refusal(
            Kind.FORBIDDEN,
            "priority_not_yours",
            f"a key cannot be given a higher priority than its maker's, which is {caller.max_priority}",
            remedy="Use a key without this limit, or run `rmhdag keys create` on the machine of the platform.",
        )


def check_scopes(caller: Caller, scopes: frozenset[Scope]) -> None:
    """The creator of a key can use it, so it must not allow more than the creator's own key."""
    lacking = sorted(scope for scope in scopes if not caller.may(scope))
    if lacking:
        raise Refusal(
            Kind.FORBIDDEN,
            "scope_not_yours",
            f"a key cannot be given what its maker does not have: {', '.join(lacking)}",
            remedy="Use a key that has these scopes, or run `rmhdag keys create` on the machine of the platform.",
        )


def show_once(conn: Conn, namespace: str, key: api_keys.NewKey) -> KeyMade:
    return KeyMade(**api_keys.find_key(conn, namespace, key.key_id).__dict__, key=key.key)
