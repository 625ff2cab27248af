"""Workers, orchestrators, handlers and queues as they are shown."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from rmhdag.models.api.processes import (
    HandlerList,
    HandlerSummary,
    OrchestratorList,
    OrchestratorSummary,
    WorkerList,
    WorkerSummary,
)
from rmhdag.models.api.queues import QueueStatus, QueueStatusList
from rmhdag.services.registrations import known_handlers
from rmhdag.store.connection import Conn
from rmhdag.store.queries import load_queries
from rmhdag.store.reading import read_all
from rmhdag.workflow import shipped_handlers

SQL = load_queries(__file__)
# What an orchestrator reports of itself that reveals nothing of anybody's jobs, and what it counts.
HARMLESS = frozenset({"phase", "cycles", "cycle_ms_avg", "cycle_ms_p99", "orphan_scan_age_seconds"})
COUNTS = ("cycles", "jobs_claimed", "jobs_reclaimed", "jobs_ended", "tasks_dispatched", "results_processed")
# What a worker that serves all namespaces reports, without how many tasks it has and had of anybody.
HARMLESS_OF_WORKERS = ("memory_bytes", "lives", "loops", "threads")
HIDDEN = dict.fromkeys(("backlog", "errors", "last_error", *(name for name in COUNTS if name not in HARMLESS)))


class UnservedTasks(NamedTuple):
    queue: str
    handler: str
    waiting: int
    oldest_seconds: float


def list_workers(conn: Conn, alive_seconds: float, namespace: str | None = None) -> list[WorkerSummary]:
    """Those that serve a namespace, with the tasks of it that they hold; None: all."""
    parameters = {"namespace": namespace, "alive_seconds": alive_seconds, "harmless": list(HARMLESS_OF_WORKERS)}
    return read_all(conn, WorkerSummary, SQL["workers"], parameters)


def list_orchestrators(conn: Conn, alive_seconds: float, namespace: str | None = None) -> list[OrchestratorSummary]:
    """As a namespace sees them; None: with all jobs, all figures and the texts of errors, which may quote anybody.
    Figures that are left out are None, so that nobody takes them for zero.
    """
    parameters = {"namespace": namespace, "alive_seconds": alive_seconds}
    orchestrators = read_all(conn, OrchestratorSummary, SQL["orchestrators"], parameters)
    if namespace is not None:
        for orchestrator in orchestrators:
            orchestrator.stats = HIDDEN | {
                name: value for name, value in orchestrator.stats.items() if name in HARMLESS
            }
    return orchestrators


def workers(conn: Conn, alive_seconds: float, namespace: str | None = None) -> WorkerList:
    return WorkerList(workers=list_workers(conn, alive_seconds, namespace))


def orchestrators(conn: Conn, alive_seconds: float, namespace: str | None = None) -> OrchestratorList:
    return OrchestratorList(orchestrators=list_orchestrators(conn, alive_seconds, namespace))


def handlers(conn: Conn, namespace: str) -> HandlerList:
    """What workers offer, and what comes with rmhdag whether or not a worker has its libraries."""
    names = known_handlers(conn, namespace)
    offered = {
        handler.handler: handler
        for handler in read_all(conn, HandlerSummary, SQL["handlers"], {"namespace": namespace})
    }
    for handler in offered.values():
        handler.queue = names.queue_of(handler.handler)
    shipped = {
        entry.name: HandlerSummary(handler=entry.name, offered=False, version=None, **entry._asdict())
        for entry in shipped_handlers().entries()
    }
    return HandlerList(handlers=[summary for _, summary in sorted((shipped | offered).items())])


def list_queues(conn: Conn, namespace: str, alive_seconds: float) -> list[QueueStatus]:
    """Those with rows or workers."""
    return read_all(conn, QueueStatus, SQL["queues"], {"namespace": namespace, "alive_seconds": alive_seconds})


def unserved_tasks(conn: Conn, namespace: str, alive_seconds: float, limit: int = 100) -> list[UnservedTasks]:
    """By queue and handler, those that wait although no live worker can run them."""
    parameters = {"namespace": namespace, "alive_seconds": alive_seconds, "limit": limit}
    return read_all(conn, UnservedTasks, SQL["unserved_tasks"], parameters)


def queues(conn: Conn, namespace: str, configured: Iterable[str], alive_seconds: float) -> QueueStatusList:
    """Queues of the settings are shown even where nothing is in them."""
    by_name = {name: _empty_queue(name) for name in configured}
    by_name |= {queue.queue: queue for queue in list_queues(conn, namespace, alive_seconds)}
    for queue in by_name.values():
        queue.attention = _attention(queue)
    return QueueStatusList(queues=[by_name[name] for name in sorted(by_name)])


def _empty_queue(name: str) -> QueueStatus:
    return QueueStatus(
        queue=name,
        waiting=0,
        delayed=0,
        running=0,
        oldest_seconds=None,
        workers=0,
        slots=0,
        dead_letters=0,
        attention=None,
    )


def _attention(queue: QueueStatus) -> str | None:
    if queue.waiting and not queue.workers:
        return f"No worker serves {queue.queue}: start one with `rmhdag worker --queue {queue.queue}`."
    if queue.dead_letters:
        many = "1 dead letter waits" if queue.dead_letters == 1 else f"{queue.dead_letters} dead letters wait"
        return f"{many} for a decision."
    return None
