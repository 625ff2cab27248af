"""Tasks given out to workers without a database, and taken back."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request

from rmhdag.api.bells import TooManyWait
from rmhdag.api.context import Api, ApiContext
from rmhdag.api.identity import Caller, WorkerCaller
from rmhdag.api.problems import RETRY_SECONDS, Problem
from rmhdag.api.processor_time import run_in_turn
from rmhdag.api.worker_desk import answer, refuse_twins, seat, unknown_worker
from rmhdag.models.api.worker_calls import (
    ClaimSuspect,
    ClaimTasks,
    Rang,
    ReleaseTasks,
    SuspectToRun,
    TaskOutcomes,
    TasksToRun,
    TaskToRun,
    WaitForTasks,
)
from rmhdag.models.leases import ClaimedTask, ReturnedLease
from rmhdag.store import suspects, tasks

router = APIRouter(prefix="/api/v1/tasks", tags=["worker protocol"])


@router.post("/claim")
async def claim_tasks(body: ClaimTasks, request: Request, api: ApiContext, caller: WorkerCaller) -> TasksToRun:
    """Lease tasks, those whose turn it is first; waits for the first one as long as is asked for.

    Only tasks whose handler the worker has registered are given out; if it has registered none, all of its queues.

    An answer that is lost on the way leaves tasks with the worker that it does not know of: `task-heartbeat` tells
    them as `unknown`. A worker that needs them all waits with `/tasks/wait` and claims without waiting.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + body.wait_seconds
    while True:
        place = api.bells.place(caller.namespace, body.queues)
        tasks_claimed = await run_in_turn(_claim, api, caller, body)
        remaining = deadline - loop.time()
        if tasks_claimed.tasks or remaining <= 0:
            return tasks_claimed
        await _wait(api, caller, body.queues, place, remaining)
        if await request.is_disconnected():
            return TasksToRun(tasks=[], suspect_waits=False)


def _claim(api: Api, caller: Caller, body: ClaimTasks) -> TasksToRun:
    with seat(api, caller, body.worker_id) as at:
        if at is None:
            raise unknown_worker()
        leases = api.claims.claim(
            at.conn, at.worker_id, at.slots, caller.namespace, body.queues, body.limit, at.handlers
        )
        waits = suspects.suspect_waits(at.conn, body.queues, caller.namespace, at.handlers)
    return TasksToRun(tasks=[_to_run(task) for task in leases], suspect_waits=waits)


@router.post("/claim-suspect")
def claim_suspect(body: ClaimSuspect, api: ApiContext, caller: WorkerCaller) -> SuspectToRun:
    """Lease a task during whose runs two workers were lost. It has to run alone."""
    with seat(api, caller, body.worker_id) as at:
        if at is None:
            raise unknown_worker()
        task = suspects.claim_suspect(at.conn, at.worker_id, body.queues, caller.namespace, at.handlers)
    return SuspectToRun(task=None if task is None else _to_run(task))


@router.post("/wait")
async def wait_for_tasks(body: WaitForTasks, api: ApiContext, caller: WorkerCaller) -> Rang:
    """Wait until there may be something to claim. Nothing is claimed: the wait may be broken off at any moment."""
    rang = await _wait(api, caller, body.queues, body.after or "", body.wait_seconds)
    return Rang(rang=rang, place=api.bells.place(caller.namespace, body.queues))


async def _wait(api: Api, caller: Caller, queues: list[str], after: str, seconds: float) -> bool:
    try:
        return await api.bells.wait(caller.namespace, queues, after, seconds)
    except TooManyWait:
        raise Problem(
            503, "too_many_wait", "too many workers wait here", headers={"Retry-After": str(RETRY_SECONDS)}
        ) from None


@router.post("/release")
def release_tasks(body: ReleaseTasks, api: ApiContext, caller: WorkerCaller) -> TaskOutcomes:
    """Return tasks to their queues: no attempt and no loss is counted."""
    refuse_twins(body.tasks, "tasks")
    leases = [ReturnedLease(*item.pair, item.delay_seconds, item.reason) for item in body.tasks]
    with seat(api, caller, body.worker_id) as at:
        released = set() if at is None else tasks.release_tasks(at.conn, at.worker_id, leases)
    return answer(body.tasks, released)


def _to_run(task: ClaimedTask) -> TaskToRun:
    return TaskToRun.model_construct(**task._asdict())
