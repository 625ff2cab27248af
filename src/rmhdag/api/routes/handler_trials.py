"""Running a handler once, in development."""

from __future__ import annotations

import asyncio
import time

from fastapi import APIRouter

from rmhdag.api.context import Api, ApiContext
from rmhdag.api.identity import Caller, Operator
from rmhdag.api.problems import Problem
from rmhdag.api.processor_time import run_in_turn
from rmhdag.models.api.processes import HandlerTrial, HandlerTrialRequest
from rmhdag.models.states import JOB_TERMINAL
from rmhdag.services.commands import cancel_job
from rmhdag.services.handler_trials import NODE, begin_trial
from rmhdag.services.registrations import known_handlers, known_queues
from rmhdag.store.connection import Conn
from rmhdag.views.jobs import find_head, find_job
from rmhdag.views.logs import read_page
from rmhdag.views.nodes import find_node

router = APIRouter(prefix="/api/v1/test", tags=["development"])

LOOK_SECONDS = 0.05
LOG_CHARACTERS = 64 * 1024


@router.post("/handler")
async def try_handler(caller: Operator, api: ApiContext, body: HandlerTrialRequest) -> HandlerTrial:
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
    limits = await run_in_turn(api.quotas.limits, caller.namespace)
    with api.trials.place(caller.namespace, limits.handler_trials):
        job_id = await run_in_turn(begin, api, caller, body)
        patience_seconds = body.timeout_seconds + api.settings.trial_grace_seconds
        ended = await wait_for_end(api, caller, job_id, patience_seconds)
        return await run_in_turn(end, api, caller, body, job_id, ended)


def begin(api: Api, caller: Caller, body: HandlerTrialRequest) -> str:
    with api.connection() as conn:
        return begin_trial(
            conn,
            body.handler,
            body.params,
            queue=choose_queue(conn, api, caller.namespace, body),
            timeout_seconds=body.timeout_seconds,
            namespace=caller.namespace,
            submitted_by=caller.name,
        )


def end(api: Api, caller: Caller, body: HandlerTrialRequest, job_id: str, ended: bool) -> HandlerTrial:
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
        return outcome(conn, caller, body.handler, job_id, ended=ended)


def choose_queue(conn: Conn, api: Api, namespace: str, body: HandlerTrialRequest) -> str:
    """The one that is given, else the handler's own, else the only one that there is."""
    handlers = known_handlers(conn, namespace)
    if body.handler not in handlers:
        raise Problem(
            422,
            "unknown_handler",
            f"there is no handler {body.handler!r}",
            remedy="`GET /api/v1/handlers` lists them; a worker registers its own when it starts.",
            pointer="/handler",
        )
    queues = known_queues(conn, namespace, api.settings.queues, api.settings.orphan_seconds)
    chosen = body.queue or handlers.queue_of(body.handler) or (min(queues) if len(queues) == 1 else None)
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
            job = find_head(conn, caller.namespace, job_id)
        return job is None or job.status in JOB_TERMINAL

    deadline = time.monotonic() + patience_seconds
    while time.monotonic() < deadline:
        if await run_in_turn(has_ended):
            return True
        await asyncio.sleep(LOOK_SECONDS)
    return False


def outcome(conn: Conn, caller: Caller, handler: str, job_id: str, *, ended: bool) -> HandlerTrial:
    job, node = find_job(conn, caller.namespace, job_id), find_node(conn, job_id, NODE)
    trial = HandlerTrial(
        job_id=job_id,
        handler=handler,
        status="failed" if job is None else str(job.status),
        output=None,
        error_kind=None,
        error_message=None if job is None else job.error_message,
        duration_ms=None,
        worker_id=None,
        logs="".join(chunk.content for chunk in read_page(conn, job_id))[-LOG_CHARACTERS:],
    )
    if node is not None:
        trial.output, trial.warnings, trial.error, trial.error_kind = (
            node.output,
            node.warnings,
            node.error,
            node.error_kind,
        )
        trial.error_message = node.error_message or trial.error_message
        trial.duration_ms, trial.worker_id = node.execution_duration_ms, node.worker_id
    if not ended:
        waits = node is None or node.started_at is None
        trial.status, trial.error, trial.error_kind = "timed_out", None, None
        trial.error_message = "no worker took it in time" if waits else "it did not end in time"
    return trial
