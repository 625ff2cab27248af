"""Namespaces, the quotas of their own, and what they use."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

import orjson

from rmhdag.store.audit import add_audit
from rmhdag.store.connection import Conn
from rmhdag.store.queries import load_queries

SQL = load_queries(__file__)


class NamespaceUse(NamedTuple):
    """The quotas of its own, and what was counted last."""

    quotas: dict[str, Any]
    used: dict[str, Any]
    counted_at: datetime | None = None


class RunningTasks(NamedTuple):
    """What a namespace has running on shared workers, and how claims look at it now."""

    namespace: str
    quotas: dict[str, Any]
    is_watched: bool
    running_tasks: int | None
    running_share: int
    held: int
    # As many as the tasks could occupy: a worker that has ten of them in store has no more slots for that.
    occupied: int
    slots: int
    is_in_use: bool


class StoredUse(NamedTuple):
    namespace: str
    open_jobs: int
    stored_bytes: int
    upload_bytes: int


def note_namespaces(conn: Conn) -> int:
    """Give every namespace that is in use a row; how many were new."""
    return conn.execute(SQL["note_namespaces"]).rowcount


def running_tasks(conn: Conn) -> list[RunningTasks]:
    return [RunningTasks(*row) for row in conn.execute(SQL["running_tasks"]).fetchall()]


def watch_namespace(
    conn: Conn, namespace: str, *, is_watched: bool, running_tasks: int | None, running_share: int
) -> None:
    """From now on claims count its tasks, or no longer."""
    parameters = {
        "namespace": namespace,
        "is_watched": is_watched,
        "running_tasks": running_tasks,
        "running_share": running_share,
    }
    conn.execute(SQL["watch_namespace"], parameters)


def find_namespace(conn: Conn, namespace: str) -> NamespaceUse:
    row = conn.execute(SQL["find_namespace"], {"namespace": namespace}).fetchone()
    return NamespaceUse({}, {}) if row is None else NamespaceUse(*row)


def list_namespaces(conn: Conn) -> dict[str, NamespaceUse]:
    return {row[0]: NamespaceUse(*row[1:]) for row in conn.execute(SQL["list_namespaces"]).fetchall()}


def set_quotas(conn: Conn, namespace: str, quotas: Mapping[str, int | None], changed_by: str) -> dict[str, Any]:
    """Change some; None gives the platform's default back. Returns all of the namespace's own."""
    parameters = {"namespace": namespace, "quotas": orjson.dumps(dict(quotas)).decode(), "changed_by": changed_by}
    with conn.transaction():
        before = find_namespace(conn, namespace).quotas
        row = conn.execute(SQL["set_quotas"], parameters).fetchone()
        assert row is not None
        own: dict[str, Any] = row[0]
        add_audit(conn, namespace, changed_by, "quotas.change", f"namespace {namespace}", before=before, after=own)
    return own


def count_open_jobs(conn: Conn, namespace: str, limit: int) -> int:
    """How many have not ended, up to the limit."""
    return _number(conn, "count_open_jobs", {"namespace": namespace, "limit": limit})


def count_running(conn: Conn, namespace: str) -> int:
    """Tasks that shared workers hold."""
    return _number(conn, "count_running", {"namespace": namespace})


def hold_additions(conn: Conn, namespace: str) -> None:
    """Until the transaction ends, nobody else adds to this namespace what is counted when it is added: of two at the
    same moment each would count without the other.
    """
    conn.execute(SQL["hold_additions"], {"namespace": namespace})


def count_workflows(conn: Conn, namespace: str) -> int:
    return _number(conn, "count_workflows", {"namespace": namespace})


def count_handlers(conn: Conn, namespace: str) -> int:
    return _number(conn, "count_handlers", {"namespace": namespace})


def count_keys(conn: Conn, namespace: str) -> int:
    return _number(conn, "count_keys", {"namespace": namespace})


def unfinished_bytes(conn: Conn, namespace: str) -> int:
    return _number(conn, "unfinished_bytes", {"namespace": namespace})


def is_counting_due(conn: Conn, seconds: float) -> bool:
    """Whether nobody has counted what is stored for so long."""
    return bool(_number(conn, "counting_due", {"seconds": seconds}))


def count_stored(conn: Conn) -> list[StoredUse]:
    return [StoredUse(*row) for row in conn.execute(SQL["count_stored"]).fetchall()]


def note_used(conn: Conn, namespace: str, used: Mapping[str, int]) -> None:
    conn.execute(SQL["note_used"], {"namespace": namespace, "used": orjson.dumps(dict(used)).decode()})


def _number(conn: Conn, query: str, parameters: Mapping[str, Any]) -> int:
    row = conn.execute(SQL[query], parameters).fetchone()
    assert row is not None
    return int(row[0])
