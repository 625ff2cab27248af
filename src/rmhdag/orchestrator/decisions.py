"""What the engine decides about one job: its inputs in their order go in, the rows of a batch come out."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from random import Random
from typing import Any, NamedTuple

from rmhdag.engine.inputs import SetWindow, Start
from rmhdag.engine.loading import resume
from rmhdag.models.events import EventStatus, EventType
from rmhdag.models.states import JobStatus
from rmhdag.orchestrator.batch import Batch
from rmhdag.orchestrator.child_jobs import ChildJobRefused, child_job_row
from rmhdag.orchestrator.local_inputs import LocalInput
from rmhdag.orchestrator.owned_jobs import OwnedJob
from rmhdag.orchestrator.readings import read_entry
from rmhdag.orchestrator.rerun_starts import start_of
from rmhdag.store.batch_rows import ParentNotice
from rmhdag.store.channels import NEW_JOBS
from rmhdag.store.connection import Conn
from rmhdag.store.inbox import InboxEntry
from rmhdag.workflow.expressions.budget import MAX_WORK

# What the expressions of one job, and of one transaction, may take before the others have their turn: 50 ms.
TURN_WORK = MAX_WORK

Item = InboxEntry | LocalInput
Part = dict[str, list[Item]]


class Decided(NamedTuple):
    """A job whose next state is decided and not yet written."""

    job: OwnedJob
    had_ended: bool


class Decisions:
    """`put_back` keeps items for a later turn; `work` is that of the expressions of the job that was decided last."""

    def __init__(self, put_back: Callable[[Part], None]) -> None:
        self._put_back = put_back
        self._jitter = Random()
        self.work = 0
        # By queue, for jobs that are loaded from now on.
        self.windows: dict[str, int] = {}
        # Jobs taken over from owners that were declared dead, with the data of the event that says so.
        self.reclaimed: dict[str, dict[str, Any]] = {}

    def decide(
        self, conn: Conn, job: OwnedJob, items: list[Item], now: datetime, batch: Batch, large: dict[str, Any]
    ) -> None:
        """Items that are left after too much work are put back, and taken out of `items`."""
        self.work = 0
        if job.is_new:
            job.is_new = False
            for queue, limit in self.windows.items():
                batch.take(job, job.run.apply(SetWindow(queue, limit), now))
            effects = resume(job.run, now)
            self._record_reclaim(job)
            batch.take(job, effects)
        for place, item in enumerate(items):
            if self.work > TURN_WORK:
                self._put_back({job.job_id: items[place:]})
                del items[place:]
                break
            if isinstance(item, LocalInput):
                local = _start_of(conn, job) if isinstance(item.given, Start) else item.given
                batch.take(job, job.run.apply(local, now, self._jitter.random()))
                if isinstance(local, Start):
                    batch.take_over(job.job_id, local)
            else:
                entry = read_entry(conn, job, item, large)
                effects = job.run.apply(entry, now, self._jitter.random())
                batch.take(job, effects, item.payload.get("command_id"))
            self.work += job.run.scope.work
        if batch.wants_child_jobs:
            _make_child_jobs(conn, job, batch)

    def _record_reclaim(self, job: OwnedJob) -> None:
        data = self.reclaimed.pop(job.job_id, None)
        if data is not None and not job.run.is_terminal:
            job.run.record(EventType.JOB_RECLAIMED, EventStatus.WARNING, None, data)


def _start_of(conn: Conn, job: OwnedJob) -> Start:
    """A rerun that has not begun brings along what is finished."""
    if job.rerun_of is None or job.rerun is None or job.run.status is not JobStatus.PENDING:
        return Start()
    return start_of(conn, job.namespace, job.rerun_of, job.rerun, job.run.plan)


def _make_child_jobs(conn: Conn, job: OwnedJob, batch: Batch) -> None:
    """A child job that cannot be made has failed before it began: its parent is notified as of any other end."""
    for request in batch.take_child_requests(job.job_id):
        writes = batch.jobs[job.job_id].rare
        try:
            batch.add_child_job(job.job_id, child_job_row(conn, job, request))
        except ChildJobRefused as error:
            end = {"child_job_id": request.child_job_id, "status": "failed", "error_message": str(error)}
            writes.parents.append(ParentNotice(job.job_id, request.node_id, payload=end))
        writes.channels.add(NEW_JOBS)
