"""Registered definitions. A version has one content; jobs keep the content they were created with."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any, NamedTuple

import orjson

from rmhdag.models.refusals import Kind, Refusal
from rmhdag.store.audit import add_audit
from rmhdag.store.batch_rows import WorkflowKey, encode_rows
from rmhdag.store.connection import Conn
from rmhdag.store.crash_points import commit_site
from rmhdag.store.queries import load_queries

SQL = load_queries(__file__)


class StoredWorkflow(NamedTuple):
    workflow_id: str
    version: int
    hash: str
    definition: dict[str, Any]


class WorkflowHead(NamedTuple):
    """A stored workflow without its definition, which a process that knows the hash may have already.

    `handlers_at` is when a handler was last registered or changed: until then what was known of them still holds.
    """

    workflow_id: str
    version: int
    hash: str
    handlers_at: datetime | None = None
    retired_at: datetime | None = None


class OtherContentError(Refusal):
    """The version is registered with another content."""

    def __init__(self, workflow_id: str, version: int) -> None:
        super().__init__(
            Kind.CONFLICT,
            "other_content",
            f"{workflow_id} version {version} is registered with another content; give the file a new version",
            remedy="Raise `version`; in development mode (RMHDAG_DEVELOPMENT=1) the new content takes its place.",
            pointer="/version",
        )


def current_workflow(conn: Conn, namespace: str, workflow_id: str, version: int | None = None) -> StoredWorkflow | None:
    """The given version, or the newest."""
    parameters = {"namespace": namespace, "workflow_id": workflow_id, "version": version}
    row = conn.execute(SQL["current_workflow"], parameters).fetchone()
    return None if row is None else StoredWorkflow(*row)


def current_heads(
    conn: Conn, namespace: str, workflows: Collection[tuple[str, int | None]]
) -> dict[tuple[str, int | None], WorkflowHead]:
    """By what was asked for: a version, or the newest. What does not exist is not in the answer."""
    if not workflows:
        return {}
    parameters = {
        "namespace": namespace,
        "wanted": encode_rows(WorkflowKey(name, version) for name, version in workflows),
    }
    rows = conn.execute(SQL["current_heads"], parameters).fetchall()
    return {
        (workflow_id, version_asked): WorkflowHead(workflow_id, version, digest, handlers_at, retired_at)
        for version_asked, workflow_id, version, digest, handlers_at, retired_at in rows
    }


@commit_site
def register_workflow(
    conn: Conn,
    namespace: str,
    workflow: StoredWorkflow,
    registered_by: str,
    layout: dict[str, Any],
    *,
    development: bool = False,
) -> bool:
    """Store a definition. The same content again changes nothing; another one is refused outside development mode.

    False if this content is there already.
    """
    parameters = {
        "namespace": namespace,
        "workflow_id": workflow.workflow_id,
        "version": workflow.version,
        "hash": workflow.hash,
        "registered_by": registered_by,
        "definition": orjson.dumps(workflow.definition).decode(),
        "layout": orjson.dumps(layout).decode(),
    }
    with conn.transaction():
        lock = f"rmhdag workflow {namespace}/{workflow.workflow_id}/{workflow.version}"
        conn.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [lock])
        there = current_workflow(conn, namespace, workflow.workflow_id, workflow.version)
        if there is not None and there.hash == workflow.hash:
            return False
        if there is not None and not development:
            raise OtherContentError(workflow.workflow_id, workflow.version)
        conn.execute(SQL["supersede_workflow"], parameters)
        conn.execute(SQL["register_workflow"], parameters)
    return True


def keep_definition(conn: Conn, namespace: str, workflow: StoredWorkflow, registered_by: str) -> None:
    """For jobs of the platform's own: found by those that were created with it, and listed nowhere."""
    parameters = {
        "namespace": namespace,
        "workflow_id": workflow.workflow_id,
        "version": workflow.version,
        "hash": workflow.hash,
        "registered_by": registered_by,
        "definition": orjson.dumps(workflow.definition).decode(),
    }
    conn.execute(SQL["keep_definition"], parameters)


def retire_workflow(conn: Conn, namespace: str, workflow_id: str, by: str) -> bool:
    """Take no new jobs of any of its versions. False if there is no such workflow."""
    return _change(conn, "workflow.retire", namespace, workflow_id, by)


def restore_workflow(conn: Conn, namespace: str, workflow_id: str, by: str) -> bool:
    """Take jobs again. False if there is no such workflow."""
    return _change(conn, "workflow.restore", namespace, workflow_id, by)


def _change(conn: Conn, action: str, namespace: str, workflow_id: str, by: str) -> bool:
    parameters = {"namespace": namespace, "workflow_id": workflow_id, "by": by}
    query = SQL["retire_workflow" if action == "workflow.retire" else "restore_workflow"]
    with conn.transaction():
        is_there = conn.execute(query, parameters).rowcount > 0
        if is_there:
            add_audit(conn, namespace, by, action, f"workflow {workflow_id}")
    return is_there


def read_layout(conn: Conn, namespace: str, workflow_id: str, version: int, content_hash: str) -> dict[str, Any] | None:
    """Where the nodes of a definition lie in its picture; None if it is not stored."""
    parameters = {"namespace": namespace, "workflow_id": workflow_id, "version": version, "hash": content_hash}
    row = conn.execute(SQL["read_layout"], parameters).fetchone()
    return None if row is None else row[0]


def newest_versions(conn: Conn, namespace: str) -> dict[str, int]:
    """By workflow, of those that accept jobs."""
    return dict(conn.execute(SQL["newest_versions"], {"namespace": namespace}).fetchall())
