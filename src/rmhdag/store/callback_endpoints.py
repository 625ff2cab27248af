"""Endpoints of callbacks: one per namespace and URL without query. Secrets pass through here as they are stored."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from rmhdag.store import callbacks
from rmhdag.store.connection import Conn
from rmhdag.store.identity import new_id
from rmhdag.store.queries import load_queries

SQL = load_queries(__file__)


class StoredEndpoint(NamedTuple):
    """`previous_secret` is there only as long as it signs."""

    endpoint_id: str
    namespace: str
    url: str
    created_by: str
    created_at: datetime
    updated_at: datetime
    rotated_at: datetime | None
    previous_expires_at: datetime | None
    disabled_at: datetime | None
    disabled_reason: str | None
    secret: str
    previous_secret: str | None


def create_endpoint(conn: Conn, namespace: str, url: str, sealed_secret: str, by: str) -> str | None:
    """Its id; None if there is one for this URL."""
    parameters = {"endpoint_id": new_id(), "namespace": namespace, "url": url, "secret": sealed_secret, "by": by}
    row = conn.execute(SQL["insert_endpoint"], parameters).fetchone()
    return None if row is None else str(row[0])


class SealedSecret(NamedTuple):
    namespace: str
    url: str
    secret: str


def find_sealed_by_file(conn: Conn) -> SealedSecret | None:
    """One secret, of whichever endpoint, that the random key of a file has sealed."""
    row = conn.execute(SQL["find_sealed_by_file"]).fetchone()
    return None if row is None else SealedSecret(*row)


def find_by_url(conn: Conn, namespace: str, url: str) -> StoredEndpoint | None:
    row = conn.execute(SQL["find_by_url"], {"namespace": namespace, "url": url}).fetchone()
    return None if row is None else StoredEndpoint(*row)


def find_endpoint(conn: Conn, namespace: str, endpoint_id: str) -> StoredEndpoint | None:
    row = conn.execute(SQL["find"], {"namespace": namespace, "endpoint_id": endpoint_id}).fetchone()
    return None if row is None else StoredEndpoint(*row)


def list_endpoints(conn: Conn, namespace: str, *, after: str | None, limit: int) -> list[StoredEndpoint]:
    parameters = {"namespace": namespace, "after": after, "limit": limit}
    return [StoredEndpoint(*row) for row in conn.execute(SQL["list"], parameters).fetchall()]


def rotate_secret(conn: Conn, namespace: str, endpoint_id: str, sealed_secret: str, overlap_seconds: float) -> bool:
    parameters = {
        "namespace": namespace,
        "endpoint_id": endpoint_id,
        "secret": sealed_secret,
        "overlap_seconds": overlap_seconds,
    }
    return conn.execute(SQL["rotate_secret"], parameters).rowcount == 1


def disable_endpoint(conn: Conn, namespace: str, url: str, reason: str) -> int:
    """With all that waits for it; how many did."""
    with conn.transaction():
        conn.execute(SQL["disable_endpoint"], {"namespace": namespace, "url": url, "reason": reason})
        return callbacks.lay_aside(conn, namespace, url)


def enable_endpoint(conn: Conn, namespace: str, url: str, by: str, *, redeliver: bool) -> int:
    """How many callbacks that were laid aside are sent after all."""
    with conn.transaction():
        conn.execute(SQL["enable_endpoint"], {"namespace": namespace, "url": url})
        return callbacks.take_up_again(conn, namespace, url, by) if redeliver else 0
