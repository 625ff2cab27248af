"""What must always hold (I1–I9), checked after every transaction from an audit trail that the guards do not touch."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from random import Random
from typing import Any

from rmhdag.engine import effects as fx
from rmhdag.engine.inputs import CancelJob, RetryNode, TaskReported
from rmhdag.engine.plan import Plan
from rmhdag.engine.run import JobRun
from rmhdag.lab.simulation import reads
from rmhdag.lab.simulation.aggregates import compare
from rmhdag.lab.simulation.expected import Dependencies, all_settled, expected_aggregate, tolerated_failures
from rmhdag.lab.simulation.rows import Claimed, Committed, Heard, JobRow, JobWrite, Leased, NodeRow, Recorded
from rmhdag.lab.simulation.store import Store
from rmhdag.lab.simulation.violation import Violation
from rmhdag.models.events import EventType
from rmhdag.models.limits import CHILD_DEPTH
from rmhdag.models.references import as_reference
from rmhdag.models.states import (
    JOB_TERMINAL,
    JOB_TRANSITIONS,
    NODE_TERMINAL,
    JobEnding,
    JobStatus,
    NodeStatus,
    NodeType,
)

_JOB_ENDS = (EventType.JOB_COMPLETED, EventType.JOB_FAILED, EventType.JOB_CANCELLED)


class Checker:
    """Remembers of the past what the invariants need; looks at rows and audit entries, never at guards."""

    def __init__(self, store: Store, plans: dict[str, Plan], counts: Counter[str]) -> None:
        self._store = store
        self._plans = plans
        self._seen = counts
        self._owners: dict[str, tuple[str, int]] = {}
        self._leases: dict[str, int] = {}
        self._consumed: dict[int, None] = {}
        self._answered: dict[str, None] = {}
        self._grants: Counter[tuple[str, str]] = Counter()
        self._jobs: dict[str, JobStatus] = {}
        self._endings: dict[str, JobEnding] = {}
        self._nodes: dict[tuple[str, str], NodeStatus] = {}
        self._queued: dict[str, None] = {}
        self._losses: Counter[str] = Counter()
        self._retry_at: dict[tuple[str, str | None], str] = {}
        self._completions: dict[tuple[str, str | None], None] = {}
        self._children: Counter[tuple[str, str]] = Counter()
        self._dependencies: dict[str, Dependencies] = {}
        self._owed_since: dict[tuple[str, int], datetime] = {}

    def check_audit(self) -> None:
        entries, self._store.audit = self._store.audit, []
        for entry in entries:
            match entry:
                case Claimed(job_id, owner_id, owner_epoch):
                    if owner_epoch <= self._owners.get(job_id, ("", 0))[1] and owner_id:
                        raise Violation("I3 epochs grow", f"{job_id} was claimed with epoch {owner_epoch} again")
                    self._owners[job_id] = (owner_id, owner_epoch)
                case Committed(owner_id, write):
                    self._check_write(owner_id, write)
                case Leased(task_id, lease_epoch):
                    if lease_epoch <= self._leases.get(task_id, 0):
                        raise Violation("I3 epochs grow", f"{task_id} was leased with epoch {lease_epoch} again")
                    self._leases[task_id] = lease_epoch
                case Heard(task_id, lease_epoch):
                    self._check_lease(task_id, lease_epoch)
                case Recorded(result):
                    self._check_lease(result.task_id, result.lease_epoch)
                    if len(self._store.results[result.task_id]) > 1:
                        where = f"{result.job_id}/{result.node_id}/{result.attempt}"
                        raise Violation("I6 one result per task", where)

    def _check_lease(self, task_id: str, lease_epoch: int) -> None:
        if lease_epoch != self._leases[task_id]:
            message = f"{task_id}: heard about lease {lease_epoch}, the newest is {self._leases[task_id]}"
            raise Violation("I3 no stale lease", message)

    def _check_write(self, owner_id: str, write: JobWrite) -> None:
        job = self._store.jobs[write.job_id]
        if self._owners.get(write.job_id) != (owner_id, write.owner_epoch):
            owner = self._owners.get(write.job_id)
            message = f"{owner_id} wrote {write.job_id} with epoch {write.owner_epoch}, its owner is {owner}"
            raise Violation("I3 only the owner writes", message)
        for inbox_id in write.consumed:
            if inbox_id in self._consumed:
                raise Violation("I6 inputs count once", f"{write.job_id}: inbox row {inbox_id} was consumed twice")
            self._consumed[inbox_id] = None
        for command_id, answer in write.answers:
            if command_id in self._answered:
                raise Violation("commands have one outcome", f"{command_id} was answered twice")
            self._answered[command_id] = None
            job_input = self._store.commands[command_id].given
            if isinstance(job_input, RetryNode) and answer.applied:
                self._grants[job.job_id, job_input.node_id] += 1
        changed: dict[str, None] = {}
        for effect in write.effects:
            self._seen[f"effect {type(effect).__name__}"] += 1
            self._check_effect(job, effect, changed)
        rows = self._store.nodes[job.job_id]
        for node_id in changed:
            if rows[node_id].parent_node_id is None:
                self._check_node(job, rows[node_id], rows)
        if job.status in JOB_TERMINAL:
            self._check_ended(job)

    def _check_effect(self, job: JobRow, effect: fx.Effect, changed: dict[str, None]) -> None:
        match effect:
            case fx.NodesCreated():
                self._nodes.update({(job.job_id, node_id): NodeStatus.PENDING for node_id in effect.node_ids})
            case fx.ChildrenCreated():
                self._check_children(job, effect)
            case fx.ChildrenCancelled():
                for index in range(effect.start, effect.stop):
                    key = (job.job_id, f"{effect.fan_out_id}__{index}")
                    if self._nodes[key] is NodeStatus.READY:
                        self._nodes[key] = NodeStatus.CANCELLED
            case fx.NodeChanged():
                self._check_change(job, effect)
                changed[effect.node_id] = None
            case fx.TaskQueued():
                self._check_queued(job, effect)
            case fx.EventAppended():
                self._check_event(job, effect)
            case fx.ChildJobRequested():
                self._seen[f"depth {effect.depth}"] += 1
                if effect.depth != job.depth + 1 or effect.depth > CHILD_DEPTH:
                    raise Violation("child jobs are not nested without end", f"{job.job_id}: depth {effect.depth}")
            case fx.TaskRevoked():
                for row in self._store.inbox.values():
                    if row.task_id == effect.task_id and isinstance(row.given, TaskReported):
                        raise Violation("I6 no recorded result is thrown away", f"{job.job_id}: {effect.task_id}")
            case fx.TaskDeadLettered():
                if self._losses[effect.task_id] < 3:
                    message = f"{job.job_id}/{effect.node_id} after {self._losses[effect.task_id]} losses"
                    raise Violation("E4 a lost worker is not the node's failure", message)
            case fx.JobChanged():
                before = self._jobs.get(job.job_id, JobStatus.PENDING)
                if effect.status is not before and effect.status not in JOB_TRANSITIONS[before]:
                    raise Violation("I2 ends stay", f"{job.job_id}: {before} → {effect.status}")
                if before in JOB_TERMINAL:
                    raise Violation("I2 ends stay", f"{job.job_id} was {before} and is written again")
                if effect.ending is not None and self._endings.setdefault(job.job_id, effect.ending) != effect.ending:
                    raise Violation("I2 ends stay", f"{job.job_id}: {self._endings[job.job_id]} → {effect.ending}")
                self._jobs[job.job_id] = effect.status

    def _check_children(self, job: JobRow, effect: fx.ChildrenCreated) -> None:
        rows = self._store.nodes[job.job_id]
        for child in effect.children:
            expected = self._children[job.job_id, effect.fan_out_id]
            if child.index != expected or child.node_id != f"{effect.fan_out_id}__{expected}":
                message = f"{job.job_id}: {child.node_id} with index {child.index} instead of {expected}"
                raise Violation("children are contiguous", message)
            self._children[job.job_id, effect.fan_out_id] += 1
            born = NodeStatus.READY
            if child.error_message is not None or child.reused_task_id is not None:
                born = NodeStatus.FAILED if child.error_message is not None else NodeStatus.COMPLETED
            self._nodes[job.job_id, child.node_id] = born
        if rows[effect.fan_out_id].status is NodeStatus.PENDING:
            raise Violation("I4 nothing starts early", f"{job.job_id}/{effect.fan_out_id} expands while pending")

    def _check_change(self, job: JobRow, effect: fx.NodeChanged) -> None:
        key = (job.job_id, effect.node_id)
        before = self._nodes[key]
        if before in NODE_TERMINAL and not (before is NodeStatus.FAILED and self._grants[key]):
            raise Violation("I2 ends stay", f"{job.job_id}/{effect.node_id}: {before} → {effect.status}")
        self._nodes[key] = effect.status

    def _check_queued(self, job: JobRow, effect: fx.TaskQueued) -> None:
        where = f"{job.job_id}/{effect.node_id}/{effect.attempt}"
        if effect.task_id in self._queued:
            raise Violation("I6 a task is queued once", where)
        self._queued[effect.task_id] = None
        rows = self._store.nodes[job.job_id]
        row = rows[effect.node_id]
        allowed = row.max_retries + 1 + self._grants[job.job_id, effect.node_id]
        if effect.attempt > allowed:
            raise Violation("I7 attempts are bounded", f"{where}: {allowed} are allowed")
        # Times in ISO form sort as they follow each other, as long as all of them are UTC.
        early = self._store.clock().isoformat() < self._retry_at.get((job.job_id, effect.node_id), "")
        if effect.attempt > 1 and early and not self._grants[job.job_id, effect.node_id]:
            raise Violation("E4 retries wait", f"{where}: due at {self._retry_at[job.job_id, effect.node_id]}")
        params = effect.params if effect.params is not None else row.input_params
        for name, value in (params or {}).items():
            self._check_seen_output(where, rows.get(name), value)
        if row.parent_node_id is not None:
            self._check_max_parallel(job, row.parent_node_id)

    def _check_seen_output(self, where: str, source: NodeRow | None, value: Any) -> None:
        """Downstream saw the one accepted result."""
        if source is None or value == "none":
            return
        result = reads.accepted_result(self._store, source)
        if result is None or source.status is not NodeStatus.COMPLETED or result.output["by"] != value:
            raise Violation("I6 downstream saw the result", f"{where} was given {value} of {source.node_id}")

    def _check_max_parallel(self, job: JobRow, fan_out_id: str) -> None:
        limit = self._plans[job.workflow_id].by_id[fan_out_id].max_parallel
        if limit is None:
            return
        out = (NodeStatus.DISPATCHED, NodeStatus.RUNNING)
        busy = sum(row.status in out for row in reads.children_of(self._store, job.job_id, fan_out_id))
        if busy > limit:
            raise Violation("max_parallel holds", f"{job.job_id}/{fan_out_id}: {busy} under way, {limit} allowed")

    def _check_event(self, job: JobRow, effect: fx.EventAppended) -> None:
        self._seen[f"event {effect.event_type}"] += 1
        if effect.event_type is EventType.NODE_LOST and effect.task_id is not None:
            self._losses[effect.task_id] += 1
        if effect.event_type is EventType.NODE_RETRYING:
            self._retry_at[job.job_id, effect.node_id] = effect.data["next_attempt_at"]
        if effect.event_type is EventType.NODE_COMPLETED or effect.event_type in _JOB_ENDS:
            key = (job.job_id, effect.node_id)
            if key in self._completions:
                raise Violation("I9 nothing completes twice", f"{job.job_id}/{effect.node_id or 'the job itself'}")
            self._completions[key] = None

    def _check_node(self, job: JobRow, row: NodeRow, rows: dict[str, NodeRow]) -> None:
        plan = self._plans[job.workflow_id]
        where = f"{job.job_id}/{row.node_id}"
        dependencies = self._dependencies.get(job.workflow_id)
        if dependencies is None:
            dependencies = self._dependencies[job.workflow_id] = Dependencies(plan.definition)
        if row.status is NodeStatus.SKIPPED:
            if job.ending is None and not dependencies.must_skip(row.node_id, rows):
                raise Violation("E3 only dead branches are skipped", where)
        elif row.status not in (NodeStatus.PENDING, NodeStatus.CANCELLED) and not dependencies.may_start(
            row.node_id, rows
        ):
            raise Violation("I4 nothing starts early", f"{where} is {row.status}")
        if row.status not in (NodeStatus.COMPLETED, NodeStatus.FAILED) or row.node_id in job.rerun.reused:
            return  # a rerun takes over the outcome; the children stay with the job that made it
        node = plan.by_id[row.node_id]
        if node.type is NodeType.FAN_OUT and row.output is not None:
            children = reads.children_of(self._store, job.job_id, row.node_id)
            if not all_settled(children, row.output["total"]):
                raise Violation("I9 a fan-out waits for its children", where)
            fails = node.fan_in_index < 0 and any(child.status is NodeStatus.FAILED for child in children)
            if fails != (row.status is NodeStatus.FAILED):
                raise Violation("W7 the fan-in judges, else the fan-out", f"{where} is {row.status}")
        elif node.type is NodeType.FAN_IN:
            self._check_fan_in(job, row, node.definition)

    def _check_fan_in(self, job: JobRow, row: NodeRow, node: Any) -> None:
        children = reads.children_of(self._store, job.job_id, node.source_node)
        fan_out = self._store.nodes[job.job_id][node.source_node]
        if fan_out.status is NodeStatus.COMPLETED and not all_settled(children, fan_out.output["total"]):
            message = f"{job.job_id}/{row.node_id}: {len(children)} of {fan_out.output['total']}"
            raise Violation("I9 a fan-in takes all children", message)
        done = [child for child in children if child.status is NodeStatus.COMPLETED]
        results = [reads.accepted_result(self._store, child) for child in done]
        outputs = [result.output for result in results if result is not None]
        failures = sum(child.status is NodeStatus.FAILED for child in children)
        expected = expected_aggregate(node, outputs, failures)
        if failures > tolerated_failures(node, len(children)):
            expected = None
        output = row.output if row.status is NodeStatus.COMPLETED else None
        reference = as_reference(output)
        if reference is not None:
            output = self._store.payloads[reference.sha256]
        if output is not None and "failures" in output:
            output = {**output, "failures": len(output["failures"])}
        if output != expected:
            raise Violation("I9 a fan-in takes all children", f"{job.job_id}/{row.node_id}: {output} ≠ {expected}")

    def _check_ended(self, job: JobRow) -> None:
        store = self._store
        intended = JobStatus.COMPLETED if job.ending is None else JobStatus(job.ending)
        if job.status is not intended:
            raise Violation("a job ends as it set out to", f"{job.job_id} is {job.status}, ending was {job.ending}")
        for row in store.nodes[job.job_id].values():
            if row.status not in NODE_TERMINAL:
                raise Violation(
                    "a job ends after its nodes", f"{job.job_id} is {job.status}, {row.node_id} is {row.status}"
                )
            if (job.job_id, row.node_id) in store.timers:
                raise Violation("no timer outlives its job", f"{job.job_id}/{row.node_id}")
        remaining = [row.node_id for row in store.queue.values() if row.job_id == job.job_id]
        if remaining:
            raise Violation("no queue row outlives its job", f"{job.job_id}: {' '.join(remaining)}")

    def check_aggregate(self, run: JobRun, rng: Random, windows: dict[str, int]) -> None:
        """I8: sometimes only the counters, sometimes everything that a reload would give."""
        dice = rng.random()
        if dice >= 0.3:
            return
        store = self._store
        job = store.jobs[run.job_id]
        self._seen["check counters"] += 1
        compare(store, run, job, reload=dice < 0.1, windows=windows)
        if dice < 0.1:
            self._seen["check reload"] += 1
            self._check_tasks_out(job)

    def _check_tasks_out(self, job: JobRow) -> None:
        """A task that is out has its queue row, or news of it are on their way."""
        reported_ids = {row.task_id: None for row in self._store.inbox.values()}
        for row in self._store.nodes[job.job_id].values():
            if row.status not in (NodeStatus.DISPATCHED, NodeStatus.RUNNING) or row.task_id is None:
                continue
            out = self._store.queue.get(row.task_id)
            is_child_job = row.node_id in self._plans[job.workflow_id].by_id and (
                self._plans[job.workflow_id].by_id[row.node_id].type is NodeType.WORKFLOW
            )
            if is_child_job or row.task_id in reported_ids:
                continue
            if out is None:
                raise Violation("a task that is out can come back", f"{job.job_id}/{row.node_id}/{row.attempt}")
            if row.status is NodeStatus.RUNNING and not out.started:
                raise Violation("running means started", f"{job.job_id}/{row.node_id}/{row.attempt}")

    def check_end(self) -> None:
        store = self._store
        for job in store.jobs.values():
            if self._jobs.get(job.job_id, JobStatus.PENDING) is not job.status or job.status not in JOB_TERMINAL:
                raise Violation("I1 every job ends once", f"{job.job_id} is {job.status}")
            self._seen[f"job {job.status}"] += 1
            for row in store.nodes[job.job_id].values():
                if self._nodes[job.job_id, row.node_id] is not row.status:
                    raise Violation("I8 rows change only by commits", f"{job.job_id}/{row.node_id}")
                self._seen[f"node {row.status}"] += 1
            if (job.job_id, None) not in self._completions:
                raise Violation("I1 every job ends once", f"{job.job_id} has no event of its end")
            seqs = [job_input.seq for job_input in store.events[job.job_id]]
            if seqs != list(range(1, len(seqs) + 1)):
                raise Violation("events are numbered without gaps", f"{job.job_id}: {seqs}")
            self._check_result(job)
        for command in store.commands.values():
            if isinstance(command.given, CancelJob) and command.applied:
                job = store.jobs[command.job_id]
                if job.status is not JobStatus.CANCELLED:
                    raise Violation("E6 cancelled means cancelled", f"{job.job_id} is {job.status}")
        open_commands = [command.command_id for command in store.commands.values() if command.applied is None]
        if open_commands:
            raise Violation("commands have one outcome", f"never answered: {' '.join(open_commands)}")
        if len(dict.fromkeys(store.dead_letters)) != len(store.dead_letters):
            raise Violation("a task is dead-lettered once", " ".join(store.dead_letters))

    def _check_result(self, job: JobRow) -> None:
        rows = self._store.nodes[job.job_id].values()
        if job.status is JobStatus.COMPLETED:
            declared = self._plans[job.workflow_id].definition.outputs
            if declared is not None and list(job.result or {}) != list(declared):
                raise Violation("the result is what the workflow declares", f"{job.job_id}: {job.result}")
            done = (NodeStatus.COMPLETED, NodeStatus.SKIPPED)
            if any(row.status not in done for row in rows if row.parent_node_id is None):
                raise Violation("completed means all nodes did", job.job_id)
        elif not job.error_message:
            raise Violation("an end that is not good says why", job.job_id)
        published = Counter(self._store.published)
        for row in rows:
            result = reads.accepted_result(self._store, row)
            if row.status is not NodeStatus.COMPLETED or result is None or row.reused_task_id is not None:
                continue
            if result.task_id != row.task_id or not result.success:
                raise Violation("I6 downstream saw the result", f"{job.job_id}/{row.node_id} completed without one")
            if published[result.task_id] != bool(result.records):
                raise Violation("D8 succeeded means published", f"{job.job_id}/{row.node_id}")
            if (job.result or {}).get(row.node_id, result.output) != result.output and not result.is_large:
                raise Violation("I6 downstream saw the result", f"{job.job_id}: result of {row.node_id}")

    def check_overdue(self, since: datetime) -> None:
        """In a world without faults a time that has passed is acted upon, except that an ending job waits it out."""
        for (job_id, node_id), row in self._store.timers.items():
            times = [at for at in (row.next_attempt_at, row.deadline_at) if at is not None]
            if min(times) < since and self._store.jobs[job_id].ending is None:
                raise Violation("E5 timers fire", f"{job_id}/{node_id} was due at {min(times)}")

    def check_owed(self, now: datetime, seconds: float) -> None:
        """A job for which nobody works, and which waits for nothing, is owed something; its owner must serve it."""
        store = self._store
        waiting = {row.job_id for row in store.queue.values()} | {row.job_id for row in store.inbox.values()}
        waiting |= {job_id for job_id, _ in (*store.timers, *store.approvals)}
        open_jobs = [job for job in store.jobs.values() if job.status not in JOB_TERMINAL]
        waiting |= {job.parent_job_id for job in open_jobs if job.parent_job_id is not None}
        owed = {(job.job_id, job.version) for job in open_jobs if job.job_id not in waiting}
        self._owed_since = {key: self._owed_since.get(key, now) for key in owed}
        for (job_id, _), since in self._owed_since.items():
            if (now - since).total_seconds() > seconds:
                raise Violation("nothing owed is left", f"{job_id} since {since}: {self.what_is_stuck()}")

    def what_is_stuck(self) -> str:
        store = self._store
        lines = []
        for job in store.jobs.values():
            if job.status not in JOB_TERMINAL:
                rows = store.nodes[job.job_id].values()
                nodes = " ".join(f"{row.node_id}={row.status}" for row in rows if row.status not in NODE_TERMINAL)
                lines.append(f"{job.job_id} {job.status} ending={job.ending} owner={job.owner_id}: {nodes[:600]}")
        queue = " ".join(f"{row.job_id}/{row.node_id}/{row.attempt}" for row in store.queue.values())
        inbox = " ".join(f"{row.job_id}→{row.owner_id}" for row in store.inbox.values())
        return f"{'; '.join(lines)}; queue: {queue[:400]}; inbox: {inbox[:400]}"
