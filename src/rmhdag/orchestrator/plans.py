"""Compiled definitions, shared by all jobs that were created with them. Any thread may ask."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import psycopg

from rmhdag.engine.plan import Plan
from rmhdag.orchestrator.registrations import handler_queues
from rmhdag.store import jobs
from rmhdag.workflow.definition import WorkflowDefinition

MAX_PLANS = 200
Key = tuple[str, str, int, str]


class _Queues(dict[str, str]):
    """Of a namespace's handlers. Those that all namespaces have are asked first, and may be asked anew."""

    def __init__(self, own: Mapping[str, str], shared: Mapping[str, str]) -> None:
        super().__init__(own)
        self._shared = shared

    def __bool__(self) -> bool:
        return True

    def get(self, name: str, default: Any = None) -> Any:
        return self._shared.get(name) or super().get(name, default)


class Plans:
    """The least recently used ones are forgotten."""

    def __init__(self, handler_queues: Mapping[str, str]) -> None:
        self._handler_queues = handler_queues
        self._plans: OrderedDict[Key, Plan] = OrderedDict()
        self._lock = threading.Lock()

    def plan_for(
        self, conn: psycopg.Connection[Any], namespace: str, workflow_id: str, version: int, content_hash: str
    ) -> Plan:
        """The compiled definition that a job was created with, whatever is registered by now."""
        key = (namespace, workflow_id, version, content_hash)
        with self._lock:
            plan = self._plans.get(key)
            if plan is not None:
                self._plans.move_to_end(key)
                return plan
        # Outside the lock, because others need not wait for this: two threads may compile the same one.
        definition = jobs.load_definition(conn, *key)
        queues = _Queues(handler_queues(conn, namespace), self._handler_queues)
        plan = Plan(WorkflowDefinition.model_validate(definition), queues)
        with self._lock:
            self._plans[key] = plan
            self._plans.move_to_end(key)
            if len(self._plans) > MAX_PLANS:
                self._plans.popitem(last=False)
        return plan
