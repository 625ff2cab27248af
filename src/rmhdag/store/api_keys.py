"""Keys of callers: `rmhdag_<key id>_<secret>`. The secret is shown once; only its hash is kept."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Collection
from typing import Any, NamedTuple

import orjson
import psycopg

from rmhdag.models.scopes import Scope
from rmhdag.store.queries import load_queries

SQL = load_queries(__file__)
Conn = psycopg.Connection[Any]

SHAPE = re.compile(r"rmhdag_([0-9a-f]{16})_([A-Za-z0-9_-]{43})")


class KeyRefused(Exception):
    """The key does not open anything: unknown, wrong, revoked or expired."""


class KeyHolder(NamedTuple):
    key_id: str
    namespace: str
    name: str
    scopes: frozenset[Scope]


def verify_key(conn: Conn, text: str) -> KeyHolder:
    """Who holds this key. Whatever is wrong with it takes the same way and the same words."""
    shape = SHAPE.fullmatch(text)
    row = None if shape is None else conn.execute(SQL["find_key"], {"key_id": shape[1]}).fetchone()
    if shape is None or row is None:
        raise KeyRefused("the key is not known")
    key_id, namespace, name, secret_hash, scopes, revoked, expired, is_long_unused = row
    if not hmac.compare_digest(secret_hash, hash_secret(shape[2])) or revoked:
        raise KeyRefused("the key is not known")
    if expired:
        raise KeyRefused("the key has expired")
    if is_long_unused:
        conn.execute(SQL["note_use"], {"key_id": key_id})
    return KeyHolder(key_id, namespace, name, frozenset(Scope(scope) for scope in scopes))


def create_key(
    conn: Conn,
    name: str,
    scopes: Collection[Scope],
    *,
    created_by: str,
    namespace: str = "default",
    days: float | None = None,
    rotated_from: str | None = None,
) -> tuple[str, str]:
    """(key id, the whole key): nobody will ever see the second again."""
    key_id, secret = secrets.token_hex(8), secrets.token_urlsafe(32)
    given = {
        "key_id": key_id,
        "namespace": namespace,
        "name": name,
        "secret_hash": hash_secret(secret),
        "scopes": orjson.dumps(sorted(scopes)).decode(),
        "rotated_from": rotated_from,
        "created_by": created_by,
        "days": days,
    }
    conn.execute(SQL["insert_key"], given)
    return key_id, f"rmhdag_{key_id}_{secret}"


def hash_secret(secret: str) -> str:
    """Plain SHA-256: a secret of 256 random bits needs no salt and no slowness."""
    return hashlib.sha256(secret.encode()).hexdigest()
