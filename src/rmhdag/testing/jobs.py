"""A job in a workflow test: its state, its history, and the commands for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from rmhdag.engine.inputs import CancelJob, Decided, Input, RetryNode
from rmhdag.handlers import Checkpoint
from rmhdag.models.events import ErrorKind, EventStatus, EventType
from rmhdag.models.handler_result import DataWarning
from rmhdag.models.states import JOB_TERMINAL, JobStatus, NodeStatus, NodeType
from rmhdag.testing.recording import Progress

if TYPE_CHECKING:
    from rmhdag.testing.platform import VirtualPlatform


class CommandRefused(Exception):
    """The platform would refuse the command: the job does not wait for that decision, or has ended."""


@dataclass(slots=True)
class Attempt:
    """One run of a task by a worker. A task whose worker is lost runs again under the same attempt."""

    node_id: str
    handler: str
    attempt: int
    params: dict[str, Any]
    started_at: float  # seconds since the job began, as all times here
    ended_at: float | None = None
    # completed, failed, timeout, later, lost or withdrawn; None while it runs
    outcome: str | None = None
    output: Any = None
    error_kind: ErrorKind | None = None
    error_message: str | None = None
    logs: str = ""
    progress: list[Progress] = field(default_factory=list)
    checkpoints: list[Checkpoint] = field(default_factory=list)
    resumed_from: Checkpoint | None = None


@dataclass(slots=True)
class Node:
    """A node, or a child of a fan-out, as `rmhdag job` shows it."""

    node_id: str
    type: NodeType
    status: NodeStatus = NodeStatus.PENDING
    attempt: int = 1
    params: dict[str, Any] = field(default_factory=dict)
    output: Any = None
    error_message: str | None = None
    item_key: str | None = None
    lease_losses: int = 0
    checkpoint: Checkpoint | None = None
    next_attempt_at: datetime | None = None
    deadline_at: datetime | None = None
    children: list[Node] = field(default_factory=list)


@dataclass(slots=True, frozen=True)
class Event:
    """A line of the job's history."""

    seq: int
    at: float
    type: EventType
    status: EventStatus
    node_id: str | None
    data: dict[str, Any]
    error_message: str | None = None


@dataclass(slots=True, frozen=True)
class Approval:
    """A request for a person's decision."""

    node_id: str
    message: str | None
    params: dict[str, Any]
    approvers: tuple[str, ...]


@dataclass(slots=True, frozen=True)
class Decision:
    """A person's answer, this many seconds after the request; by default of the first whom the node names."""

    approved: bool
    by: str | None = None
    reason: str | None = None
    after_seconds: float = 0.0


def default_approver(approvers: Sequence[str]) -> str:
    return approvers[0] if approvers else "tester"


class VirtualJob:
    """A job on the virtual clock. `run`, `wait`, `approve`, `reject` and `cancel` let it go on."""

    def __init__(self, platform: VirtualPlatform, job_id: str, workflow_id: str, inputs: dict[str, Any]) -> None:
        self._platform = platform
        self.job_id = job_id
        self.workflow_id = workflow_id
        self.inputs = inputs
        self.status = JobStatus.PENDING
        self.outputs: dict[str, Any] = {}
        self.error_message: str | None = None
        self.nodes: dict[str, Node] = {}
        self.attempts: list[Attempt] = []
        self.events: list[Event] = []
        self.records: list[Any] = []
        self.warnings: list[DataWarning] = []
        self.dead_letters: list[str] = []
        self.approvals: dict[str, Approval] = {}
        self.child_jobs: dict[str, VirtualJob] = {}
        self.seconds = 0.0

    # -- how it stands -----------------------------------------------------------------------------------------

    @property
    def has_ended(self) -> bool:
        return self.status in JOB_TERMINAL

    @property
    def waiting_approvals(self) -> list[Approval]:
        """Approvals without a decision."""
        return [
            approval
            for approval in self.approvals.values()
            if self.nodes[approval.node_id].status is NodeStatus.RUNNING
        ]

    @property
    def statuses(self) -> dict[str, str]:
        """The status of all nodes by name, without children of fan-outs."""
        children = {child.node_id for node in self.nodes.values() for child in node.children}
        return {name: str(node.status) for name, node in self.nodes.items() if name not in children}

    def attempts_of(self, node_id: str) -> list[Attempt]:
        return [attempt for attempt in self.attempts if attempt.node_id == node_id]

    def event_types(self, node_id: str | None = None) -> list[str]:
        """The events in order; of one node only, if it is named."""
        return [str(event.type) for event in self.events if node_id is None or event.node_id == node_id]

    def assert_completed(self) -> VirtualJob:
        """Returns the job; raises an AssertionError that describes the failure if it has not completed."""
        if self.status is not JobStatus.COMPLETED:
            raise AssertionError(self.describe())
        return self

    def describe(self) -> str:
        """A few lines about the job: its nodes, their errors, and the last log of those that failed."""
        lines = [f"{self.workflow_id} is {self.status} after {self.seconds:g} s: {self.error_message or 'no error'}"]
        for node in self.nodes.values():
            lines.append(f"  {node.node_id}: {node.status}, attempt {node.attempt}{_after(node.error_message)}")
            runs = self.attempts_of(node.node_id)
            if node.status is NodeStatus.FAILED and runs and runs[-1].logs:
                lines += [f"    | {line}" for line in runs[-1].logs.splitlines()[-15:]]
        lines += [f"  waits for the decision of {approval.node_id}" for approval in self.waiting_approvals]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<VirtualJob {self.describe()}>"

    # -- what can be done with it ------------------------------------------------------------------------------

    def run(self) -> VirtualJob:
        """Run until the job has ended or waits for a person."""
        self._platform.run()
        return self

    def wait(self, seconds: float) -> VirtualJob:
        """Let this much virtual time pass, whatever the job waits for."""
        self._platform.run(seconds)
        return self

    def approve(self, node_id: str, *, by: str | None = None, reason: str | None = None) -> VirtualJob:
        """By the first of the node's approvers, unless somebody is named."""
        return self._command(Decided(node_id, True, by or self._approver_of(node_id), reason))

    def reject(self, node_id: str, *, by: str | None = None, reason: str | None = None) -> VirtualJob:
        """By the first of the node's approvers, unless somebody is named."""
        return self._command(Decided(node_id, False, by or self._approver_of(node_id), reason))

    def _approver_of(self, node_id: str) -> str:
        approval = self.approvals.get(node_id)
        return default_approver(() if approval is None else approval.approvers)

    def cancel(self, *, by: str = "tester", reason: str | None = None) -> VirtualJob:
        return self._command(CancelJob(by, reason))

    def retry(self, node_id: str, *, by: str = "tester") -> VirtualJob:
        """Retry a node that waits for its next attempt, or a failed child, now."""
        return self._command(RetryNode(node_id, by))

    def _command(self, command: Input) -> VirtualJob:
        answer = self._platform.command(self.job_id, command)
        if not answer.applied:
            raise CommandRefused(answer.reason)
        return self.run()


def _after(message: str | None) -> str:
    return f": {message}" if message else ""
