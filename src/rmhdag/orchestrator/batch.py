"""The effects of many jobs become the rows of a few statements.

Several changes of one node in a batch fold into one row: a node that is created, made ready and dispatched by the same
input is inserted once, as dispatched.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rmhdag.engine import effects as fx
from rmhdag.engine.inputs import Start
from rmhdag.models.catalogue import CatalogueKind
from rmhdag.models.states import JOB_TERMINAL, JobStatus, NodeStatus
from rmhdag.orchestrator.effect_rows import (
    approval_request,
    born_with,
    cancel_command,
    child_end,
    dead_letter_row,
    encoded_size,
    event_row,
    merged_change,
    new_child,
    new_node,
    node_change,
    node_decision,
    task_row,
)
from rmhdag.orchestrator.own_files import OwnFiles
from rmhdag.services.reviews import decide_by_record, request_by_record
from rmhdag.storage.settings import StorageSettings
from rmhdag.store.asset_states import RevisionOfJob
from rmhdag.store.batch_rows import (
    ChildCancellation,
    CommandAnswer,
    JobCallback,
    JobChange,
    JobEventRow,
    JobWarnings,
    NewNode,
    NodeChange,
    NodeOfJob,
    ParentNotice,
    PieceOfFanOut,
    QueuedTaskRow,
    RequeuedTask,
)
from rmhdag.store.channels import JOBS_ENDED, NEW_JOBS, queue_channel
from rmhdag.store.identity import new_id
from rmhdag.store.publishing import Publication, Reviews, TakeOver
from rmhdag.store.revision_items import CompletedRevision
from rmhdag.store.settle import OpenedReview, RevokedTask, Writes

if TYPE_CHECKING:
    from rmhdag.orchestrator.owned_jobs import OwnedJob
    from rmhdag.orchestrator.turns import Turns

# About what the row of a new node takes: so jobs of 10,000 nodes begin one per transaction, and small ones together.
NEW_NODE_BYTES = 400
REVIEWS = Reviews(request_by_record, decide_by_record)


class JobWrites:
    """What one job wants written, nodes folded. Made for every job of every batch, so it holds no more than it must."""

    __slots__ = ("_rare", "changed", "channels", "events", "new_nodes", "tasks")

    def __init__(self) -> None:
        self.events: list[JobEventRow] = []
        self.tasks: list[QueuedTaskRow] = []
        self.channels: set[str] = set()
        self.new_nodes: dict[str, NewNode] = {}
        self.changed: dict[str, NodeChange] = {}
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
                    target = getattr(merged, name)
                    target.update(rows) if isinstance(target, set) else target.extend(rows)


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
        self.announces = False  # that a job has started
        self.jobs: dict[str, JobWrites] = {}
        self.continues: list[tuple[str, str]] = []
        self.aggregations: list[tuple[str, fx.AggregationRequested]] = []
        self._child_requests: dict[str, list[fx.ChildJobRequested]] = {}
        self.ended: list[str] = []
        self.size_bytes = 0  # of what may be large: new nodes, parameters, outputs, results, checkpoints

    def take(self, job: OwnedJob, effects: list[fx.Effect], command_id: str | None = None) -> None:
        mine = self.jobs.get(job.job_id)
        if mine is None:
            mine = self.jobs[job.job_id] = JobWrites()
        if job.run.has_large_objects and self._store_large_objects is not None:
            self._store_large_objects(job, effects)
        for effect in effects:
            if isinstance(effect, fx.EventAppended):
                mine.events.append(event_row(job, effect))
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
        completed = [node_id for node_id, node in start.reused.items() if node.status is NodeStatus.COMPLETED]
        if completed or start.reused_children:
            # A fan-out that is kept as a whole brings all its children.
            fan_outs = [*completed, *start.reused_children]
            self.jobs[job_id].rare.taken_over.append(TakeOver(job_id, completed, fan_outs))

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
        key = self._turns.next_key(effect.queue, job.job_id, job.namespace, job.fairness_key, job.priority)
        row = task_row(job, effect, key)
        (mine.tasks if effect.params is not None else mine.rare.tasks_from_nodes).append(row)
        mine.channels.add(queue_channel(effect.queue))

    def _take_rare(self, job: OwnedJob, mine: JobWrites, effect: fx.Effect, command_id: str | None) -> None:
        job_id, writes = job.job_id, mine.rare
        match effect:
            case fx.NodesCreated():
                self.size_bytes += NEW_NODE_BYTES * len(effect.node_ids)
                for node_id, max_retries in zip(effect.node_ids, effect.max_retries, strict=True):
                    mine.new_nodes[node_id] = new_node(job, node_id, max_retries)
            case fx.ChildrenCreated():
                for child in effect.children:
                    self.size_bytes += encoded_size(child.input_params)
                    mine.new_nodes[child.node_id] = new_child(job, effect, child)
            case fx.ChildrenCancelled():
                writes.cancelled_children.append(PieceOfFanOut(job_id, effect.fan_out_id, effect.start, effect.stop))
            case fx.TaskRequeued():
                key = self._turns.next_key("", job_id, job.namespace, job.fairness_key, job.priority)
                writes.requeued.append(
                    RequeuedTask(effect.task_id, effect.lease_epoch, lease_losses=effect.lease_losses, order_key=key)
                )
            case fx.TaskRevoked():
                writes.revoked.append(RevokedTask(effect.task_id, job_id, effect.lease_epoch))
            case fx.TasksWithdrawn():
                writes.withdrawn_jobs.append(job_id)
            case fx.JobChanged():
                self.size_bytes += encoded_size(effect.result)
                _change_job(job_id, writes, effect)
                if job.revision is not None and not writes.revisions:
                    writes.revisions.append(RevisionOfJob(job_id, job.revision))
                if job.revision is not None and effect.status is JobStatus.COMPLETED:
                    writes.completed_revisions.append(CompletedRevision(job.revision, self._catalogue))
                    self.publishes = True
                if effect.status is JobStatus.RUNNING and effect.ending is None and job.tells_end:
                    self.announces = True
                    writes.start_callbacks.append(JobCallback(job_id, callback_id=new_id()))
                if effect.status in JOB_TERMINAL:
                    self.ended.append(job_id)
                    writes.channels.add(JOBS_ENDED)
                    if job.tells_end:
                        writes.callbacks.append(JobCallback(job_id, callback_id=new_id()))
            case fx.WarningsCounted():
                writes.job_warnings = [JobWarnings(job_id, effect.warnings)]
            case fx.ContinueLater():
                self.continues.append((job_id, effect.node_id))
            case fx.AggregationRequested():
                self.aggregations.append((job_id, effect))
            case fx.ChildJobRequested():
                self._child_requests.setdefault(job_id, []).append(effect)
            case fx.ChildJobCancelled():
                writes.cancelled_child_jobs.append(ChildCancellation(effect.child_job_id, cancel_command(effect)))
                writes.channels.add(NEW_JOBS)
            case fx.ParentNotified():
                notice = ParentNotice(effect.parent_job_id, effect.parent_node_id, payload=child_end(job_id, effect))
                writes.parents.append(notice)
                writes.channels.add(NEW_JOBS)
            case fx.TaskDeadLettered():
                writes.dead_letters.append(dead_letter_row(job, effect))
            case fx.RecordsPublished():
                self.publishes = True
                is_ours = self._own_files.of(job.namespace)
                published = Publication(
                    job_id,
                    effect.node_id,
                    effect.records,
                    self._catalogue,
                    is_ours,
                    REVIEWS,
                )
                writes.publications.append(published)
            case fx.ApprovalRequested():
                writes.approvals.append(approval_request(job, effect))
                if job.revision is not None:
                    writes.opened_reviews.append(OpenedReview(job.revision, effect.message))
            case fx.ApprovalDecided():
                if job.revision is not None:
                    writes.decisions.append(node_decision(job.revision, effect))
            case fx.ApprovalClosed():
                writes.approvals = [row for row in writes.approvals if row.node_id != effect.node_id]
                writes.closed_approvals.append(NodeOfJob(job_id, effect.node_id))
            case fx.CommandAnswered():
                if command_id is not None:
                    outcome = "applied" if effect.applied else "refused"
                    writes.answers.append(CommandAnswer(command_id, outcome, effect.reason))
            case _:
                raise TypeError(f"no rows are known for {type(effect).__name__}")


def _change(job_id: str, mine: JobWrites, effect: fx.NodeChanged) -> None:
    change = node_change(job_id, effect)
    new = mine.new_nodes.get(effect.node_id)
    if new is not None:
        mine.new_nodes[effect.node_id] = born_with(new, change)
        return
    before = mine.changed.get(effect.node_id)
    mine.changed[effect.node_id] = change if before is None else merged_change(before, change)


def _change_job(job_id: str, writes: Writes, effect: fx.JobChanged) -> None:
    """One row per job: of two in one UPDATE, PostgreSQL would take either."""
    change = JobChange(job_id, effect.status, effect.ending, effect.result, effect.error_message, effect.error)
    if writes.jobs:
        before = writes.jobs.pop()
        if before.status is JobStatus.RUNNING and effect.status in JOB_TERMINAL:
            # It may have started in this very batch; only a row that says so gets the time of its start.
            writes.started_jobs.append(before)
        change = change._replace(
            ending=before.ending if change.ending is None else change.ending,
            result=before.result if change.result is None else change.result,
            error_message=before.error_message if change.error_message is None else change.error_message,
            error=before.error if change.error is None else change.error,
        )
    writes.jobs.append(change)
