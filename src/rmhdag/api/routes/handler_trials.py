"""Running a handler once, in development."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from fastapi import APIRouter
from starlette.concurrency import run_in_threadpool

from rmhdag.api.context import Api, ApiContext, Conn
from rmhdag.api.identity import Caller, Operator
from rmhdag.api.problems import Problem
from rmhdag.models.api.processes import HandlerTrial, HandlerTrialRequest
from rmhdag.models.states import JOB_TERMINAL
from rmhdag.orchestrator.commands import cancel_job
from rmhdag.orchestrator.handler_trials import NODE, begin_trial
from rmhdag.orchestrator.registrations import known_handlers, known_queues
from rmhdag.store import views

router = APIRouter(prefix="/api/v1/test", tags=["development"])

LOOK_SECONDS = 0.05
LOG_CHARACTERS = 64 * 1024


@router.post("/handler")
async def try_handler(caller: Operator, api: ApiContext, wanted: HandlerTrialRequest) -> HandlerTrial:
    """Run a handler once, by a real worker, and wait for what becomes of it. In development mode only. 429 while
    others are tried.
    """
    if not api.settings.development:
        raise Problem(
            403,
            "development_only",
            "handlers are run alone in development mode only",
            remedy="Set RMHDAG_DEVELOPMENT=1 for the API, or submit a workflow that has the handler in it.",
        )
    limits = await run_in_threadpool(api.quotas.limits, caller.namespace)
    with api.trials.place(caller.namespace, limits.handler_trials):
        job_id = await run_in_threadpool(begin, api, caller, wanted)
        patience_seconds = wanted.timeout_seconds + api.settings.trial_grace_seconds
        ended = await wait_for_end(api, caller, job_id, patience_seconds)
        return await run_in_threadpool(end, api, caller, wanted, job_id, ended)


def begin(api: Api, caller: Caller, wanted: HandlerTrialRequest) -> str:
    with api.connection() as conn:
        return begin_trial(
            conn,
            wanted.handler,
            wanted.params,
            queue=choose_queue(conn, api, caller.namespace, wanted),
            timeout_seconds=wanted.timeout_seconds,
            namespace=caller.namespace,
            submitted_by=caller.name,
        )


def end(api: Api, caller: Caller, wanted: HandlerTrialRequest, job_id: str, ended: bool) -> HandlerTrial:
    with api.connection() as conn:
        if not ended:
            cancel_job(
                conn,
                job_id,
                issued_by=caller.name,
                reason="the trial took too long",
                namespace=caller.namespace,
                answer_seconds=0.5,
            )
        return outcome(conn, caller, wanted.handler, job_id, ended=ended)


def choose_queue(conn: Conn, api: Api, namespace: str, wanted: HandlerTrialRequest) -> str:
    """The one that is given, else the handler's own, else the only one that there is."""
    catalogue = known_handlers(conn, namespace)
    if wanted.handler not in catalogue:
        raise Problem(
            422,
            "unknown_handler",
            f"there is no handler {wanted.handler!r}",
            remedy="`GET /api/v1/handlers` lists them; a worker registers its own when it starts.",
            pointer="/handler",
        )
    queues = known_queues(conn, namespace, api.settings.queues, api.settings.orphan_seconds)
    chosen = wanted.queue or catalogue.queue_of(wanted.handler) or (min(queues) if len(queues) == 1 else None)
    if chosen is None or chosen not in queues:
        what = "the handler names no queue of its own" if chosen is None else f"there is no queue {chosen!r}"
        raise Problem(
            422,
            "unknown_queue",
            what,
            remedy=f"Give `queue`: {', '.join(sorted(queues)) or 'none is configured'}.",
            pointer="/queue",
        )
    return chosen


async def wait_for_end(api: Api, caller: Caller, job_id: str, patience_seconds: float) -> bool:
    """Neither a connection nor a thread is held while nothing happens."""

    def has_ended() -> bool:
        with api.connection() as conn:
            job = views.job(conn, caller.namespace, job_id)
        return job is None or job["status"] in JOB_TERMINAL

    deadline = time.monotonic() + patience_seconds
    while time.monotonic() < deadline:
        if await run_in_threadpool(has_ended):
            return True
        await asyncio.sleep(LOOK_SECONDS)
    return False


def outcome(conn: Conn, caller: Caller, handler: str, job_id: str, *, ended: bool) -> HandlerTrial:
    job: dict[str, Any] = views.job(conn, caller.namespace, job_id) or {}
    node: dict[str, Any] = views.node(conn, job_id, NODE) or {}
    waited = "no worker took it in time" if node.get("started_at") is None else "it did not end in time"
    logs = "".join(chunk.content for chunk in views.logs_of_job(conn, job_id))
    return HandlerTrial(
        job_id=job_id,
        handler=handler,
        status=str(job.get("status", "failed")) if ended else "timed_out",
        output=node.get("output"),
        error_kind=node.get("error_kind") if ended else None,
        error_message=(node.get("error_message") or job.get("error_message")) if ended else waited,
        error=node.get("error") if ended else None,
        warnings=node.get("warnings") or [],
        duration_ms=node.get("execution_duration_ms"),
        worker_id=node.get("worker_id"),
        logs=logs[-LOG_CHARACTERS:],
    )
