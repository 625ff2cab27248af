"""External services by their names. Secrets pass through here as they are stored."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

import orjson

from rmhdag.store.connection import Conn
from rmhdag.store.queries import load_queries
from rmhdag.store.service_calls import REASON

SQL = load_queries(__file__)
MOST_SERVICES = 500


class StoredService(NamedTuple):
    service_id: str
    namespace: str
    name: str
    kind: str
    url: str
    enabled: bool
    failures: int
    created_by: str
    created_at: datetime
    updated_at: datetime
    settings: dict[str, Any]
    secret: str | None


def find_service(conn: Conn, namespace: str, name: str, *, lock: bool = False) -> StoredService | None:
    query = SQL["find_and_lock" if lock else "find"]
    row = conn.execute(query, {"namespace": namespace, "name": name}).fetchone()
    return None if row is None else StoredService(*row)


def list_services(conn: Conn, namespace: str) -> list[StoredService]:
    """By name. A namespace has a handful."""
    parameters = {"namespace": namespace, "limit": MOST_SERVICES}
    return [StoredService(*row) for row in conn.execute(SQL["list"], parameters).fetchall()]


def put_service(conn: Conn, row: Mapping[str, Any]) -> bool:
    """False: another service has taken the name since the caller looked."""
    parameters = {**row, "settings": orjson.dumps(row["settings"]).decode()}
    return conn.execute(SQL["put"], parameters).rowcount == 1


def delete_service(conn: Conn, namespace: str, service_id: str) -> int:
    """With its calls; how many of them were pending."""
    row = conn.execute(SQL["delete_calls"], {"namespace": namespace, "service_id": service_id}).fetchone()
    conn.execute(SQL["delete"], {"service_id": service_id})
    return 0 if row is None else int(row[0])


def settle_letters(conn: Conn, namespace: str, call_id: str, by: str) -> None:
    """The dead letters of a call that is tried again."""
    conn.execute(SQL["settle_letters"], {"namespace": namespace, "reason": REASON, "call_id": call_id, "by": by})
