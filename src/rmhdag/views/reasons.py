"""Why a node does not run: the engine's answer, completed by whether a worker or orchestrator is there for it."""

from __future__ import annotations

from collections.abc import Collection

from rmhdag.engine.explain import Explanation, ReasonCode, explain
from rmhdag.engine.loading import load_run
from rmhdag.engine.plan import Plan, PlanError
from rmhdag.engine.reasons import in_words
from rmhdag.engine.run import JobFacts, JobRun
from rmhdag.engine.waiting import approval_reason
from rmhdag.models.api.jobs import Reason
from rmhdag.services.plans import DefinitionMissingError, plan_of
from rmhdag.store.connection import Conn
from rmhdag.views.jobs import has_orchestrator
from rmhdag.views.pictures import JobPicture, NodeRow, definition_key

# A job is loaded for an explanation; beyond this many nodes that takes seconds.
MOST_EXPLAINED_NODES = 20_000
# Characters of an error that a reason shows; the row has all of it.
SHOWN_ERROR = 500
# What tells most about a whole job, first.
TELLING = (
    ReasonCode.WAITS_FOR_APPROVAL,
    ReasonCode.WAITS_FOR_RETRY,
    ReasonCode.WAITS_FOR_DUE_TIME,
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
    conn: Conn, picture: JobPicture, node_ids: Collection[str], alive_seconds: float
) -> dict[str, Reason]:
    """By node, of a job that has not ended. None, if its children were too many to be loaded, or it makes no run."""
    job = picture.job
    rows = {node.node_id: node for node in picture.nodes}
    if job.owner_id is None:
        reason = not_started(conn, alive_seconds)
        return {
            node_id: _with_last_error(reason.model_copy(update={"node_id": node_id}), rows[node_id])
            for node_id in node_ids
        }
    try:
        plan = plan_of(conn, *definition_key(job), job.queue_of(conn))
    except (DefinitionMissingError, PlanError):
        return {}
    if picture.loaded is None:
        return {}
    run = _run_of(picture, plan)
    return {node_id: _reason(run, explain(run, node_id), rows[node_id]) for node_id in node_ids}


def _run_of(picture: JobPicture, plan: Plan) -> JobRun:
    """As its owner has it in memory, but for what the nodes were given and have made: no explanation needs that."""
    job = picture.job
    facts = JobFacts(job.job_id, {}, job.status, job.ending, started_at=job.started_at)
    rows = [node for node in picture.nodes if node.node_id in plan.by_id]
    return load_run(plan, facts, rows, picture.loaded or {}, {}, next_seq=1)


def _reason(run: JobRun, answer: Explanation, row: NodeRow) -> Reason:
    code, text, hint = answer.reason_code, answer.reason_text, answer.hint
    if code is ReasonCode.WAITS_FOR_APPROVAL:
        code, text, hint = approval_reason(run.job_id, run.plan.by_id[row.node_id], row.message)
    elif code is not ReasonCode.WAITS_FOR_WORKER or row.queue is None:
        pass
    elif not row.workers:
        hint = f"No worker serves queue {row.queue}: start one with `rmhdag worker --queue {row.queue}`."
    elif not row.able:
        code = ReasonCode.WAITS_FOR_HANDLER
        text = (
            f"Waiting for a worker that has the handler {row.handler}: "
            f"none of the live workers of queue {row.queue} ({row.workers}) has it."
        )
        hint = (
            f"Start a worker that loads its module: `rmhdag worker --queue {row.queue} --handlers MODULE`. "
            "Examples such as hello_world are in `rmhdag.handlers.examples`."
        )
    elif row.available_at is not None:
        code = ReasonCode.WAITS_FOR_DUE_TIME
        text = f"Its handler asked to be called again at {in_words(row.available_at)}."
        hint = f"`rmhdag logs {run.job_id} --node {row.node_id}` may say why."
    reason = Reason(node_id=answer.node_id, reason_code=code, reason_text=text, hint=hint)
    return _with_last_error(reason, row)


def _with_last_error(reason: Reason, row: NodeRow) -> Reason:
    """A node that is tried again also says why: its row keeps the message until an attempt completes."""
    if row.attempt == 1 or not row.error_message:
        return reason
    error = " ".join(row.error_message.split())
    failed = f"Attempt {row.attempt - 1} failed: {error if len(error) <= SHOWN_ERROR else error[:SHOWN_ERROR] + '…'}"
    text = reason.reason_text
    # The engine says itself that it failed, and cannot know why: rows of children have no message in memory.
    opening = f"Attempt {row.attempt - 1} failed; "
    if text.startswith(opening):
        text = text.removeprefix(opening)
        text = text[:1].upper() + text[1:]  # capitalize() would also write UTC in lower case
    full_stop = "" if failed.endswith((".", "…", "!", "?")) else "."
    return reason.model_copy(update={"reason_text": f"{failed}{full_stop} {text}"})


def not_started(conn: Conn, alive_seconds: float) -> Reason:
    return Reason(
        reason_code=ReasonCode.JOB_NOT_STARTED,
        reason_text="The job waits for an orchestrator to start it.",
        hint=None
        if has_orchestrator(conn, alive_seconds)
        else "No orchestrator is running: start one with `rmhdag up`.",
    )


def most_telling(reasons: Collection[Reason]) -> Reason | None:
    """What the job as a whole waits for: nothing, if something in it runs."""
    if any(reason.reason_code == ReasonCode.RUNS for reason in reasons):
        return None
    ranked = {code: rank for rank, code in enumerate(TELLING)}
    telling = [reason for reason in reasons if reason.reason_code in ranked]
    return min(telling, key=lambda reason: ranked[ReasonCode(reason.reason_code)], default=None)
