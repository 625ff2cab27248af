"""The registry of platforms: rows of the namespace, and of `default` where it has none."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

import orjson

from rmhdag.store.connection import Conn
from rmhdag.store.queries import load_queries

SQL = load_queries(__file__)


class PlatformLine(NamedTuple):
    """`updated_by` is None as long as the row is as the settings say."""

    namespace: str
    platform_id: str
    identity_refs: list[str]
    optional_refs: list[str]
    version_ref: str | None
    review: str
    active: bool
    created_by: str
    updated_by: str | None
    created_at: datetime
    updated_at: datetime


def list_platforms(conn: Conn, namespace: str) -> list[PlatformLine]:
    """By id; the row that counts in this namespace."""
    return [PlatformLine(*row) for row in conn.execute(SQL["platforms"], {"namespace": namespace})]


def lock_platforms(conn: Conn) -> None:
    """Until the end of the transaction nobody else changes a platform."""
    conn.execute(SQL["lock_platforms"])


def put_platform(
    conn: Conn,
    namespace: str,
    platform_id: str,
    *,
    identity_refs: Sequence[str],
    optional_refs: Sequence[str],
    version_ref: str | None,
    review: str,
    active: bool,
    created_by: str,
    updated_by: str | None,
) -> None:
    values = {
        "namespace": namespace,
        "platform_id": platform_id,
        "identity_refs": orjson.dumps(list(identity_refs)).decode(),
        "optional_refs": orjson.dumps(list(optional_refs)).decode(),
        "version_ref": version_ref,
        "review": review,
        "active": active,
        "created_by": created_by,
        "updated_by": updated_by,
    }
    conn.execute(SQL["put_platform"], values)


def has_assets(conn: Conn, namespace: str, platform_id: str) -> bool:
    """Whether assets exist whose references the row of this namespace explains."""
    row = conn.execute(SQL["has_assets"], {"namespace": namespace, "platform_id": platform_id}).fetchone()
    assert row is not None
    return bool(row[0])
