"""Clients of the gateway: quotas of their own, and how many orders they have."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

import orjson

from rmhdag.store.audit import add_audit
from rmhdag.store.connection import Conn
from rmhdag.store.queries import load_queries

SQL = load_queries(__file__)


class ClientLine(NamedTuple):
    client_id: str
    active: bool
    quotas: dict[str, int]
    changed_by: str
    updated_at: datetime


class OrderCounts(NamedTuple):
    open: int
    today: int


def find_client(conn: Conn, namespace: str, client_id: str) -> ClientLine | None:
    row = conn.execute(SQL["find_client"], {"namespace": namespace, "client_id": client_id}).fetchone()
    return None if row is None else ClientLine(*row)


def list_clients(conn: Conn, namespace: str, *, after: str = "", limit: int) -> list[ClientLine]:
    parameters = {"namespace": namespace, "after": after, "limit": limit}
    return [ClientLine(*row) for row in conn.execute(SQL["list_clients"], parameters)]


def set_client(
    conn: Conn,
    namespace: str,
    client_id: str,
    *,
    quotas: Mapping[str, int | None],
    active: bool | None,
    changed_by: str,
) -> ClientLine:
    """Change some quotas; None gives the default back."""
    parameters: dict[str, Any] = {
        "namespace": namespace,
        "client_id": client_id,
        "quotas": orjson.dumps(dict(quotas)).decode(),
        "active": active,
        "changed_by": changed_by,
    }
    with conn.transaction():
        before = find_client(conn, namespace, client_id)
        row = conn.execute(SQL["set_client"], parameters).fetchone()
        assert row is not None
        client = ClientLine(*row)
        add_audit(
            conn,
            namespace,
            changed_by,
            "client.change",
            f"client {client_id}",
            before={} if before is None else {"active": before.active, "quotas": before.quotas},
            after={"active": client.active, "quotas": client.quotas},
        )
    return client


def hold_orders(conn: Conn, namespace: str, client_id: str) -> None:
    """Until the transaction ends, this client orders nothing else: of two orders each would count without the other."""
    conn.execute(SQL["hold_orders"], {"namespace": namespace, "client_id": client_id})


def count_orders(conn: Conn, namespace: str, client_id: str, *, open_limit: int, day_limit: int) -> OrderCounts:
    parameters = {"namespace": namespace, "client_id": client_id, "open_limit": open_limit, "day_limit": day_limit}
    row = conn.execute(SQL["count_orders"], parameters).fetchone()
    assert row is not None
    return OrderCounts(*row)
