"""Why does it not run? The engine's answer, with what it cannot know: whether anybody is there to do the work."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Protocol

import psycopg

from rmhdag.engine.explain import Explanation, ReasonCode
from rmhdag.models.api.jobs import Reason
from rmhdag.orchestrator.explanations import explain_nodes as ask_engine
from rmhdag.orchestrator.registrations import handler_queues
from rmhdag.store import views

Conn = psycopg.Connection[Any]

# A job is loaded for an explanation; beyond this many nodes that takes seconds.
MOST_EXPLAINED_NODES = 20_000
# What is told of an error in a sentence; the row has all of it.
SHOWN_ERROR = 500
# What tells most about a whole job, first.
TELLING = (
    ReasonCode.WAITS_FOR_APPROVAL,
    ReasonCode.WAITS_FOR_RETRY,
    ReasonCode.WAITS_FOR_HANDLER,
    ReasonCode.WAITS_FOR_WORKER,
    ReasonCode.WAITS_FOR_CHILD_JOB,
    ReasonCode.WAITS_FOR_ROOM,
    ReasonCode.WAITS_FOR_MAX_PARALLEL,
    ReasonCode.EXPANDING,
    ReasonCode.WAITS_FOR_CHILDREN,
    ReasonCode.AGGREGATING,
)


def explain_nodes(
    conn: Conn, job: Mapping[str, Any], node_ids: Collection[str], alive_seconds: float
) -> dict[str, Reason]:
    """By node. `job` is a row of `views.job` that has not ended; nothing is told if it changed hands just now."""
    if job["owner_id"] is None:
        reason = not_started(conn, alive_seconds)
        return {node_id: reason.model_copy(update={"node_id": node_id}) for node_id in node_ids}
    found = ask_engine(conn, job["job_id"], job["owner_id"], handler_queues(conn, job["namespace"]), node_ids)
    pairs = {(one.queue, one.handler) for one in found.values() if one.queue is not None and one.handler is not None}
    served = views.workers_for(conn, job["namespace"], alive_seconds, pairs) if pairs else {}
    return {
        node_id: _with_workers(told, served.get((str(told.queue), str(told.handler))))
        for node_id, told in found.items()
    }


def _with_workers(told: Explanation, served: views.WorkersFor | None) -> Reason:
    code, text, hint = told.reason_code, told.reason_text, told.hint
    if served is not None and not served.workers:
        hint = f"No worker serves queue {served.queue}: start one with `rmhdag worker --queue {served.queue}`."
    elif served is not None and not served.able:
        code = ReasonCode.WAITS_FOR_HANDLER
        text = (
            f"Waiting for a worker that has the handler {served.handler}: "
            f"none of the live workers of queue {served.queue} ({served.workers}) has it."
        )
        hint = f"Start a worker that loads its module: `rmhdag worker --queue {served.queue} --handlers MODULE`."
    return Reason(node_id=told.node_id, reason_code=code, reason_text=text, hint=hint)


class Attempted(Protocol):
    """A node's row, as far as it says how its last attempt went."""

    @property
    def attempt(self) -> int: ...
    @property
    def error_message(self) -> str | None: ...


def with_last_errors(reasons: Mapping[str, Reason], rows: Mapping[str, Attempted]) -> dict[str, Reason]:
    """A node that is tried again also says why: its row keeps the message until an attempt completes."""
    return {node_id: with_last_error(reason, rows[node_id]) for node_id, reason in reasons.items()}


def with_last_error(reason: Reason, row: Attempted) -> Reason:
    if row.attempt == 1 or not row.error_message:
        return reason
    error = " ".join(row.error_message.split())
    failed = f"Attempt {row.attempt - 1} failed: {error if len(error) <= SHOWN_ERROR else error[:SHOWN_ERROR] + '…'}"
    text = reason.reason_text
    # The engine says itself that it failed, and cannot know why: rows of children have no message in memory.
    told = f"Attempt {row.attempt - 1} failed; "
    if text.startswith(told):
        text = text.removeprefix(told)
        text = text[:1].upper() + text[1:]  # capitalize() would also write the T of the time in lower case
    full_stop = "" if failed.endswith((".", "…", "!", "?")) else "."
    return reason.model_copy(update={"reason_text": f"{failed}{full_stop} {text}"})


def not_started(conn: Conn, alive_seconds: float) -> Reason:
    alive = any(line.silent_seconds < alive_seconds and not line.stopping for line in views.orchestrators(conn))
    return Reason(
        reason_code=ReasonCode.JOB_NOT_STARTED,
        reason_text="The job waits for an orchestrator to start it.",
        hint=None if alive else "No orchestrator is running: start one with `rmhdag up`.",
    )


def most_telling(reasons: Collection[Reason]) -> Reason | None:
    """What the job as a whole waits for: nothing, if something in it runs."""
    if any(reason.reason_code == ReasonCode.RUNS for reason in reasons):
        return None
    ranked = {code: rank for rank, code in enumerate(TELLING)}
    told = [reason for reason in reasons if reason.reason_code in ranked]
    return min(told, key=lambda reason: ranked[ReasonCode(reason.reason_code)], default=None)
