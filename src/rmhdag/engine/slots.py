"""The memory of a job: a slot per node that can change, arrays for the children of a fan-out, a lane per queue.

Statuses are small integers here, so that 100,000 children fit into a byte array and comparing costs nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from rmhdag.models.states import NODE_TERMINAL, NODE_TRANSITIONS, NodeStatus

if TYPE_CHECKING:
    from rmhdag.engine.plan import NodePlan, TaskPlan
    from rmhdag.workflow.expressions.budget import Shared

STATUSES = tuple(NodeStatus)
PENDING, READY, DISPATCHED, RUNNING, COMPLETED, FAILED, SKIPPED, CANCELLED = range(len(STATUSES))
CODES = {status: code for code, status in enumerate(STATUSES)}
ALLOWED = tuple(tuple(after in NODE_TRANSITIONS[before] for after in STATUSES) for before in STATUSES)
TERMINAL = tuple(status in NODE_TERMINAL for status in STATUSES)

CANCEL_READY = bytes(CANCELLED if code == READY else code for code in range(256))

DEFAULT_WINDOW = 1_000


class IllegalTransitionError(Exception):
    """The engine attempted a transition that the table does not allow: a bug, never the user's fault."""


class Slot:
    """One node, or one active child of a fan-out (`parent` is then set)."""

    __slots__ = (
        "all_live",
        "all_waiting",
        "any_live",
        "any_waiting",
        "attempt",
        "child_job_id",
        "deadline_at",
        "extra_attempts",
        "fan",
        "index",
        "lease_losses",
        "next_attempt_at",
        "node_id",
        "over_epoch",
        "parent",
        "plan",
        "reason",
        "running_epoch",
        "status",
        "taken",
        "task",
    )

    def __init__(
        self, plan: NodePlan, node_id: str, task: TaskPlan | None, parent: FanOutState | None = None, index: int = -1
    ) -> None:
        self.plan = plan
        self.node_id = node_id
        self.task = task
        self.parent = parent
        self.index = index
        self.status = PENDING if parent is None else READY
        self.attempt = 1
        self.extra_attempts = 0  # attempts granted by a person, beyond the retry rule
        self.lease_losses = 0
        # Leases of this attempt that were reported since it was loaded: the newest that started, and the newest that
        # was lost or released.
        self.running_epoch = -1
        self.over_epoch = -1
        self.next_attempt_at: datetime | None = None
        self.deadline_at: datetime | None = None
        self.all_waiting = plan.all_count
        self.all_live = 0
        self.any_waiting = plan.any_count
        self.any_live = 0
        self.fan: FanOutState | None = None
        self.taken: int | None = None
        self.child_job_id: str | None = None
        self.reason: str | None = None

    def settle_edge(self, is_any: bool, live: bool) -> None:
        """Settle one edge into this node."""
        if is_any:
            self.any_waiting -= 1
            self.any_live += live
        else:
            self.all_waiting -= 1
            self.all_live += live


class FanOutState:
    """The children of one fan-out. Only active ones have a slot; the others are a byte each."""

    __slots__ = (
        "active",
        "attempts",
        "cancel_cursor",
        "counts",
        "due",
        "error",
        "expanded",
        "failed",
        "in_flight",
        "in_lane",
        "items",
        "next_child",
        "reused",
        "shared",
        "slot",
        "statuses",
        "total",
    )

    def __init__(self, slot: Slot, items: list[Any] | None, total: int) -> None:
        self.slot = slot
        self.items = items  # dropped when the last chunk is expanded
        self.total = total
        self.expanded = 0
        self.next_child = 0  # children below this index were dispatched, or settled without being dispatched
        self.statuses = bytearray(total)
        self.attempts = bytearray(total)  # of failed children only: where a manual retry continues
        self.counts = [0] * len(STATUSES)
        self.counts[PENDING] = total
        self.active: dict[int, Slot] = {}
        self.due: deque[Slot] = deque()  # children whose retry is due, served before new ones
        self.in_flight = 0
        self.in_lane = False
        self.failed: list[int] = []  # the first hundred, for messages
        self.error: tuple[int, dict[str, Any]] | None = None  # of the first child that failed with a code
        self.cancel_cursor: int | None = None
        # Parameters that are the same for all children, computed once; dropped with the items.
        self.shared: Shared = {}
        self.reused: Mapping[int, str] = {}  # reused by a rerun, until all are expanded

    @property
    def settled(self) -> int:
        counts = self.counts
        return counts[COMPLETED] + counts[FAILED] + counts[CANCELLED]

    def child_id(self, index: int) -> str:
        return f"{self.slot.node_id}__{index}"

    def has_work(self) -> bool:
        """Whether a child could be dispatched now within `max_parallel`."""
        limit = self.slot.plan.max_parallel
        return bool(self.due or self.next_child < self.expanded) and (limit is None or self.in_flight < limit)

    def take_next_child(self) -> int | None:
        """The next child that was never sent; children that wait for a retry have a slot and are skipped."""
        while (index := self.statuses.find(READY, self.next_child, self.expanded)) >= 0:
            self.next_child = index + 1
            if index not in self.active:
                return index
        self.next_child = self.expanded
        return None


class Lane:
    """One queue as this job sees it: its unclaimed tasks, and the tasks that wait for room."""

    __slots__ = ("fan_outs", "limit", "unclaimed", "waiting")

    def __init__(self) -> None:
        self.limit = DEFAULT_WINDOW
        self.unclaimed = 0
        self.waiting: deque[Slot] = deque()
        self.fan_outs: deque[FanOutState] = deque()
