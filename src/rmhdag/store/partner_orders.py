"""An order as the gateway reads it, for messages that say what the gateway would show."""

from __future__ import annotations

from typing import Any

from psycopg.rows import dict_row

from rmhdag.store import gateway_views
from rmhdag.store.connection import Conn

VIEW = gateway_views.SQL["dag_gateway_requests"]


def find_partner_order(conn: Conn, namespace: str, request_id: str) -> dict[str, Any] | None:
    """By the platform's id. The text of the view: the view itself is there only if there are roles."""
    query = b"SELECT * FROM (" + VIEW + b") AS r WHERE r.namespace = %(namespace)s"
    query += b" AND r.platform_request_id = %(request_id)s"
    with conn.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(query, {"namespace": namespace, "request_id": request_id}).fetchone()
