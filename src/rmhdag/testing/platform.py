"""An orchestrator in memory: the production engine on a virtual clock, with effects that a test can inspect."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from typing import Any

import orjson

from rmhdag.engine import effects as fx
from rmhdag.engine import inputs
from rmhdag.engine.inputs import Output
from rmhdag.engine.plan import Plan
from rmhdag.engine.reducer import ReduceError, Reducer
from rmhdag.engine.run import JobFacts, JobRun
from rmhdag.handlers import Checkpoint, DataWarning
from rmhdag.models.states import JobStatus, NodeStatus, NodeType
from rmhdag.testing.clock import VirtualClock
from rmhdag.testing.jobs import Approval, Decision, Event, Node, VirtualJob, default_approver
from rmhdag.testing.workers import Task, VirtualWorkers
from rmhdag.workflow import InvalidInputs, validate_inputs
from rmhdag.workflow.definition import WorkflowDefinition

# In the middle of its range: delays are exactly as the retry rule says.
JITTER = 0.5


class VirtualPlatform:
    """One job of a test, with its child jobs."""

    def __init__(
        self,
        clock: VirtualClock,
        workers: VirtualWorkers,
        workflows: Mapping[str, WorkflowDefinition],
        queues: Mapping[str, str],
        decisions: Mapping[str, Decision],
        env: Mapping[str, str],
    ) -> None:
        self.clock = clock
        self.workers = workers
        self.decisions = decisions
        self.jobs: dict[str, RunningJob] = {}
        self.answer = fx.CommandAnswered(False, "")
        self._workflows = workflows
        self._queues = queues
        self._env = env
        self._plans: dict[str, Plan] = {}

    def submit(self, workflow_id: str, params: Mapping[str, Any]) -> VirtualJob:
        """Raises InvalidInputs."""
        return self.new_job(f"{len(self.jobs) + 1:032x}", workflow_id, params).seen

    def run(self, seconds: float | None = None) -> None:
        """Run for this many seconds, or until the first job has ended or waits for a person."""
        until = None if seconds is None else self.clock.after(seconds)
        first = next(iter(self.jobs.values())).seen
        self.clock.settle()
        while not first.has_ended and self.clock.advance(until):
            pass
        if until is not None:
            self.clock.now = max(self.clock.now, until)
        for job in self.jobs.values():
            if not job.seen.has_ended:
                job.seen.seconds = job.seconds()

    def command(self, job_id: str, job_input: inputs.Input) -> fx.CommandAnswered:
        self.clock.settle()
        self.jobs[job_id].apply(job_input)
        return self.answer

    def has_workflow(self, workflow_id: str) -> bool:
        return workflow_id in self._workflows

    def new_job(
        self,
        job_id: str,
        workflow_id: str,
        params: Mapping[str, Any],
        parent: RunningJob | None = None,
        requested: fx.ChildJobRequested | None = None,
    ) -> RunningJob:
        definition = self._workflows[workflow_id]
        complete = validate_inputs(definition, dict(params))
        if workflow_id not in self._plans:
            self._plans[workflow_id] = Plan(definition, self._queues)
        facts = JobFacts(job_id, complete, env=self._env)
        if parent is not None and requested is not None:
            facts.parent_job_id, facts.parent_node_id = parent.seen.job_id, requested.node_id
            facts.depth = requested.depth
        run = JobRun(self._plans[workflow_id], facts)
        job = RunningJob(self, VirtualJob(self, job_id, workflow_id, complete), run, parent, requested)
        self.jobs[job_id] = job
        self.clock.soon(partial(job.apply, inputs.Start()))
        return job


class RunningJob:
    """A job inside its orchestrator; `seen` is the object that the test inspects."""

    def __init__(
        self,
        platform: VirtualPlatform,
        job: VirtualJob,
        run: JobRun,
        parent: RunningJob | None,
        requested: fx.ChildJobRequested | None,
    ) -> None:
        self.seen = job
        self._platform = platform
        self._clock = platform.clock
        self._workers = platform.workers
        self._run = run
        self._began_at = platform.clock.now
        self._parent = parent
        self._requested = requested
        self._tasks: dict[str, Task] = {}

    def seconds(self) -> float:
        """Seconds since the job was submitted."""
        return (self._clock.now - self._began_at).total_seconds()

    def apply(self, job_input: inputs.Input) -> None:
        for effect in self._run.apply(job_input, self._clock.now, JITTER):
            RULES[type(effect)](self, effect)

    def _soon(self, job_input: inputs.Input) -> None:
        self._clock.soon(partial(self.apply, job_input))

    # -- rows --------------------------------------------------------------------------------------------------

    def nodes_created(self, effect: fx.NodesCreated) -> None:
        for node_id in effect.node_ids:
            self.seen.nodes[node_id] = Node(node_id, self._run.plan.by_id[node_id].type)

    def children_created(self, effect: fx.ChildrenCreated) -> None:
        for child in effect.children:
            node = Node(child.node_id, NodeType.TASK, NodeStatus.READY, params=child.input_params)
            node.item_key = child.item_key
            if child.error_message is not None:
                node.status, node.error_message = NodeStatus.FAILED, child.error_message
            self.seen.nodes[child.node_id] = node
            self.seen.nodes[effect.fan_out_id].children.append(node)

    def children_cancelled(self, effect: fx.ChildrenCancelled) -> None:
        for child in self.seen.nodes[effect.fan_out_id].children[effect.start : effect.stop]:
            if child.status is NodeStatus.READY:
                child.status = NodeStatus.CANCELLED
                child.next_attempt_at = child.deadline_at = None

    def warnings_counted(self, effect: fx.WarningsCounted) -> None:
        self.seen.warnings = [DataWarning(**warning) for warning in effect.warnings]

    def node_changed(self, effect: fx.NodeChanged) -> None:
        node = self.seen.nodes[effect.node_id]
        node.status, node.attempt, node.lease_losses = effect.status, effect.attempt, effect.lease_losses
        if effect.input_params is not None:
            node.params = effect.input_params
        if effect.output is not None:
            node.output = effect.output
        if effect.status is NodeStatus.COMPLETED:
            node.error_message = None
        elif effect.error_message is not None:
            node.error_message = effect.error_message
        if effect.checkpoint_phase is not None:
            node.checkpoint = Checkpoint(effect.checkpoint_phase, effect.checkpoint_data)
        due, deadline = effect.next_attempt_at, effect.deadline_at
        is_due_new, is_deadline_new = due != node.next_attempt_at, deadline != node.deadline_at
        node.next_attempt_at, node.deadline_at = due, deadline
        if due is not None and is_due_new:
            self._set_timer(node, inputs.Timer.RETRY, due, lambda: node.next_attempt_at != due)
        if deadline is not None and is_deadline_new:
            self._set_timer(node, inputs.Timer.DEADLINE, deadline, lambda: node.deadline_at != deadline)

    def _set_timer(self, node: Node, timer: inputs.Timer, at: datetime, is_void: Callable[[], bool]) -> None:
        def act() -> None:
            self.apply(inputs.TimerDue(node.node_id, node.attempt, timer))

        self._clock.at(at, act, is_void, is_patience=node.type is NodeType.APPROVAL)

    def job_changed(self, effect: fx.JobChanged) -> None:
        self.seen.status = effect.status
        self.seen.outputs = effect.result or self.seen.outputs
        self.seen.error_message = effect.error_message or self.seen.error_message
        self.seen.seconds = self.seconds()

    def event_appended(self, effect: fx.EventAppended) -> None:
        about = (effect.event_type, effect.event_status, effect.node_id, effect.data, effect.error_message)
        self.seen.events.append(Event(effect.seq, self.seconds(), *about))

    def records_published(self, effect: fx.RecordsPublished) -> None:
        self.seen.records += effect.records

    # -- tasks -------------------------------------------------------------------------------------------------

    def task_queued(self, effect: fx.TaskQueued) -> None:
        params = self.seen.nodes[effect.node_id].params if effect.params is None else effect.params
        task = self._tasks[effect.task_id] = Task(self, effect, params)
        self._clock.soon(partial(self._workers.claim, task))

    def task_requeued(self, effect: fx.TaskRequeued) -> None:
        task = self._tasks[effect.task_id]
        task.lease_epoch += 1
        self._clock.soon(partial(self._workers.claim, task))

    def task_revoked(self, effect: fx.TaskRevoked) -> None:
        self._workers.withdraw(self._tasks[effect.task_id])

    def tasks_withdrawn(self, effect: fx.TasksWithdrawn) -> None:
        for task in self._tasks.values():
            if not task.is_gone:
                self._workers.withdraw(task)
                self._soon(inputs.TaskWithdrawn(*task.about))

    def task_dead_lettered(self, effect: fx.TaskDeadLettered) -> None:
        self.seen.dead_letters.append(effect.node_id)

    # -- what waits without a worker ---------------------------------------------------------------------------

    def child_job_requested(self, effect: fx.ChildJobRequested) -> None:
        refusal = f"there is no workflow {effect.workflow_id!r} to run as a child job"
        if self._platform.has_workflow(effect.workflow_id):
            try:
                child = self._platform.new_job(
                    effect.child_job_id, effect.workflow_id, effect.input_params, self, effect
                )
                self.seen.child_jobs[effect.node_id] = child.seen
                return
            except InvalidInputs as error:
                refusal = str(error)
        ended = inputs.ChildJobEnded(effect.node_id, effect.attempt, effect.child_job_id, JobStatus.FAILED)
        ended.error_message = refusal
        self._soon(ended)

    def child_job_cancelled(self, effect: fx.ChildJobCancelled) -> None:
        self._platform.jobs[effect.child_job_id]._soon(inputs.CancelJob(self.seen.job_id, effect.reason))

    def parent_notified(self, effect: fx.ParentNotified) -> None:
        assert self._parent is not None
        assert self._requested is not None
        ended = inputs.ChildJobEnded(effect.parent_node_id, self._requested.attempt, self.seen.job_id, effect.status)
        ended.output = None if effect.result is None else Output(effect.result)
        ended.error_message = effect.error_message
        self._parent._soon(ended)

    def approval_requested(self, effect: fx.ApprovalRequested) -> None:
        node_id = effect.node_id
        self.seen.approvals[node_id] = Approval(node_id, effect.message, effect.params, effect.approvers)
        decision = self._platform.decisions.get(node_id)
        if decision is not None:
            node = self.seen.nodes[node_id]
            by = decision.by or default_approver(effect.approvers)
            decided = inputs.Decided(node_id, decision.approved, by, decision.reason)
            at = self._clock.after(decision.after_seconds)
            self._clock.at(at, partial(self.apply, decided), lambda: node.status is not NodeStatus.RUNNING)

    def approval_closed(self, effect: fx.ApprovalClosed) -> None:
        pass  # `approvals` contains all that were requested

    def approval_decided(self, effect: fx.ApprovalDecided) -> None:
        pass  # there are no revisions here

    def aggregation_requested(self, effect: fx.AggregationRequested) -> None:
        self._clock.soon(lambda: self.apply(self._reduced(effect)))

    def _reduced(self, effect: fx.AggregationRequested) -> inputs.ChildrenReduced:
        reducer = Reducer.for_node(self._run.plan.by_id[effect.node_id].definition)
        pieces = [reducer.open()]
        try:
            for child in self.seen.nodes[effect.fan_out_id].children:
                if child.status is NodeStatus.COMPLETED:
                    pieces.append(reducer.add(child.node_id, child.output))
                else:
                    reducer.fail(child.node_id, child.error_message)
            pieces.append(reducer.close())
        except ReduceError as error:
            return inputs.ChildrenReduced(effect.node_id, error_message=str(error))
        return inputs.ChildrenReduced(effect.node_id, Output(orjson.loads(b"".join(pieces))))

    def continue_later(self, effect: fx.ContinueLater) -> None:
        self._soon(inputs.Continue(effect.node_id))

    def command_answered(self, effect: fx.CommandAnswered) -> None:
        self._platform.answer = effect


RULES: dict[type, Callable[[RunningJob, Any], None]] = {
    fx.NodesCreated: RunningJob.nodes_created,
    fx.ChildrenCreated: RunningJob.children_created,
    fx.ChildrenCancelled: RunningJob.children_cancelled,
    fx.NodeChanged: RunningJob.node_changed,
    fx.TaskQueued: RunningJob.task_queued,
    fx.TaskRequeued: RunningJob.task_requeued,
    fx.TaskRevoked: RunningJob.task_revoked,
    fx.TasksWithdrawn: RunningJob.tasks_withdrawn,
    fx.TaskDeadLettered: RunningJob.task_dead_lettered,
    fx.JobChanged: RunningJob.job_changed,
    fx.EventAppended: RunningJob.event_appended,
    fx.ChildJobRequested: RunningJob.child_job_requested,
    fx.ChildJobCancelled: RunningJob.child_job_cancelled,
    fx.ParentNotified: RunningJob.parent_notified,
    fx.AggregationRequested: RunningJob.aggregation_requested,
    fx.ApprovalRequested: RunningJob.approval_requested,
    fx.ApprovalClosed: RunningJob.approval_closed,
    fx.ApprovalDecided: RunningJob.approval_decided,
    fx.ContinueLater: RunningJob.continue_later,
    fx.RecordsPublished: RunningJob.records_published,
    fx.WarningsCounted: RunningJob.warnings_counted,
    fx.CommandAnswered: RunningJob.command_answered,
}
