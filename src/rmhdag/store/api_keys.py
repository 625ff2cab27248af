"""Keys of callers: `rmhdag_<key id>_<secret>`. The secret is shown once; only its hash is kept.

The tokens of login links and the sessions of browsers are rows of the same table and another kind, so that none of them
opens what another is for.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Collection
from typing import Any, NamedTuple

import orjson

from rmhdag.models.api.keys import KeyView
from rmhdag.models.refusals import Kind, Refusal
from rmhdag.models.registry import KeyKind
from rmhdag.models.scopes import Scope
from rmhdag.store.audit import add_audit
from rmhdag.store.connection import Conn
from rmhdag.store.queries import load_queries
from rmhdag.store.reading import read_all, read_one

SQL = load_queries(__file__)

PREFIX = "rmhdag_"
SHAPE = re.compile(r"rmhdag_([0-9a-f]{16})_([A-Za-z0-9_-]{43})")
LOGIN_DAYS = 10 / (24 * 60)
SESSION_DAYS = 0.5
# With none of these there is nothing that the web interface could show.
PEOPLE = frozenset({Scope.READ, Scope.REVIEWER, Scope.ADMIN})


class KeyRefused(Exception):
    """The key does not open anything: unknown, wrong, revoked or expired."""


class KeyUnknown(Refusal):
    """There is no such key in the namespace."""

    def __init__(self) -> None:
        super().__init__(Kind.NOT_FOUND, "not_found", "there is no such key", remedy="`GET /api/v1/keys` lists them.")


class NotRotated(Refusal):
    """The key is not live, or it is not alone."""

    def __init__(self, message: str) -> None:
        remedy = "Revoke the key that is no longer used, or wait for the end of its overlap."
        super().__init__(Kind.CONFLICT, "not_rotated", message, remedy=remedy)


class KeyHolder(NamedTuple):
    key_id: str
    namespace: str
    name: str
    scopes: frozenset[Scope]
    max_priority: int | None


class NewKey(NamedTuple):
    """`key` is the whole key: nobody will ever see it again."""

    key_id: str
    key: str


def verify_key(conn: Conn, text: str, kind: KeyKind = KeyKind.KEY) -> KeyHolder:
    """Who holds this key, by one read of an index. Whatever is wrong with it takes the same way and the same words."""
    shape = SHAPE.fullmatch(text)
    row = None if shape is None else conn.execute(SQL["find_key"], {"key_id": shape[1], "kind": kind}).fetchone()
    if shape is None or row is None:
        raise KeyRefused("the key is not known")
    key_id, namespace, name, secret_hash, scopes, max_priority, revoked, expired, is_long_unused = row
    if not hmac.compare_digest(secret_hash, hash_secret(shape[2])) or revoked:
        raise KeyRefused("the key is not known")
    if expired:
        raise KeyRefused("the key has expired")
    if is_long_unused:
        conn.execute(SQL["note_use"], {"key_id": key_id})
    return KeyHolder(key_id, namespace, name, frozenset(Scope(scope) for scope in scopes), max_priority)


def find_dead(conn: Conn, key_ids: Collection[str]) -> list[str]:
    """Those of them that are revoked or have expired."""
    return [row[0] for row in conn.execute(SQL["find_dead"], {"key_ids": list(key_ids)})]


def key_id_in(text: str) -> str | None:
    """What may be logged of a key."""
    shape = SHAPE.fullmatch(text)
    return None if shape is None else shape[1]


def create_key(
    conn: Conn,
    name: str,
    scopes: Collection[Scope],
    *,
    created_by: str,
    namespace: str = "default",
    days: float | None = None,
    max_priority: int | None = None,
    rotated_from: str | None = None,
    kind: KeyKind = KeyKind.KEY,
) -> NewKey:
    key_id, secret = secrets.token_hex(8), secrets.token_urlsafe(32)
    values = {
        "key_id": key_id,
        "namespace": namespace,
        "name": name,
        "secret_hash": hash_secret(secret),
        "kind": kind,
        "scopes": orjson.dumps(sorted(scopes)).decode(),
        "max_priority": max_priority,
        "rotated_from": rotated_from,
        "created_by": created_by,
        "days": days,
    }
    with conn.transaction():
        conn.execute(SQL["insert_key"], values)
        if kind is KeyKind.KEY:
            action = "key.create" if rotated_from is None else "key.rotate"
            details = {"name": name, "scopes": sorted(scopes), "days": days, "max_priority": max_priority}
            before = {} if rotated_from is None else {"key_id": rotated_from}
            add_audit(conn, namespace, created_by, action, f"key {key_id}", before=before, after=details)
    return NewKey(key_id, f"{PREFIX}{key_id}_{secret}")


def list_keys(conn: Conn, namespace: str, *, dead_too: bool = False, after: str = "", limit: int) -> list[KeyView]:
    values = {"namespace": namespace, "key_id": None, "dead_too": dead_too, "after": after, "limit": limit}
    return read_all(conn, KeyView, SQL["list_keys"], values)


def find_key(conn: Conn, namespace: str, key_id: str) -> KeyView:
    values = {"namespace": namespace, "key_id": key_id, "dead_too": True, "after": "", "limit": 1}
    key = read_one(conn, KeyView, SQL["list_keys"], values)
    if key is None:
        raise KeyUnknown
    return key


def rotate_key(
    conn: Conn,
    namespace: str,
    key_id: str,
    *,
    created_by: str,
    overlap_hours: float,
    days: float | None = None,
    default_days: float | None = None,
    allow: Callable[[frozenset[Scope], int | None], None] = lambda scopes, max_priority: None,
) -> NewKey:
    """A new key for the same holder; the old one lives on until the overlap ends. Without `days` the new one lives as
    long as the old one was meant to, or `default_days` if that had no end. `allow` sees the scopes and
    the highest priority first, and raises if they are not to be handed on.
    """
    with conn.transaction():
        row = conn.execute(SQL["lock_key"], {"key_id": key_id, "namespace": namespace}).fetchone()
        if row is None:
            raise KeyUnknown
        name, scopes, max_priority, live, days_before = row
        allow(frozenset(map(Scope, scopes)), max_priority)
        if not live:
            raise NotRotated(f"key {key_id} is revoked or has expired")
        twin = conn.execute(SQL["live_twin"], {"key_id": key_id}).fetchone()
        if twin is not None:
            raise NotRotated(f"two keys of {name} are live already: {key_id} and {twin[0]}")
        new_key = create_key(
            conn,
            name,
            [Scope(scope) for scope in scopes],
            created_by=created_by,
            namespace=namespace,
            days=next((count for count in (days, days_before) if count is not None), default_days),
            max_priority=max_priority,
            rotated_from=key_id,
        )
        conn.execute(SQL["end_after"], {"key_id": key_id, "hours": overlap_hours})
    return new_key


def revoke_key(conn: Conn, namespace: str, key_id: str, *, revoked_by: str) -> KeyView:
    """At once: every call reads the row. Revoking twice is no error, and the first time counts."""
    values = {"key_id": key_id, "namespace": namespace, "revoked_by": revoked_by}
    with conn.transaction():
        revoked = conn.execute(SQL["revoke_key_if_live"], values).rowcount > 0
        line = find_key(conn, namespace, key_id)
        if revoked:
            before = {"name": line.name, "kind": line.kind, "scopes": line.scopes}
            add_audit(conn, namespace, revoked_by, "key.revoke", f"key {key_id}", before=before)
    return line


def create_login(conn: Conn, name: str, scopes: Collection[Scope], *, created_by: str, namespace: str) -> str:
    """The token of a link that opens one session, once, within ten minutes. Those that are long over are forgotten."""
    conn.execute(SQL["forget_logins"])
    values: dict[str, Any] = {"created_by": created_by, "namespace": namespace, "days": LOGIN_DAYS}
    return create_key(conn, name, scopes, kind=KeyKind.LOGIN, **values).key


def open_session(conn: Conn, token: str) -> str:
    """The session that the token of a link is good for; the token is used up by it."""
    shape = SHAPE.fullmatch(token)
    if shape is None:
        raise KeyRefused("the link is not valid")
    with conn.transaction():
        values = {"key_id": shape[1], "secret_hash": hash_secret(shape[2])}
        row = conn.execute(SQL["use_login_if_fresh"], values).fetchone()
        if row is None:
            raise KeyRefused("the link is not valid")
        namespace, name, scopes, created_by = row
        return create_key(
            conn,
            name,
            [Scope(scope) for scope in scopes],
            created_by=created_by,
            namespace=namespace,
            days=SESSION_DAYS,
            rotated_from=shape[1],
            kind=KeyKind.SESSION,
        ).key


def open_session_with_key(conn: Conn, text: str) -> str:
    """A browser's session that may do what the key may. It ends with the key, if that is sooner: `find_key` looks."""
    holder = verify_key(conn, text)
    if holder.scopes.isdisjoint(PEOPLE):
        raise KeyRefused("the key is for programs: a browser needs one with the scope `read`")
    conn.execute(SQL["forget_logins"])
    return create_key(
        conn,
        holder.name,
        holder.scopes,
        created_by=f"key {holder.key_id}",
        namespace=holder.namespace,
        days=SESSION_DAYS,
        max_priority=holder.max_priority,
        rotated_from=holder.key_id,
        kind=KeyKind.SESSION,
    ).key


def end_session(conn: Conn, key_id: str, revoked_by: str) -> None:
    conn.execute(SQL["end_session"], {"key_id": key_id, "revoked_by": revoked_by})


def end_logins(conn: Conn, namespace: str, created_by: str) -> None:
    """Links and sessions of one maker end now."""
    conn.execute(SQL["end_logins"], {"namespace": namespace, "created_by": created_by})


def hash_secret(secret: str) -> str:
    """Plain SHA-256: a secret of 256 random bits needs no salt and no slowness."""
    return hashlib.sha256(secret.encode()).hexdigest()
