"""The effects of many jobs become the rows of a few statements.

Several changes of one node in a batch fold into one row: a node that is created, made ready and dispatched by the same
input is inserted once, as dispatched.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import orjson

from rmhdag.engine import effects as fx
from rmhdag.engine.inputs import Start
from rmhdag.models.catalogue import CatalogueKind
from rmhdag.models.limits import MESSAGE_CHARACTERS
from rmhdag.models.states import JOB_TERMINAL, JobStatus, NodeStatus
from rmhdag.orchestrator.own_files import OwnFiles
from rmhdag.storage.settings import StorageSettings
from rmhdag.store.asset_states import RevisionOfJob
from rmhdag.store.channels import JOBS_ENDED, NEW_JOBS, queue_channel
from rmhdag.store.identity import new_id
from rmhdag.store.publishing import Publication, TakeOver
from rmhdag.store.revision_items import CompletedRevision
from rmhdag.store.settle import RevokedTask, Writes
from rmhdag.store.tasks import WARNED

if TYPE_CHECKING:
    from rmhdag.orchestrator.owned_jobs import OwnedJob
    from rmhdag.orchestrator.turns import Turns

# About what the row of a new node takes: so jobs of 10,000 nodes begin one per transaction, and small ones together.
NEW_NODE_BYTES = 400


class JobWrites:
    """What one job wants written, nodes folded. Made for every job of every batch, so it holds no more than it must."""

    __slots__ = ("_rare", "changed", "channels", "events", "new_nodes", "tasks")

    def __init__(self) -> None:
        self.events: list[list[Any]] = []
        self.tasks: list[list[Any]] = []
        self.channels: set[str] = set()
        self.new_nodes: dict[str, list[Any]] = {}
        self.changed: dict[str, list[Any]] = {}
        self._rare: Writes | None = None

    @property
    def rare(self) -> Writes:
        if self._rare is None:
            self._rare = Writes()
        return self._rare

    def count_tasks(self) -> int:
        return len(self.tasks) + (0 if self._rare is None else len(self._rare.tasks_from_nodes))

    def add_to(self, merged: Writes) -> None:
        merged.events += self.events
        merged.tasks += self.tasks
        merged.channels |= self.channels
        merged.new_nodes += self.new_nodes.values()
        merged.nodes += self.changed.values()
        if self._rare is not None:
            for name in Writes.__slots__:
                rows = getattr(self._rare, name)
                if rows:
                    kept = getattr(merged, name)
                    kept.update(rows) if isinstance(kept, set) else kept.extend(rows)


class Batch:
    """Collects what one turn of the orchestrator wants written, and what it has to do once that is committed."""

    def __init__(
        self,
        turns: Turns,
        catalogue: CatalogueKind = CatalogueKind.STATIC,
        store_large_objects: Callable[[OwnedJob, list[fx.Effect]], None] | None = None,
        own_files: OwnFiles | None = None,
    ) -> None:
        self._turns = turns
        self._store_large_objects = store_large_objects
        self._catalogue = catalogue
        self._own_files = own_files or OwnFiles(StorageSettings())
        self.publishes = False
        self.jobs: dict[str, JobWrites] = {}
        self.continues: list[tuple[str, str]] = []
        self.aggregations: list[tuple[str, fx.AggregationRequested]] = []
        self._child_requests: dict[str, list[fx.ChildJobRequested]] = {}
        self.ended: list[str] = []
        self.size_bytes = 0  # of what may be large: new nodes, parameters, outputs, results, checkpoints
        self.continue_soon = False  # rows for ourselves were written: read the inbox again without waiting

    def take(self, job: OwnedJob, effects: list[fx.Effect], command_id: str | None = None) -> None:
        mine = self.jobs.get(job.job_id)
        if mine is None:
            mine = self.jobs[job.job_id] = JobWrites()
        if job.run.has_large_objects and self._store_large_objects is not None:
            self._store_large_objects(job, effects)
        for effect in effects:
            if isinstance(effect, fx.EventAppended):
                mine.events.append(_event(job, effect))
            elif isinstance(effect, fx.NodeChanged):
                # Its parameters stand in the queue row too, and are measured there.
                if effect.output is not None or effect.checkpoint_data is not None:
                    self.size_bytes += encoded_size(effect.output) + encoded_size(effect.checkpoint_data)
                _change(job.job_id, mine, effect)
            elif isinstance(effect, fx.TaskQueued):
                self._queue(job, mine, effect)
            else:
                self._take_rare(job, mine, effect, command_id)

    def take_over(self, job_id: str, start: Start) -> None:
        """What a rerun does not do again was published before, and belongs to it too."""
        kept = [node_id for node_id, node in start.reused.items() if node.status is NodeStatus.COMPLETED]
        if kept or start.reused_children:
            # A fan-out that is kept as a whole brings all its children.
            fan_outs = [*kept, *start.reused_children]
            self.jobs[job_id].rare.taken_over.append(TakeOver(job_id, kept, fan_outs))

    def forget(self, job_id: str) -> None:
        """Leave out a job whose decision broke half-way."""
        self.jobs.pop(job_id, None)
        self.ended = [ended for ended in self.ended if ended != job_id]
        self.continues = [item for item in self.continues if item[0] != job_id]
        self.aggregations = [item for item in self.aggregations if item[0] != job_id]
        self._child_requests.pop(job_id, None)

    @property
    def wants_child_jobs(self) -> bool:
        return bool(self._child_requests)

    def take_child_requests(self, job_id: str) -> list[fx.ChildJobRequested]:
        return self._child_requests.pop(job_id, [])

    def add_child_job(self, job_id: str, row: dict[str, Any]) -> None:
        self.size_bytes += encoded_size(row)
        self.jobs[job_id].rare.child_jobs.append(row)

    def count_tasks(self, lost: set[str]) -> int:
        return sum(mine.count_tasks() for job_id, mine in self.jobs.items() if job_id not in lost)

    def merged(self, locked: set[str]) -> Writes:
        """One set of rows for all jobs that are still ours."""
        merged = Writes()
        for job_id in sorted(locked & self.jobs.keys()):
            self.jobs[job_id].add_to(merged)
        return merged

    def _queue(self, job: OwnedJob, mine: JobWrites, effect: fx.TaskQueued) -> None:
        if effect.params is not None:
            self.size_bytes += 2 * encoded_size(effect.params)
        row = [
            effect.task_id,
            job.job_id,
            effect.node_id,
            effect.queue,
            effect.handler,
            self._turns.next_key(effect.queue, job.job_id, job.namespace, job.fairness_key, job.priority),
            effect.attempt,
            effect.lease_losses,
            effect.timeout_seconds,
            job.priority,
            job.fairness_key,
            job.namespace,
            effect.params,
            job.trace_parent,
        ]
        (mine.tasks if effect.params is not None else mine.rare.tasks_from_nodes).append(row)
        mine.channels.add(queue_channel(effect.queue))

    def _take_rare(self, job: OwnedJob, mine: JobWrites, effect: fx.Effect, command_id: str | None) -> None:
        job_id, writes = job.job_id, mine.rare
        match effect:
            case fx.NodesCreated():
                self.size_bytes += NEW_NODE_BYTES * len(effect.node_ids)
                for node_id, max_retries in zip(effect.node_ids, effect.max_retries, strict=True):
                    mine.new_nodes[node_id] = _new_node(job, node_id, max_retries)
            case fx.ChildrenCreated():
                for child in effect.children:
                    self.size_bytes += encoded_size(child.input_params)
                    mine.new_nodes[child.node_id] = _new_child(job, effect, child)
            case fx.ChildrenCancelled():
                writes.cancelled_children.append([job_id, effect.fan_out_id, effect.start, effect.stop])
            case fx.TaskRequeued():
                key = self._turns.next_key("", job_id, job.namespace, job.fairness_key, job.priority)
                writes.requeued.append([effect.task_id, effect.lease_epoch, effect.lease_losses, key])
            case fx.TaskRevoked():
                writes.revoked.append(RevokedTask(effect.task_id, job_id, effect.lease_epoch))
            case fx.TasksWithdrawn():
                writes.withdrawn_jobs.append(job_id)
                self.continue_soon = True
            case fx.JobChanged():
                self.size_bytes += encoded_size(effect.result)
                _change_job(job_id, writes, effect)
                if job.revision is not None and not writes.revisions:
                    writes.revisions.append(RevisionOfJob(job_id, job.revision))
                if job.revision is not None and effect.status is JobStatus.COMPLETED:
                    writes.completed_revisions.append(CompletedRevision(job.revision, self._catalogue))
                    self.publishes = True
                if effect.status in JOB_TERMINAL:
                    self.ended.append(job_id)
                    writes.channels.add(JOBS_ENDED)
                    if job.tells_end:
                        writes.callbacks.append([job_id, new_id()])
            case fx.WarningsCounted():
                writes.job_warnings = [[job_id, effect.warnings]]
            case fx.ContinueLater():
                self.continues.append((job_id, effect.node_id))
            case fx.AggregationRequested():
                self.aggregations.append((job_id, effect))
            case fx.ChildJobRequested():
                self._child_requests.setdefault(job_id, []).append(effect)
            case fx.ChildJobCancelled():
                writes.cancelled_child_jobs.append([effect.child_job_id, _cancel_command(effect)])
                writes.channels.add(NEW_JOBS)
            case fx.ParentNotified():
                writes.parents.append([effect.parent_job_id, effect.parent_node_id, _child_end(job_id, effect)])
                writes.channels.add(NEW_JOBS)
            case fx.TaskDeadLettered():
                writes.dead_letters.append(_dead_letter(job, effect))
            case fx.RecordsPublished():
                self.publishes = True
                is_ours = self._own_files.of(job.namespace)
                published = Publication(job_id, effect.node_id, effect.records, self._catalogue, is_ours)
                writes.publications.append(published)
            case fx.ApprovalRequested():
                writes.approvals.append(_approval(job, effect))
            case fx.ApprovalClosed():
                writes.approvals = [row for row in writes.approvals if row[1] != effect.node_id]
                writes.closed_approvals.append([job_id, effect.node_id])
            case fx.CommandAnswered():
                if command_id is not None:
                    outcome = "applied" if effect.applied else "refused"
                    writes.answers.append([command_id, outcome, effect.reason])
            case _:
                raise TypeError(f"no rows are known for {type(effect).__name__}")


def encoded_size(value: Any) -> int:
    """The bytes of a value as JSON: for a small one the encoder is quicker than any estimate in Python."""
    return 0 if value is None else len(orjson.dumps(value, default=str))


def _event(job: OwnedJob, effect: fx.EventAppended) -> list[Any]:
    return [
        job.job_id,
        effect.seq,
        job.namespace,
        effect.event_type,
        effect.event_status,
        effect.node_id,
        effect.task_id,
        effect.duration_ms,
        effect.error_message,
        effect.data,
    ]


def _new_node(job: OwnedJob, node_id: str, max_retries: int) -> list[Any]:
    """A row of `insert_nodes`: a node that waits for its dependencies."""
    row: list[Any] = [None] * 17
    row[:5] = [job.job_id, node_id, NodeStatus.PENDING, 1, max_retries]
    row[6] = 0
    row[16] = job.namespace
    return row


def _new_child(job: OwnedJob, effect: fx.ChildrenCreated, child: fx.NewChild) -> list[Any]:
    row = _new_node(job, child.node_id, effect.max_retries)
    row[2] = NodeStatus.READY
    if child.error_message is not None:
        row[2] = NodeStatus.FAILED
    elif child.reused_task_id is not None:
        row[2] = NodeStatus.COMPLETED
    row[9:13] = [effect.fan_out_id, child.index, child.item_key, child.input_params]
    row[14:16] = [child.error_message, child.reused_task_id]
    return row


def _change(job_id: str, mine: JobWrites, effect: fx.NodeChanged) -> None:
    given = [
        job_id,
        effect.node_id,
        effect.status,
        effect.attempt,
        effect.task_id,
        effect.lease_losses,
        effect.next_attempt_at,
        effect.deadline_at,
        effect.input_params,
        effect.output,
        effect.error_message,
        effect.reused_task_id,
        effect.checkpoint_phase,
        effect.checkpoint_data,
        effect.duration_ms,
    ]
    if effect.error is not None:
        given.append(effect.error)
    new = mine.new_nodes.get(effect.node_id)
    if new is not None:
        new[2:4] = given[2:4]
        new[5:9] = [given[4] or new[5], *given[5:8]]
        new[12:16] = [old if value is None else value for value, old in zip(given[8:12], new[12:16], strict=True)]
        if effect.error_message is not None:
            new[17:] = given[15:]
        return
    before = mine.changed.get(effect.node_id)
    if before is not None:
        given[4] = given[4] or before[4]
        if effect.error_message is None:
            given[15:] = before[15:]  # the error goes with its message
        given[8:15] = [old if value is None else value for value, old in zip(given[8:15], before[8:15], strict=True)]
    mine.changed[effect.node_id] = given


def _change_job(job_id: str, writes: Writes, effect: fx.JobChanged) -> None:
    """One row per job: of two in one UPDATE, PostgreSQL would take either."""
    given = [job_id, effect.status, effect.ending, effect.result, effect.error_message, effect.error]
    if writes.jobs:
        before = writes.jobs.pop()
        if before[1] is JobStatus.RUNNING and effect.status in JOB_TERMINAL:
            # It may have started in this very batch; only a row that says so gets the time of its start.
            writes.started_jobs.append(before)
        given[2:] = [old if value is None else value for value, old in zip(given[2:], before[2:], strict=True)]
    writes.jobs.append(given)


def _dead_letter(job: OwnedJob, effect: fx.TaskDeadLettered) -> list[Any]:
    body = {"task_id": effect.task_id, "job_id": job.job_id, "node_id": effect.node_id}
    return [
        f"dl-{effect.task_id}",
        job.namespace,
        effect.queue,
        "lease_lost",
        effect.reason,
        job.job_id,
        effect.node_id,
        effect.task_id,
        body,
    ]


def _approval(job: OwnedJob, effect: fx.ApprovalRequested) -> list[Any]:
    message = None if effect.message is None else effect.message[:MESSAGE_CHARACTERS]
    return [job.job_id, effect.node_id, job.namespace, effect.deadline_at, message, effect.approvers]


def _cancel_command(effect: fx.ChildJobCancelled) -> dict[str, Any]:
    return {"kind": "cancel", "issued_by": "parent job", "body": {"reason": effect.reason}}


def _child_end(job_id: str, effect: fx.ParentNotified) -> dict[str, Any]:
    told: dict[str, Any] = {"child_job_id": job_id, "status": effect.status, "error_message": effect.error_message}
    if effect.error is not None:
        told["error"] = effect.error
    if effect.has_warnings:
        told[WARNED] = True
    return told
