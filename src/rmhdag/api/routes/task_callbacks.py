"""What workers without a database say about the tasks that they hold. Each item is answered by itself."""

from __future__ import annotations

import orjson
from fastapi import APIRouter

from rmhdag.api.context import ApiContext
from rmhdag.api.identity import WorkerCaller
from rmhdag.api.problems import Problem
from rmhdag.api.strict_requests import StrictRequest, StrictRoute
from rmhdag.api.worker_desk import answer, attempt, outcome, record_results, refuse_twins, seat
from rmhdag.models.api.worker_calls import (
    HeldTaskAnswer,
    HeldTasks,
    HeldTasksAnswer,
    HeldTaskState,
    KeepLogs,
    LeasedTask,
    ReportTasks,
    SaveCheckpoints,
    StartedTasks,
    TaskCheckpoint,
    TaskOutcome,
    TaskOutcomes,
    TellProgress,
    Verdict,
)
from rmhdag.models.json_values import MAX_DEPTH
from rmhdag.models.leases import TaskProgress, percent_of
from rmhdag.store import suspects, tasks, workers
from rmhdag.store.batch_rows import HeldLogChunk

LOG_IS_FULL = "the log of this lease is full"


class DeeperRequest(StrictRequest):
    """An output may be nested as deeply as any value, and stands in an item of a list of the body."""

    max_depth = MAX_DEPTH + 3


class DeeperRoute(StrictRoute):
    request_class = DeeperRequest


router = APIRouter(prefix="/api/v1/callbacks", tags=["worker protocol"], route_class=DeeperRoute)


@router.post("/task-started")
def tasks_started(body: StartedTasks, api: ApiContext, caller: WorkerCaller) -> TaskOutcomes:
    """Mark the start of tasks that take long. One that was leased before is marked before it runs."""
    refuse_twins(body.tasks, "tasks")
    with seat(api, caller, body.worker_id) as at:
        matched = set() if at is None else tasks.start_tasks(at.conn, at.worker_id, [task.pair for task in body.tasks])
    return answer(body.tasks, matched)


@router.post("/task-result")
def tasks_reported(body: ReportTasks, api: ApiContext, caller: WorkerCaller) -> TaskOutcomes:
    """Record the outcomes of tasks. The same lease reported again is accepted again and changes nothing."""
    refuse_twins(body.results, "results")
    with seat(api, caller, body.worker_id) as at:
        if at is None:
            return answer(body.results, set())
        return record_results(at, caller.namespace, body.results)


@router.post("/task-progress")
def tasks_progressed(body: TellProgress, api: ApiContext, caller: WorkerCaller) -> TaskOutcomes:
    """Report the progress of tasks."""
    refuse_twins(body.progress, "progress")
    progress = [
        TaskProgress(
            report.task_id,
            report.lease_epoch,
            report.current,
            report.total,
            percent_of(report.current, report.total) if report.percent is None else report.percent,
            report.message,
        )
        for report in body.progress
    ]
    with seat(api, caller, body.worker_id) as at:
        if at is None:
            return answer(body.progress, set())
        matched = attempt(lambda: workers.save_progress_if_held(at.conn, at.worker_id, progress))
    if isinstance(matched, str):
        raise Problem(422, "progress_refused", matched, pointer="/progress")
    return answer(body.progress, matched)


@router.post("/task-checkpoint")
def tasks_checkpointed(body: SaveCheckpoints, api: ApiContext, caller: WorkerCaller) -> TaskOutcomes:
    """Save where tasks may be resumed, in this order."""
    with seat(api, caller, body.worker_id) as at:
        if at is None:
            return answer(body.checkpoints, set())

        def save(checkpoint: TaskCheckpoint) -> TaskOutcome:
            data = orjson.dumps(checkpoint.data)
            saved = attempt(
                lambda: workers.save_checkpoint_if_held(
                    at.conn, at.worker_id, *checkpoint.pair, checkpoint.phase, data, checkpoint.artifact_hash
                )
            )
            if isinstance(saved, str):
                return outcome(checkpoint, Verdict.REFUSED, saved)
            return outcome(checkpoint, Verdict.ACCEPTED if saved else Verdict.STALE)

        return TaskOutcomes(outcomes=[save(checkpoint) for checkpoint in body.checkpoints])


@router.post("/task-logs")
def tasks_logged(body: KeepLogs, api: ApiContext, caller: WorkerCaller) -> TaskOutcomes:
    """Store logs of tasks, before their reports: at most 1 MB per lease."""
    chunks = [
        HeldLogChunk(
            task_id=chunk.task_id,
            lease_epoch=chunk.lease_epoch,
            chunk_index=chunk.chunk_index,
            line_count=chunk.line_count,
            truncated=chunk.truncated,
            content=chunk.content,
            position=position,
        )
        for position, chunk in enumerate(body.chunks)
    ]
    with seat(api, caller, body.worker_id) as at:
        stored = {} if at is None else workers.insert_logs_if_held(at.conn, at.worker_id, chunks)

    def verdict(position: int, chunk: LeasedTask) -> TaskOutcome:
        if position not in stored:
            return outcome(chunk, Verdict.STALE)
        return outcome(chunk, Verdict.ACCEPTED) if stored[position] else outcome(chunk, Verdict.REFUSED, LOG_IS_FULL)

    return TaskOutcomes(outcomes=[verdict(position, chunk) for position, chunk in enumerate(body.chunks)])


@router.post("/task-heartbeat")
def tasks_held(body: HeldTasks, api: ApiContext, caller: WorkerCaller) -> HeldTasksAnswer:
    """Compare what the worker believes to hold with the rows: some are to stop, some are gone, some it never knew."""
    with seat(api, caller, body.worker_id) as at:
        rows = [] if at is None else workers.held_tasks(at.conn, at.worker_id)
        waits = at is not None and suspects.suspect_waits(at.conn, at.queues, caller.namespace, at.handlers)
    held = {(row.task_id, row.lease_epoch): row for row in rows}
    listed = {task.pair for task in body.tasks}

    def state(pair: tuple[str, int]) -> HeldTaskAnswer:
        row = held.get(pair)
        if row is None:
            held_state = HeldTaskState.GONE
        else:
            held_state = HeldTaskState.CANCELLED if row.cancel_requested else HeldTaskState.HELD
        return HeldTaskAnswer(task_id=pair[0], lease_epoch=pair[1], state=held_state)

    return HeldTasksAnswer(
        tasks=[state(task.pair) for task in body.tasks],
        unknown=[state(pair) for pair in held if pair not in listed],
        suspect_waits=waits,
    )
