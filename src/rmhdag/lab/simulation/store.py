"""A small model of the store: the contract only. Every public method is one transaction; the guards keep it safe.

What each effect does to the rows is in `writes`; how an aggregate is read back is in `reads`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

from rmhdag.engine import inputs
from rmhdag.lab.simulation import rows, writes
from rmhdag.lab.simulation.faults import Fault, Faults
from rmhdag.models.states import JOB_TERMINAL


class Store:
    """Tables as dictionaries, and an audit trail that only the checker reads."""

    def __init__(self, clock: Callable[[], datetime], faults: Faults, guards: rows.Guards) -> None:
        self.clock = clock
        self.faults = faults
        self.guards = guards
        self.jobs: dict[str, rows.JobRow] = {}
        self.nodes: dict[str, dict[str, rows.NodeRow]] = {}
        self.timers: dict[tuple[str, str], rows.NodeRow] = {}  # the index of rows with a time that may pass
        self.queue: dict[str, rows.QueueRow] = {}
        self.results: dict[str, list[rows.ResultRow]] = {}
        self.inbox: dict[int, rows.InboxRow] = {}
        self.commands: dict[str, rows.CommandRow] = {}
        self.approvals: dict[tuple[str, str], None] = {}
        self.events: dict[str, list[rows.EventRow]] = {}
        self.payloads: dict[str, Any] = {}
        self.dead_letters: list[str] = []
        self.published: list[str] = []
        self.orchestrators: dict[str, datetime] = {}  # heartbeats, by the store's clock
        self.workers: dict[str, datetime] = {}
        self.audit: list[rows.AuditEntry] = []
        self._last_inbox_id = 0
        self._last_visible: dict[str, datetime] = {}

    def _is_owner(self, job: rows.JobRow, owner_id: str, write: rows.JobWrite) -> bool:
        return not self.guards.owner_fence or (job.owner_id == owner_id and job.owner_epoch == write.owner_epoch)

    def _is_first_time(self, job: rows.JobRow, write: rows.JobWrite) -> bool:
        again = self.guards.duplicate_commit and job.version != write.version
        gone = self.guards.duplicate_input and any(inbox_id not in self.inbox for inbox_id in write.consumed)
        void = self.guards.waiting_result and writes.revokes_reported_task(self, write)
        return not again and not gone and not void

    def _held(self, worker_id: str, task_id: str, lease_epoch: int) -> rows.QueueRow | None:
        row = self.queue.get(task_id)
        if row is None or not self.guards.lease_epoch:
            return row
        return row if row.lease_epoch == lease_epoch and row.worker_id == worker_id else None

    def submit(self, job: rows.JobRow) -> str:
        """The same idempotency key again is the same job."""
        for other in self.jobs.values():
            if other.idempotency_key == job.idempotency_key and job.idempotency_key is not None:
                return other.job_id
        self.insert_job(job)
        return job.job_id

    def insert_job(self, job: rows.JobRow) -> None:
        if self.jobs.setdefault(job.job_id, job) is job:
            self.nodes[job.job_id] = {}
            self.events[job.job_id] = []

    def claimable_jobs(self, dead: Sequence[str]) -> list[rows.JobRow]:
        """Jobs that nobody owns or whose owner is dead; terminal ones only if the inbox has something for them."""
        job_ids = {row.job_id: None for row in self.inbox.values()}
        free = [job for job in self.jobs.values() if not job.owner_id or job.owner_id in dead]
        return [job for job in free if job.status not in JOB_TERMINAL or job.job_id in job_ids]

    def claim_jobs(self, owner_id: str, dead: Sequence[str], limit: int) -> list[str]:
        claimed = self.claimable_jobs(dead)[:limit]
        for job in claimed:
            job.owner_id = owner_id
            job.owner_epoch += 1
            self.audit.append(rows.Claimed(job.job_id, owner_id, job.owner_epoch))
        names = {job.job_id: None for job in claimed}
        for row in self.inbox.values():
            # A row that is being written while its job changes hands goes astray; `sweep_inbox` finds it.
            if row.job_id in names and not self.faults.happens(Fault.INBOX_STRAY):
                row.owner_id = owner_id
        return list(names)

    def sweep_inbox(self) -> None:
        for row in self.inbox.values():
            row.owner_id = self.jobs[row.job_id].owner_id

    def discard_inbox_of_ended_jobs(self, owner_id: str) -> None:
        """At any age: it may be in somebody's hands. Who asked sees that the job has ended."""
        for row in list(self.inbox.values()):
            if row.owner_id in (owner_id, "") and self.jobs[row.job_id].status in JOB_TERMINAL:
                del self.inbox[row.inbox_id]
                if row.command_id is not None:
                    self.commands[row.command_id].applied = False

    def release_jobs(self, owner_id: str) -> None:
        self.release_some_jobs(owner_id, len(self.jobs))

    def release_some_jobs(self, owner_id: str, limit: int) -> None:
        for job in [job for job in self.jobs.values() if job.owner_id == owner_id][:limit]:
            job.owner_id = ""
            self.audit.append(rows.Claimed(job.job_id, "", job.owner_epoch))

    def commit(self, owner_id: str, batch: Sequence[rows.JobWrite]) -> list[str]:
        """Write what is still ours, once; the answer names the jobs that dropped out, lost or torn."""
        mine = [write for write in batch if self._is_owner(self.jobs[write.job_id], owner_id, write)]
        torn = [write for write in mine if not self._is_first_time(self.jobs[write.job_id], write)]
        if torn and not self.guards.torn_alone:
            return [write.job_id for write in batch]
        dropped = []
        for write in sorted(batch, key=lambda write: write.job_id):
            job = self.jobs[write.job_id]
            if write not in mine or write in torn:
                dropped.append(write.job_id)
                continue
            self.audit.append(rows.Committed(owner_id, write))
            job.version += 1
            for inbox_id in write.consumed:
                self.inbox.pop(inbox_id, None)
            for effect in write.effects:
                writes.RULES[type(effect)](self, job, effect)
            for command_id, answer in write.answers:
                self.commands[command_id].applied = answer.applied
        return dropped

    def put(
        self, job_id: str, job_input: inputs.Input, task_id: str | None = None, command_id: str | None = None
    ) -> None:
        """Tell the owner of a job. Rows about one task become visible in order, others may overtake each other."""
        self._last_inbox_id += 1
        visible_at = self.clock() + timedelta(seconds=self.faults.inbox_delay_seconds())
        if task_id is not None:
            visible_at = max(visible_at, self._last_visible.get(task_id, visible_at))
            self._last_visible[task_id] = visible_at
        owner_id = self.jobs[job_id].owner_id
        row = rows.InboxRow(self._last_inbox_id, owner_id, job_id, job_input, task_id, visible_at, command_id)
        self.inbox[row.inbox_id] = row

    def issue(self, command: rows.CommandRow) -> None:
        """A command has an id, so that asking twice is asking once."""
        if self.commands.setdefault(command.command_id, command) is command:
            self.put(command.job_id, command.given, command_id=command.command_id)

    def claimable_tasks(self, queues: Sequence[str]) -> list[rows.QueueRow]:
        now = self.clock()
        return [row for row in self.queue.values() if row.queue in queues and row.is_claimable(now)]

    def claim_tasks(self, worker_id: str, queues: Sequence[str], limit: int) -> list[rows.QueueRow]:
        """Each claim mints a lease epoch."""
        claimed = self.claimable_tasks(queues)[:limit]
        for row in claimed:
            row.worker_id = worker_id
            row.available_at = None
            self.mint_lease(row)
        return claimed

    def mint_lease(self, row: rows.QueueRow) -> None:
        row.lease_epoch += 1
        row.started_at = None
        self.audit.append(rows.Leased(row.task_id, row.lease_epoch))

    def tell(
        self, worker_id: str, job_input: inputs.TaskStarted | inputs.TaskCheckpointed | inputs.TaskSnoozed
    ) -> bool:
        """A start, a checkpoint, or "call me again later", which gives the row back with a delay."""
        row = self._held(worker_id, job_input.task_id, job_input.lease_epoch)
        if row is None:
            return False
        self.audit.append(rows.Heard(job_input.task_id, job_input.lease_epoch))
        if isinstance(job_input, inputs.TaskSnoozed):
            if row.cancel_requested:
                self.withdraw(row)
                return True
            row.worker_id = row.started_at = None
            row.available_at = self.clock() + timedelta(seconds=job_input.delay_seconds)
        elif isinstance(job_input, inputs.TaskStarted):
            row.started_at = row.started_at or self.clock()
        self.put(row.job_id, job_input, row.task_id)
        return True

    def release(self, worker_id: str, task_id: str, lease_epoch: int) -> None:
        """Give back what was not finished; if the job is ending, that withdraws it."""
        row = self._held(worker_id, task_id, lease_epoch)
        if row is not None and row.cancel_requested:
            self.withdraw(row)
        elif row is not None:
            row.worker_id = row.started_at = None

    def withdraw(self, row: rows.QueueRow) -> None:
        del self.queue[row.task_id]
        self.put(row.job_id, inputs.TaskWithdrawn(row.node_id, row.attempt, row.task_id), row.task_id)

    def report(self, worker_id: str, result: rows.ResultRow) -> bool:
        """Delete the row if the lease matches, and record the result with it; a repeat succeeds silently."""
        row = self._held(worker_id, result.task_id, result.lease_epoch)
        recorded = self.results.setdefault(result.task_id, [])
        if row is None and self.guards.duplicate_report:
            return any(other.lease_epoch == result.lease_epoch for other in recorded)
        self.queue.pop(result.task_id, None)
        recorded.append(result)
        self.audit.append(rows.Recorded(result))
        job_input = inputs.TaskReported(
            result.node_id, result.attempt, result.task_id, result.lease_epoch, result.success
        )
        self.put(result.job_id, job_input, result.task_id)
        return True

    def declare_worker_dead(self, worker_id: str) -> None:
        """Once per lease. Its rows wait, out of everybody's reach, until their owners requeue or revoke them."""
        self.workers.pop(worker_id, None)
        for row in self.queue.values():
            if row.worker_id == worker_id:
                row.worker_id = None
                row.lost = True
                job_input = inputs.TaskLost(
                    row.node_id, row.attempt, row.task_id, row.lease_epoch, worker_id, row.started
                )
                self.put(row.job_id, job_input, row.task_id)
