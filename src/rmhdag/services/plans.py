"""Stored definitions, as models and compiled for the engine: once per process, for all that need them.

What has a hash never changes, whatever is registered later. Only the queues of tasks that name none depend on the
handlers that are registered, so a definition has one plan for each choice of them.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

from rmhdag.engine.plan import Plan
from rmhdag.store import jobs
from rmhdag.store.connection import Conn
from rmhdag.workflow.definition import FanOutNode, TaskNode, WorkflowDefinition

MOST_KEPT = 300

# Namespace, workflow, version, hash.
Key = tuple[str, str, int, str]
QueueOf = Callable[[str], str | None]


class DefinitionMissingError(Exception):
    """A job names a definition that is not stored."""


class _Kept(NamedTuple):
    """`handlers` are those of tasks that name no queue; `plans` go by the queues of these handlers."""

    definition: WorkflowDefinition
    handlers: tuple[str, ...]
    plans: dict[tuple[str | None, ...], Plan]


class Plans:
    """The definitions that were not used for longest are forgotten. Any thread may ask."""

    def __init__(self, most_kept: int = MOST_KEPT) -> None:
        self._most_kept = most_kept
        self._kept: OrderedDict[Key, _Kept] = OrderedDict()
        self._lock = threading.Lock()

    def definition_of(
        self, conn: Conn, namespace: str, workflow_id: str, version: int, content_hash: str
    ) -> WorkflowDefinition:
        return self._entry(conn, (namespace, workflow_id, version, content_hash)).definition

    def plan_of(
        self, conn: Conn, namespace: str, workflow_id: str, version: int, content_hash: str, queue_of: QueueOf
    ) -> Plan:
        """The compiled definition that a job was created with. `queue_of` is the queue that a handler names itself."""
        entry = self._entry(conn, (namespace, workflow_id, version, content_hash))
        queues = tuple(queue_of(handler) for handler in entry.handlers)
        plan = entry.plans.get(queues)
        if plan is None:
            pairs = zip(entry.handlers, queues, strict=True)
            # Without the lock, because others need not wait for this: two threads may compile the same one.
            plan = Plan(entry.definition, {handler: queue for handler, queue in pairs if queue is not None})
            entry.plans[queues] = plan
        return plan

    def _entry(self, conn: Conn, key: Key) -> _Kept:
        with self._lock:
            entry = self._kept.get(key)
            if entry is not None:
                self._kept.move_to_end(key)
                return entry
        stored = jobs.load_definition(conn, *key)
        if stored is None:
            raise DefinitionMissingError(f"{key[1]} version {key[2]} is not stored any more")
        definition = WorkflowDefinition.model_validate(stored)
        with self._lock:
            entry = self._kept.setdefault(key, _Kept(definition, _handlers_without_queue(definition), {}))
            self._kept.move_to_end(key)
            if len(self._kept) > self._most_kept:
                self._kept.popitem(last=False)
        return entry


def _handlers_without_queue(definition: WorkflowDefinition) -> tuple[str, ...]:
    tasks = (node.task for node in definition.nodes.values() if isinstance(node, TaskNode | FanOutNode))
    return tuple(sorted({task.handler for task in tasks if task.queue is None}))


# Those of this process.
_plans = Plans()
definition_of = _plans.definition_of
plan_of = _plans.plan_of
