"""A small model of the store: the contract only. Every method is one transaction; `guards` is what keeps it safe.

What each effect does to the rows is in `writes`; how an aggregate is read back is in `reads`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

from rmhdag.engine.inputs import Input, TaskCheckpointed, TaskLost, TaskReported, TaskSnoozed, TaskStarted, TaskWithdrawn
from rmhdag.models.states import JOB_TERMINAL
from rmhdag.simulation import writes
from rmhdag.simulation.faults import Fault, Faults
from rmhdag.simulation.rows import (
    AuditEntry,
    Claimed,
    CommandRow,
    Committed,
    EventRow,
    Guards,
    InboxRow,
    JobRow,
    JobWrite,
    Leased,
    NodeRow,
    QueueRow,
    Recorded,
    ResultRow,
)


class Store:
    """Tables as dictionaries."""

    def __init__(self, clock: Callable[[], datetime], faults: Faults, guards: Guards) -> None:
        self.clock = clock
        self.faults = faults
        self.guards = guards
        self.jobs: dict[str, JobRow] = {}
        self.nodes: dict[str, dict[str, NodeRow]] = {}
        self.timers: dict[tuple[str, str], NodeRow] = {}  # the index of rows with a time that may pass
        self.queue: dict[str, QueueRow] = {}
        self.results: dict[str, list[ResultRow]] = {}
        self.inbox: dict[int, InboxRow] = {}
        self.commands: dict[str, CommandRow] = {}
        self.approvals: dict[tuple[str, str], None] = {}
        self.events: dict[str, list[EventRow]] = {}
        self.payloads: dict[str, Any] = {}
        self.dead_letters: list[str] = []
        self.published: list[str] = []
        self.orchestrators: dict[str, datetime] = {}
        self.workers: dict[str, datetime] = {}
        self.audit: list[AuditEntry] = []
        self._last_inbox_id = 0
        self._last_visible: dict[str, datetime] = {}

    # -- the guards ------------------------------------------------------------------------------------------

    def _is_owner(self, job: JobRow, owner_id: str, write: JobWrite) -> bool:
        return not self.guards.owner_fence or (job.owner_id == owner_id and job.owner_epoch == write.owner_epoch)

    def _is_first_time(self, job: JobRow, write: JobWrite) -> bool:
        again = self.guards.duplicate_commit and job.version != write.version
        gone = self.guards.duplicate_input and any(inbox_id not in self.inbox for inbox_id in write.consumed)
        return not again and not gone

    def _leased(self, task_id: str, lease_epoch: int) -> QueueRow | None:
        row = self.queue.get(task_id)
        if row is None or (self.guards.lease_epoch and row.lease_epoch != lease_epoch):
            return None
        return row

    # -- jobs ------------------------------------------------------------------------------------------------

    def submit(self, job: JobRow) -> str:
        """The same idempotency key again is the same job."""
        for other in self.jobs.values():
            if other.idempotency_key == job.idempotency_key and job.idempotency_key is not None:
                return other.job_id
        self.insert_job(job)
        return job.job_id

    def insert_job(self, job: JobRow) -> None:
        if job.job_id not in self.jobs:
            self.jobs[job.job_id] = job
            self.nodes[job.job_id] = {}
            self.events[job.job_id] = []

    def claim_jobs(self, owner_id: str, dead: Sequence[str], limit: int) -> list[str]:
        """Jobs that nobody owns, or whose owner is dead; terminal ones only if somebody still wants something of them."""
        wanted = {row.job_id: None for row in self.inbox.values()}
        free = [job for job in self.jobs.values() if not job.owner_id or job.owner_id in dead]
        claimed = [job for job in free if job.status not in JOB_TERMINAL or job.job_id in wanted][:limit]
        for job in claimed:
            job.owner_id = owner_id
            job.owner_epoch += 1
            self.audit.append(Claimed(job.job_id, owner_id, job.owner_epoch))
        self.address_inbox({job.job_id: None for job in claimed})
        return [job.job_id for job in claimed]

    def address_inbox(self, job_ids: dict[str, None] | None = None) -> int:
        """Send rows to the owners of their jobs: at a claim, and in the sweep that catches strays (None: all)."""
        moved = 0
        for row in self.inbox.values():
            owner_id = self.jobs[row.job_id].owner_id
            if row.owner_id != owner_id and (job_ids is None or row.job_id in job_ids):
                if job_ids is not None and self.faults.happens(Fault.INBOX_STRAY):
                    continue  # it was being written while the job changed hands
                row.owner_id = owner_id
                moved += 1
        return moved

    def release_jobs(self, owner_id: str) -> None:
        for job in self.jobs.values():
            if job.owner_id == owner_id:
                job.owner_id = ""
                self.audit.append(Claimed(job.job_id, "", job.owner_epoch))

    def commit(self, owner_id: str, batch: Sequence[JobWrite]) -> list[str]:
        """Write what is still ours, once; the answer names the jobs that were lost."""
        lost = []
        for write in sorted(batch, key=lambda write: write.job_id):
            job = self.jobs[write.job_id]
            if not self._is_owner(job, owner_id, write) or not self._is_first_time(job, write):
                lost.append(write.job_id)
                continue
            self.audit.append(Committed(owner_id, write))
            job.version += 1
            for inbox_id in write.consumed:
                self.inbox.pop(inbox_id, None)
            for effect in write.effects:
                writes.RULES[type(effect)](self, job, effect)
            for command_id, answer in write.answers:
                self.commands[command_id].applied = answer.applied
        return lost

    # -- inbox -----------------------------------------------------------------------------------------------

    def put(self, job_id: str, given: Input, task_id: str | None = None, command_id: str | None = None) -> None:
        """Tell the owner of a job. Rows about one task become visible in order, others may overtake each other."""
        self._last_inbox_id += 1
        visible_at = self.clock() + timedelta(seconds=self.faults.inbox_delay_seconds())
        if task_id is not None:
            visible_at = max(visible_at, self._last_visible.get(task_id, visible_at))
            self._last_visible[task_id] = visible_at
        owner_id = self.jobs[job_id].owner_id
        row = InboxRow(self._last_inbox_id, owner_id, job_id, given, task_id, visible_at, command_id)
        self.inbox[row.inbox_id] = row

    def issue(self, command: CommandRow) -> None:
        """A command has an id, so that asking twice is asking once."""
        if command.command_id not in self.commands:
            self.commands[command.command_id] = command
            self.put(command.job_id, command.given, command_id=command.command_id)

    # -- tasks, as workers see them --------------------------------------------------------------------------

    def claim_tasks(self, worker_id: str, queues: Sequence[str], limit: int) -> list[QueueRow]:
        """Each claim mints a lease epoch; a worker that was declared dead claims nothing."""
        if worker_id not in self.workers:
            return []
        now = self.clock()
        rows = [row for row in self.queue.values() if row.queue in queues and _is_claimable(row, now)][:limit]
        for row in rows:
            row.worker_id = worker_id
            row.available_at = None
            self.mint_lease(row)
        return rows

    def mint_lease(self, row: QueueRow) -> None:
        row.lease_epoch += 1
        row.started = False
        self.audit.append(Leased(row.task_id, row.lease_epoch))

    def start(self, worker_id: str, task_id: str, lease_epoch: int) -> bool:
        row = self._held(worker_id, task_id, lease_epoch)
        if row is not None and not row.started:
            row.started = True
            given = TaskStarted(row.node_id, row.attempt, task_id, lease_epoch, worker_id)
            self.put(row.job_id, given, task_id)
        return row is not None

    def checkpoint(self, worker_id: str, task_id: str, lease_epoch: int, phase: str) -> bool:
        row = self._held(worker_id, task_id, lease_epoch)
        if row is not None:
            given = TaskCheckpointed(row.node_id, row.attempt, task_id, lease_epoch, phase, {"phase": phase})
            self.put(row.job_id, given, task_id)
        return row is not None

    def snooze(self, worker_id: str, task_id: str, lease_epoch: int, delay_seconds: float) -> bool:
        row = self._held(worker_id, task_id, lease_epoch)
        if row is not None:
            row.worker_id = None
            row.started = False
            row.available_at = self.clock() + timedelta(seconds=delay_seconds)
            given = TaskSnoozed(row.node_id, row.attempt, task_id, lease_epoch, delay_seconds)
            self.put(row.job_id, given, task_id)
        return row is not None

    def release(self, worker_id: str, task_id: str, lease_epoch: int) -> bool:
        """Give back what was not finished; if the job is ending, that withdraws it."""
        row = self._held(worker_id, task_id, lease_epoch)
        if row is not None and row.cancel_requested:
            self.withdraw(row)
        elif row is not None:
            row.worker_id = None
        return row is not None

    def withdraw(self, row: QueueRow) -> None:
        del self.queue[row.task_id]
        self.put(row.job_id, TaskWithdrawn(row.node_id, row.attempt, row.task_id), row.task_id)

    def _held(self, worker_id: str, task_id: str, lease_epoch: int) -> QueueRow | None:
        row = self._leased(task_id, lease_epoch)
        return row if row is not None and (row.worker_id == worker_id or not self.guards.lease_epoch) else None

    def report(self, result: ResultRow, worker_id: str) -> bool:
        """Delete the row if the lease matches and record the result from what was deleted; a repeat succeeds silently."""
        row = self._leased(result.task_id, result.lease_epoch)
        recorded = self.results.setdefault(result.task_id, [])
        if row is None and self.guards.duplicate_report:
            return any(other.lease_epoch == result.lease_epoch for other in recorded)
        self.queue.pop(result.task_id, None)
        recorded.append(result)
        self.audit.append(Recorded(result))
        given = TaskReported(result.node_id, result.attempt, result.task_id, result.lease_epoch, result.success)
        given.worker_id = worker_id
        self.put(result.job_id, given, result.task_id)
        return True

    def declare_worker_dead(self, worker_id: str) -> None:
        """Once per lease: the row waits, out of everybody's reach, until the owner requeues or revokes it.

        The worker may still report what it has; starting, checkpoints and giving back are over.
        """
        if self.workers.pop(worker_id, None) is None:
            return
        for row in self.queue.values():
            if row.worker_id == worker_id:
                row.worker_id = None
                row.lost = True
                given = TaskLost(row.node_id, row.attempt, row.task_id, row.lease_epoch, worker_id, row.started)
                self.put(row.job_id, given, row.task_id)


def _is_claimable(row: QueueRow, now: datetime) -> bool:
    due = row.available_at is None or row.available_at <= now
    return row.worker_id is None and not row.lost and not row.cancel_requested and due
