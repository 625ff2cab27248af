"""Who did what to keys, approvals, assets, workflows and the schema. Rows are only added, never changed.

A row is written in the transaction of the action that it records: there is neither without the other.
"""

from __future__ import annotations

from typing import Any

import orjson

from rmhdag.models.api.audit import AuditView
from rmhdag.store.connection import Conn
from rmhdag.store.queries import load_queries
from rmhdag.store.reading import read_all

SQL = load_queries(__file__)
NEWEST = 2**63 - 1


def add_audit(
    conn: Conn,
    namespace: str,
    actor: str,
    action: str,
    subject: str,
    *,
    before: dict[str, Any] | None = None,
    after: dict[str, Any] | None = None,
    reason: str | None = None,
) -> None:
    """Call it in the transaction of the action."""
    parameters = {
        "namespace": namespace,
        "actor": actor,
        "action": action,
        "subject": subject,
        "before": orjson.dumps(before or {}, default=str).decode(),
        "after": orjson.dumps(after or {}, default=str).decode(),
        "reason": reason,
    }
    conn.execute(SQL["add_audit"], parameters)


def list_audit(
    conn: Conn,
    namespace: str | None,
    *,
    action: str | None = None,
    subject: str | None = None,
    below: int = NEWEST,
    limit: int,
) -> list[AuditView]:
    """Newest first; of one namespace, or of all. `action` is a whole name or the part before its dot."""
    parameters = {"namespace": namespace, "action": action, "subject": subject, "below": below, "limit": limit}
    query = SQL["list_audit_of_all" if namespace is None else "list_audit"]
    return read_all(conn, AuditView, query, parameters)
