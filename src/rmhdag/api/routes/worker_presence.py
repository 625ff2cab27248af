"""Workers without a database: they come, say that they live, and go."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Response

from rmhdag.api.context import ApiContext
from rmhdag.api.identity import WorkerCaller
from rmhdag.api.problems import Problem
from rmhdag.api.quotas import quota_exceeded
from rmhdag.api.worker_desk import holder_of, seat, unknown_worker
from rmhdag.models.api.worker_calls import Heartbeat, RegisteredWorker, RegisterWorker
from rmhdag.models.leases import BeatAnswer
from rmhdag.store import quotas, tasks, workers

router = APIRouter(prefix="/api/v1/workers", tags=["worker protocol"])
WorkerIdPath = Annotated[str, Path(pattern=r"^[0-9a-f]{32}$")]


@router.post("/register")
def register_worker(body: RegisterWorker, api: ApiContext, caller: WorkerCaller) -> RegisteredWorker:
    """Register a worker. It serves tasks of the key's namespace only, and only this key may act for it."""
    holder = holder_of(caller)
    most = api.quotas.limits(caller.namespace).handlers
    with api.worker_pool.connection() as conn, conn.transaction():
        quotas.hold_additions(conn, caller.namespace)
        if body.before is not None:
            former = workers.registration(conn, body.before)
            if former is not None and former.registered_by != holder:
                raise _taken("before")
            tasks.report_lost_tasks(conn, [body.before])
        workers.register_worker(
            conn,
            body.worker_id,
            body.host,
            body.process_id,
            body.version,
            body.slots,
            body.queues,
            [*body.handler_names()] or None,
            registered_by=holder,
            namespace=caller.namespace,
        )
        registration = workers.registration(conn, body.worker_id)
        if registration is None or registration.registered_by != holder:
            raise _taken("worker_id")
        manifests = [handler.model_dump() for handler in body.handlers]
        workers.register_handlers(conn, manifests, namespace=caller.namespace)
        # Nothing of this registration stays if it is too much.
        if (used := quotas.count_handlers(conn, caller.namespace)) > most:
            raise quota_exceeded("handlers", most, used)
    return RegisteredWorker(worker_id=body.worker_id, namespace=caller.namespace)


@router.post("/{worker_id}/heartbeat")
def beat(worker_id: WorkerIdPath, body: Heartbeat, api: ApiContext, caller: WorkerCaller) -> RegisteredWorker:
    """Send a heartbeat. 404: the worker was declared dead, and has lost its leases."""
    with seat(api, caller, worker_id) as at:
        if at is None:
            raise unknown_worker()
        answer = workers.beat_if_registered(at.conn, worker_id, body.stats, draining=body.draining)
        if answer is BeatAnswer.GONE:
            raise unknown_worker()
    drain = answer is BeatAnswer.DRAIN
    return RegisteredWorker(worker_id=worker_id, namespace=caller.namespace, drain=drain)


@router.delete("/{worker_id}", status_code=204)
def leave(worker_id: WorkerIdPath, api: ApiContext, caller: WorkerCaller) -> Response:
    """Unregister a worker. Tasks that it still holds are returned to their queues."""
    with seat(api, caller, worker_id) as at:
        if at is None:
            raise unknown_worker()
        workers.unregister_worker(at.conn, worker_id)
    return Response(status_code=204)


def _taken(field: str) -> Problem:
    return Problem(
        409,
        "worker_id_taken",
        "a worker with this id belongs to another key",
        remedy="Take a fresh random id at each start.",
        pointer=f"/{field}",
    )
