"""Queues, workers, orchestrators and handlers."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query

from rmhdag.api.context import ApiContext
from rmhdag.api.identity import NamespaceOrPlatform, PlatformOperator, Reader
from rmhdag.api.problems import not_found
from rmhdag.models.api.processes import DrainAnswer, HandlerList, HandlerSummary, OrchestratorList, WorkerList
from rmhdag.models.api.queues import QueueStatusList
from rmhdag.models.api.tasks import TaskState
from rmhdag.store import processes as store
from rmhdag.views import processes
from rmhdag.views.tasks import list_tasks

router = APIRouter(prefix="/api/v1", tags=["processes"])
ProcessId = Annotated[str, Path(pattern=r"^[0-9a-f]{32}$")]

# Of all workers together, in one answer with them.
MOST_TASKS = 200
HELD = (TaskState.RUNNING, TaskState.RECEIVED)


@router.get("/queues/status")
def queue_status(caller: Reader, api: ApiContext) -> QueueStatusList:
    """Each queue: waiting, delayed and running tasks, how long the oldest has waited, the pace, and the workers."""
    with api.connection() as conn:
        status = processes.queues(conn, caller.namespace, api.settings.queues, api.settings.orphan_seconds)
        api.queue_rates.add_to(status.queues, conn, caller.namespace)
    return status


@router.get("/workers")
def list_workers(
    caller: Reader,
    api: ApiContext,
    tasks: Annotated[bool, Query(description="Also the tasks of the namespace that they run")] = False,
) -> WorkerList:
    """Workers that serve the namespace, with their queues, what they hold of it and when they were last heard. With the
    scope `platform`, all workers.
    """
    with api.connection() as conn:
        page = processes.workers(conn, api.settings.orphan_seconds, caller.sees)
        if tasks:
            page.tasks, _ = list_tasks(conn, caller.namespace, statuses=HELD, limit=MOST_TASKS)
    return page


@router.get("/orchestrators")
def list_orchestrators(caller: Reader, api: ApiContext) -> OrchestratorList:
    """Orchestrators, with the namespace's jobs that they own and when they were last heard. With the scope `platform`,
    all jobs count, and figures and errors are shown.
    """
    with api.connection() as conn:
        return processes.orchestrators(conn, api.settings.orphan_seconds, caller.sees)


@router.post("/workers/{worker_id}/drain")
def drain_worker(caller: NamespaceOrPlatform, api: ApiContext, worker_id: ProcessId) -> DrainAnswer:
    """Let a worker take no more tasks, finish or give back what it has within its stop time, and end.

    `admin` is enough for workers of the own namespace alone; those that others use as well need the scope `platform`.
    """
    with api.connection() as conn:
        if not store.drain_worker(conn, worker_id, namespace=caller.namespace, actor=caller.name, among=caller.sees):
            raise not_found("such worker", "`GET /api/v1/workers` lists them.")
    return DrainAnswer(process=worker_id, draining=True)


@router.post("/orchestrators/{owner_id}/drain")
def drain_orchestrator(caller: PlatformOperator, api: ApiContext, owner_id: ProcessId) -> DrainAnswer:
    """Make an orchestrator hand its jobs over to the others and exit."""
    with api.connection() as conn:
        if not store.drain_orchestrator(conn, owner_id, namespace=caller.namespace, actor=caller.name):
            raise not_found("such orchestrator", "`GET /api/v1/orchestrators` lists them.")
    return DrainAnswer(process=owner_id, draining=True)


@router.get("/handlers")
def list_handlers(caller: Reader, api: ApiContext) -> HandlerList:
    """Handlers that a node may name, with the parameters that they take."""
    with api.connection() as conn:
        return processes.handlers(conn, caller.namespace)


@router.get("/handlers/{handler}")
def get_handler(caller: Reader, api: ApiContext, handler: Annotated[str, Path(max_length=64)]) -> HandlerSummary:
    """One handler, by its name or an alias."""
    with api.connection() as conn:
        handlers = processes.handlers(conn, caller.namespace).handlers
    matches = [candidate for candidate in handlers if candidate.handler == handler] or [
        candidate for candidate in handlers if handler in candidate.aliases
    ]
    if not matches:
        raise not_found("such handler", "`GET /api/v1/handlers` lists them.")
    return matches[0]
