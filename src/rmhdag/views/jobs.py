"""One job: its row, and all about it but its nodes, with what it waits for."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple, Protocol

from rmhdag.models.api.jobs import JobReference, JobView, NodeCounts, StoredJob
from rmhdag.models.states import JOB_TERMINAL, JobEnding, JobStatus
from rmhdag.services.plans import QueueOf
from rmhdag.services.registrations import queues_among
from rmhdag.store.connection import Conn
from rmhdag.store.queries import load_queries
from rmhdag.store.reading import read_all, read_one
from rmhdag.views.reading import shown_as

SQL = load_queries(__file__)


class SeenJob(Protocol):
    """What the views of a job's parts need to know of it. `rerun` is what a rerun does again, if it is one."""

    @property
    def job_id(self) -> str: ...
    @property
    def namespace(self) -> str: ...
    @property
    def workflow_id(self) -> str: ...
    @property
    def workflow_version(self) -> int: ...
    @property
    def workflow_hash(self) -> str: ...
    @property
    def status(self) -> JobStatus: ...
    @property
    def ending(self) -> JobEnding | None: ...
    @property
    def owner_id(self) -> str | None: ...
    @property
    def started_at(self) -> datetime | None: ...
    @property
    def seen_at(self) -> datetime: ...
    @property
    def rerun(self) -> dict[str, Any] | None: ...
    def queue_of(self, conn: Conn) -> QueueOf: ...


class JobHead(NamedTuple):
    """A job without what it was given and what it made."""

    job_id: str
    namespace: str
    workflow_id: str
    workflow_version: int
    workflow_hash: str
    status: JobStatus
    ending: JobEnding | None
    owner_id: str | None
    started_at: datetime | None
    seen_at: datetime
    rerun: dict[str, Any] | None
    has_warnings: bool

    def queue_of(self, conn: Conn) -> QueueOf:
        return queues_of(conn, self.namespace)


class JobRow(StoredJob):
    """`handlers` are those that are registered, if the job has not ended."""

    seen_at: datetime
    rerun: dict[str, Any] | None
    handlers: list[Any] | None

    def queue_of(self, conn: Conn) -> QueueOf:
        return queues_of(conn, self.namespace) if self.handlers is None else queues_among(lambda: self.handlers or [])


def queues_of(conn: Conn, namespace: str) -> QueueOf:
    """The queues that handlers name themselves. They are read when somebody asks: most tasks name theirs."""

    def read() -> list[Any]:
        row = conn.execute(SQL["handlers"], {"namespace": namespace}).fetchone()
        return [] if row is None or row[0] is None else row[0]

    return queues_among(read)


def find_job(conn: Conn, namespace: str, job_id: str) -> JobRow | None:
    """With the heartbeat of its owner."""
    return read_one(conn, JobRow, SQL["job"], {"namespace": namespace, "job_id": job_id})


def find_head(conn: Conn, namespace: str, job_id: str) -> JobHead | None:
    head = read_one(conn, JobHead, SQL["job_head"], {"namespace": namespace, "job_id": job_id})
    if head is None:
        return None
    return head._replace(status=JobStatus(head.status), ending=None if head.ending is None else JobEnding(head.ending))


def reruns_of(conn: Conn, job: StoredJob) -> list[JobReference]:
    """Of a job that has ended; oldest first."""
    if job.status not in JOB_TERMINAL:
        return []
    return read_all(conn, JobReference, SQL["reruns_of"], {"job_id": job.job_id, "root_job_id": job.root_job_id})


def read_new_job(conn: Conn, namespace: str, job_id: str) -> JobView:
    """Right after its submission: it has no nodes yet, and what it waits for is known."""
    row = find_job(conn, namespace, job_id)
    assert row is not None
    return shown_as(JobView, row, node_counts=NodeCounts())


def has_orchestrator(conn: Conn, alive_seconds: float) -> bool:
    row = conn.execute(SQL["has_orchestrator"], {"alive_seconds": alive_seconds}).fetchone()
    return row is not None and bool(row[0])


def open_job_counts(conn: Conn, namespace: str) -> dict[str, int]:
    """pending and running, of the jobs that have not ended."""
    return dict(conn.execute(SQL["open_job_counts"], {"namespace": namespace}).fetchall())
