"""Keys of the caller's namespace: made, rotated, revoked, and listed without their secrets."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query

from rmhdag.api.context import ApiContext, Conn
from rmhdag.api.identity import Administrator, Caller
from rmhdag.api.pages import CursorParameter, read_cursor, write_cursor
from rmhdag.api.problems import Problem, not_found
from rmhdag.api.quotas import quota_exceeded
from rmhdag.models.api.keys import KeyMade, KeyPage, KeyRequest, KeyView, RotationRequest
from rmhdag.models.scopes import Scope
from rmhdag.store import api_keys, quotas

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
    return KeyPage(keys=[KeyView.model_validate(line._asdict()) for line in lines[:limit]], next_cursor=more)


@router.post("", status_code=201)
def create_key(caller: Administrator, api: ApiContext, request: KeyRequest) -> KeyMade:
    """Make a key. This is the only time that it is shown."""
    check_scopes(caller, frozenset(request.scopes))
    most = api.quotas.limits(caller.namespace).keys
    with api.connection() as conn:
        if (used := quotas.count_keys(conn, caller.namespace)) >= most:
            raise quota_exceeded("keys", most, used)
        made = api_keys.create_key(
            conn,
            request.name,
            frozenset(request.scopes),
            created_by=caller.name,
            namespace=caller.namespace,
            days=default_days(caller) if request.expires_days is None else request.expires_days,
        )
        return show_once(conn, caller.namespace, made)


@router.post("/{key_id}/rotate", status_code=201)
def rotate_key(caller: Administrator, api: ApiContext, key_id: KeyId, request: RotationRequest) -> KeyMade:
    """Make the next key of the same holder. The old one works until the overlap ends."""
    with api.connection() as conn:
        try:
            made = api_keys.rotate_key(
                conn,
                caller.namespace,
                key_id,
                created_by=caller.name,
                overlap_hours=request.overlap_hours,
                days=request.expires_days,
                default_days=default_days(caller),
                allow=lambda scopes: check_scopes(caller, scopes),
            )
        except api_keys.KeyUnknown:
            raise unknown() from None
        except api_keys.NotRotated as error:
            remedy = "Revoke the key that is no longer used, or wait for the end of its overlap."
            raise Problem(409, "not_rotated", str(error), remedy=remedy) from None
        return show_once(conn, caller.namespace, made)


@router.post("/{key_id}/revoke")
def revoke_key(caller: Administrator, api: ApiContext, key_id: KeyId) -> KeyView:
    """End a key or a session at once."""
    with api.connection() as conn:
        try:
            return KeyView.model_validate(
                api_keys.revoke_key(conn, caller.namespace, key_id, revoked_by=caller.name)._asdict()
            )
        except api_keys.KeyUnknown:
            raise unknown() from None


def default_days(caller: Caller) -> float | None:
    """What somebody makes who is only here for hours must not stay for ever."""
    return TEMPORARY_MAKERS_DAYS if caller.is_temporary else None


def check_scopes(caller: Caller, scopes: frozenset[Scope]) -> None:
    """Whoever makes a key could use it: it must not be worth more than their own."""
    lacking = sorted(scope for scope in scopes if not caller.may(scope))
    if lacking:
        raise Problem(
            403,
            "scope_not_yours",
            f"a key cannot be given what its maker does not have: {', '.join(lacking)}",
            remedy="Use a key that has these scopes, or `rmhdag keys create` beside the database.",
        )


def show_once(conn: Conn, namespace: str, made: api_keys.NewKey) -> KeyMade:
    line = api_keys.find_key(conn, namespace, made.key_id)
    return KeyMade.model_validate({**line._asdict(), "key": made.key})


def unknown() -> Problem:
    return not_found("such key", remedy="`GET /api/v1/keys` lists them.")
