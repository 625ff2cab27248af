"""Running a handler once, in development."""

from __future__ import annotations

import time
from typing import Any

from fastapi import APIRouter

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
def try_handler(caller: Operator, api: ApiContext, wanted: HandlerTrialRequest) -> HandlerTrial:
    """Run a handler once, by a real worker, and wait for what becomes of it. In development mode only."""
    if not api.settings.development:
        raise Problem(
            403,
            "development_only",
            "handlers are run alone in development mode only",
            remedy="Set RMHDAG_DEVELOPMENT=1 for the API, or submit a workflow that has the handler in it.",
        )
    with api.connection() as conn:
        job_id = begin_trial(
            conn,
            wanted.handler,
            wanted.params,
            queue=choose_queue(conn, api, caller.namespace, wanted),
            timeout_seconds=wanted.timeout_seconds,
            namespace=caller.namespace,
            submitted_by=caller.name,
        )
    ended = wait_for_end(api, caller, job_id, wanted.timeout_seconds + api.settings.trial_grace_seconds)
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


def wait_for_end(api: Api, caller: Caller, job_id: str, patience_seconds: float) -> bool:
    """No connection is held while nothing happens."""
    deadline = time.monotonic() + patience_seconds
    while time.monotonic() < deadline:
        with api.connection() as conn:
            job = views.job(conn, caller.namespace, job_id)
        if job is None or job["status"] in JOB_TERMINAL:
            return True
        time.sleep(LOOK_SECONDS)
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
