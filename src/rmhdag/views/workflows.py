"""Registered workflows as they are listed and shown."""

from __future__ import annotations

from rmhdag.models.api.workflows import JobDefinition, WorkflowDetail, WorkflowSummary
from rmhdag.store import jobs
from rmhdag.store.connection import Conn
from rmhdag.store.queries import load_queries
from rmhdag.store.reading import read_all, read_one
from rmhdag.views.jobs import SeenJob
from rmhdag.views.pictures import definition_key

SQL = load_queries(__file__)


def list_workflows(
    conn: Conn,
    namespace: str,
    *,
    after: str | None = None,
    text: str | None = None,
    retired_too: bool = False,
    limit: int | None = None,
) -> list[WorkflowSummary]:
    """The newest version of each; `after` is the id that the page before ended with."""
    parameters = {"namespace": namespace, "after": after, "text": text, "retired_too": retired_too, "limit": limit}
    return read_all(conn, WorkflowSummary, SQL["workflows"], parameters)


def list_versions(
    conn: Conn, namespace: str, workflow_id: str, *, before: int | None = None, limit: int | None = None
) -> list[WorkflowSummary]:
    """Newest first; `before` is the version that the page before ended with."""
    parameters = {"namespace": namespace, "workflow_id": workflow_id, "before": before, "limit": limit}
    return read_all(conn, WorkflowSummary, SQL["workflow_versions"], parameters)


def find_workflow(conn: Conn, namespace: str, workflow_id: str, version: int | None = None) -> WorkflowDetail | None:
    """The given version, or the newest, with definition and layout."""
    parameters = {"namespace": namespace, "workflow_id": workflow_id, "version": version}
    return read_one(conn, WorkflowDetail, SQL["workflow"], parameters)


def read_job_definition(conn: Conn, job: SeenJob) -> JobDefinition:
    """The one that the job was created with, whatever has been registered since."""
    pinned = jobs.load_definition(conn, *definition_key(job))
    newest = find_workflow(conn, job.namespace, job.workflow_id)
    return JobDefinition(
        workflow_id=job.workflow_id,
        version=job.workflow_version,
        hash=job.workflow_hash,
        definition=pinned or {},
        newest_version=None if newest is None else newest.version,
        newest_hash=None if newest is None else newest.hash,
        newest_definition=None if newest is None or newest.hash == job.workflow_hash else newest.definition,
    )
