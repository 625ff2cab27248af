"""Reading for people: jobs, nodes, logs, queues and processes, as the command line and the API show them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple, TypeVar

import orjson
import psycopg
from psycopg.rows import class_row, dict_row

from rmhdag.models.data_warnings import WarningSum
from rmhdag.store.queries import load_queries

SQL = load_queries(__file__)
Conn = psycopg.Connection[Any]
T = TypeVar("T")

MOST_LINES = 1_000


class JobHead(NamedTuple):
    job_id: str
    namespace: str
    workflow_id: str
    workflow_version: int
    workflow_hash: str
    status: str
    seen_at: datetime


class NodeLine(NamedTuple):
    """`total` is the number of children, known once a fan-out has begun."""

    node_id: str
    status: str
    attempt: int
    retry_count: int
    max_retries: int
    lease_losses: int
    task_id: str | None
    reused_task_id: str | None
    next_attempt_at: datetime | None
    deadline_at: datetime | None
    created_at: datetime
    ready_at: datetime | None
    dispatched_at: datetime | None
    started_at: datetime | None
    completed_at: datetime | None
    checkpoint_phase: str | None
    error_message: str | None
    error: dict[str, Any] | None
    total: int | None
    duration_seconds: float | None


class FailedChild(NamedTuple):
    node_id: str
    fan_out_item_key: str | None
    error_message: str | None


class ChildJob(NamedTuple):
    parent_node_id: str
    job_id: str
    warnings: list[dict[str, Any]]


class Progress(NamedTuple):
    node_id: str
    progress_current: int | None
    progress_total: int | None
    progress_percent: float | None
    progress_message: str | None


class CurrentTask(NamedTuple):
    node_id: str
    task_id: str
    progress_current: int | None
    progress_total: int | None
    progress_percent: float | None
    progress_message: str | None


class LogChunk(NamedTuple):
    node_id: str
    task_id: str
    lease_epoch: int
    chunk_index: int
    created_at: datetime
    truncated: bool
    content: str


class LogPlace(NamedTuple):
    since: datetime | None
    task_id: str
    lease_epoch: int
    chunk_index: int


class TaskAttempts(NamedTuple):
    node_id: str
    attempt: int
    reused_task_id: str | None


class EventCount(NamedTuple):
    """`retried` are the nodes that were tried again; only one type of event tells of them."""

    event_type: str
    events: int
    first_at: datetime
    last_at: datetime
    last_seq: int
    retried: list[str] | None


class QueueLine(NamedTuple):
    queue: str
    waiting: int
    delayed: int
    running: int
    oldest_seconds: float | None
    workers: int
    slots: int
    dead_letters: int


class UnservedTasks(NamedTuple):
    queue: str
    handler: str
    waiting: int
    oldest_seconds: float


class WorkersFor(NamedTuple):
    """Of the live workers that serve a queue, how many can run a handler."""

    queue: str
    handler: str
    workers: int
    able: int


class OrchestratorLine(NamedTuple):
    owner_id: str
    host: str
    process_id: int
    version: str
    stopping: bool
    started_at: datetime
    heartbeat_at: datetime
    stats: dict[str, Any]
    silent_seconds: float
    jobs_owned: int


class WorkerLine(NamedTuple):
    worker_id: str
    host: str
    process_id: int
    version: str
    slots: int
    draining: bool
    started_at: datetime
    heartbeat_at: datetime
    queues: list[str]
    stats: dict[str, Any]
    silent_seconds: float
    tasks_held: int


class HandlerLine(NamedTuple):
    handler: str
    queue: str | None
    version: str
    description: str
    aliases: list[str]
    params_schema: dict[str, Any]
    output_schema: dict[str, Any]
    registered_at: datetime


class WorkflowLine(NamedTuple):
    workflow_id: str
    version: int
    hash: str
    registered_by: str
    registered_at: datetime
    retired_at: datetime | None
    retired_by: str | None
    name: str
    description: str | None


def open_job_counts(conn: Conn, namespace: str) -> dict[str, int]:
    """pending and running, of the jobs that have not ended."""
    return dict(conn.execute(SQL["open_job_counts"], {"namespace": namespace}).fetchall())


def find_jobs(conn: Conn, namespace: str, start: str) -> list[str]:
    """Ids that begin so; three at most, for one is an answer and more are a question."""
    return [row[0] for row in conn.execute(SQL["find_jobs"], {"namespace": namespace, "start": start}).fetchall()]


def job(conn: Conn, namespace: str, job_id: str) -> dict[str, Any] | None:
    """The whole row of a job, with the heartbeat of its owner."""
    with conn.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(SQL["job"], {"namespace": namespace, "job_id": job_id}).fetchone()


def job_head(conn: Conn, namespace: str, job_id: str) -> JobHead | None:
    found = _read(conn, JobHead, "job_head", {"namespace": namespace, "job_id": job_id})
    return found[0] if found else None


def reruns_of(conn: Conn, job_id: str, root_job_id: str) -> list[tuple[str, str]]:
    return conn.execute(SQL["reruns_of"], {"job_id": job_id, "root_job_id": root_job_id}).fetchall()


def nodes(conn: Conn, job_id: str, node_ids: Collection[str]) -> list[NodeLine]:
    """Those of the definition, by their names: the children of its fan-outs may be many."""
    return _read(conn, NodeLine, "nodes", {"job_id": job_id, "nodes": list(node_ids)})


def child_counts(conn: Conn, job_id: str) -> dict[str, dict[str, int]]:
    """fan-out → status → how many children."""
    found: dict[str, dict[str, int]] = {}
    for fan_out_id, status, count in conn.execute(SQL["child_counts"], {"job_id": job_id}):
        found.setdefault(fan_out_id, {})[status] = count
    return found


def failed_children(conn: Conn, job_id: str, fan_out_id: str, limit: int = 5) -> list[FailedChild]:
    return _read(conn, FailedChild, "failed_children", {"job_id": job_id, "fan_out_id": fan_out_id, "limit": limit})


def child_jobs(conn: Conn, job_id: str, node_ids: Sequence[str]) -> dict[str, ChildJob]:
    """The newest job that each of these `workflow` nodes began."""
    if not node_ids:
        return {}
    found = _read(conn, ChildJob, "child_jobs", {"job_id": job_id, "nodes": list(node_ids)})
    return {child.parent_node_id: child for child in found}


def task_warnings(conn: Conn, task_ids: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
    return dict(conn.execute(SQL["task_warnings"], {"tasks": list(task_ids)}).fetchall()) if task_ids else {}


def child_warnings(conn: Conn, job_id: str, fan_out_id: str) -> list[dict[str, Any]]:
    """Of the children of a fan-out that completed, added up."""
    total = WarningSum()
    for (warnings,) in conn.execute(SQL["child_warnings"], {"job_id": job_id, "node_id": fan_out_id}):
        total.add(warnings)
    return total.as_json()


def node(conn: Conn, job_id: str, node_id: str) -> dict[str, Any] | None:
    """A node or a child, with its parameters and its output."""
    with conn.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(SQL["node"], {"job_id": job_id, "node_id": node_id}).fetchone()


def progress(conn: Conn, task_ids: Sequence[str]) -> dict[str, Progress]:
    """What running tasks say of themselves, by node."""
    if not task_ids:
        return {}
    return {line.node_id: line for line in _read(conn, Progress, "progress", {"tasks": list(task_ids)})}


def node_progress(conn: Conn, job_id: str, node_id: str) -> dict[str, Any] | None:
    """A node or a child, with what its current or last task says of itself."""
    with conn.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(SQL["node_progress"], {"job_id": job_id, "node_id": node_id}).fetchone()


def current_tasks(conn: Conn, job_id: str, limit: int) -> list[CurrentTask]:
    return _read(conn, CurrentTask, "current_tasks", {"job_id": job_id, "limit": limit})


def attempts(conn: Conn, job_id: str, node_id: str) -> list[TaskAttempts]:
    """A node, or the children of a fan-out, as far as they were sent to workers; in that order."""
    return _read(conn, TaskAttempts, "attempts", {"job_id": job_id, "node_id": node_id})


def logs(conn: Conn, task_ids: Sequence[str]) -> list[LogChunk]:
    return _read(conn, LogChunk, "logs", {"tasks": list(task_ids)})


def logs_of_job(conn: Conn, job_id: str, after: LogPlace | None = None, limit: int = 200) -> list[LogChunk]:
    """Of all tasks of a job, by time; `after` is the place of the last one seen."""
    place = after or LogPlace(None, "", 0, 0)
    return _read(conn, LogChunk, "logs_of_job", {"job_id": job_id, "limit": limit, **place._asdict()})


def timeline(
    conn: Conn,
    job_id: str,
    *,
    node_id: str | None = None,
    after: int = 0,
    event_types: Collection[str] = (),
    limit: int = 100,
) -> list[dict[str, Any]]:
    """Events, oldest first; `after` is the `seq` of the last one seen."""
    given = {
        "job_id": job_id,
        "node_id": node_id,
        "after": after,
        "event_types": _array(event_types),
        "limit": min(limit, MOST_LINES),
    }
    with conn.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(SQL["timeline"], given).fetchall()


def timeline_summary(conn: Conn, job_id: str, node_id: str | None = None, after: int = 0) -> list[EventCount]:
    given = {"job_id": job_id, "node_id": node_id, "after": after}
    return [EventCount(*row) for row in conn.execute(SQL["timeline_summary"], given).fetchall()]


def queues(conn: Conn, namespace: str, alive_seconds: float) -> list[QueueLine]:
    return _read(conn, QueueLine, "queues", {"namespace": namespace, "alive_seconds": alive_seconds})


def unserved_tasks(conn: Conn, namespace: str, alive_seconds: float, limit: int = 100) -> list[UnservedTasks]:
    """By queue and handler, those that wait although no live worker can run them."""
    given = {"namespace": namespace, "alive_seconds": alive_seconds, "limit": limit}
    return _read(conn, UnservedTasks, "unserved_tasks", given)


def workers_for(
    conn: Conn, namespace: str, alive_seconds: float, pairs: Collection[tuple[str, str]]
) -> dict[tuple[str, str], WorkersFor]:
    """Of each pair of queue and handler."""
    text = orjson.dumps(sorted(set(pairs))).decode()
    given = {"namespace": namespace, "alive_seconds": alive_seconds, "pairs": text}
    return {(line.queue, line.handler): line for line in _read(conn, WorkersFor, "workers_for", given)}


def orchestrators(conn: Conn, namespace: str | None = None) -> list[OrchestratorLine]:
    """With the jobs that they own, of one namespace or of all."""
    return _read(conn, OrchestratorLine, "orchestrators", {"namespace": namespace})


def workers(conn: Conn, namespace: str | None = None) -> list[WorkerLine]:
    """Those that serve a namespace, with the tasks of it that they hold; or all."""
    return _read(conn, WorkerLine, "workers", {"namespace": namespace})


def with_configured(found: Sequence[QueueLine], configured: Iterable[str]) -> list[QueueLine]:
    """Queues of the settings are shown even where nothing is in them."""
    there = {line.queue for line in found}
    empty = [QueueLine(name, 0, 0, 0, None, 0, 0, 0) for name in dict.fromkeys(configured) if name not in there]
    return sorted([*found, *empty], key=lambda line: line.queue)


class KnownHandler(NamedTuple):
    """`is_shared`: all namespaces have it."""

    handler: str
    aliases: list[str]
    queue: str | None
    params_schema: dict[str, Any]
    output_schema: dict[str, Any]
    is_shared: bool


def handlers(conn: Conn, namespace: str | None) -> list[KnownHandler]:
    """What workers have registered for all namespaces, and for this one."""
    return _read(conn, KnownHandler, "handlers", {"namespace": namespace})


def handler_lines(conn: Conn, namespace: str) -> list[HandlerLine]:
    """All that workers have registered for all namespaces or this one."""
    return _read(conn, HandlerLine, "handler_lines", {"namespace": namespace})


def workflows(
    conn: Conn,
    namespace: str,
    *,
    after: str | None = None,
    text: str | None = None,
    retired_too: bool = False,
    limit: int | None = None,
) -> list[WorkflowLine]:
    """The newest version of each; `after` is the id that the page before ended with."""
    given = {"namespace": namespace, "after": after, "text": text, "retired_too": retired_too, "limit": limit}
    return _read(conn, WorkflowLine, "workflows", given)


def workflow_versions(
    conn: Conn, namespace: str, workflow_id: str, *, before: int | None = None, limit: int | None = None
) -> list[WorkflowLine]:
    """Newest first; `before` is the version that the page before ended with."""
    given = {"namespace": namespace, "workflow_id": workflow_id, "before": before, "limit": limit}
    return _read(conn, WorkflowLine, "workflow_versions", given)


def workflow(conn: Conn, namespace: str, workflow_id: str, version: int | None = None) -> dict[str, Any] | None:
    """The given version, or the newest, with definition and layout."""
    given = {"namespace": namespace, "workflow_id": workflow_id, "version": version}
    with conn.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(SQL["workflow"], given).fetchone()


def _array(labels: Collection[str]) -> str | None:
    """Labels of an enum as PostgreSQL writes an array: a list would come as text, and no partial index would fit."""
    return "{" + ",".join(labels) + "}" if labels else None


def _read(conn: Conn, line: type[T], query: str, given: dict[str, Any]) -> list[T]:
    with conn.cursor(row_factory=class_row(line)) as cursor:
        return cursor.execute(SQL[query], given).fetchall()
