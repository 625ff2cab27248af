"""Whether a stored workflow still fits its handlers. Both change after it was registered, or it was never checked.

The answer is kept for as long as no handler changes, so that a submission costs no question.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from datetime import datetime
from typing import Any

import psycopg

from rmhdag.orchestrator.registrations import known_handlers
from rmhdag.store.workflows import WorkflowHead
from rmhdag.workflow.definition import WorkflowDefinition
from rmhdag.workflow.handler_rules import find_unfit_tasks

Conn = psycopg.Connection[Any]
MOST_KEPT = 500
MOST_NAMED = 5

_kept: OrderedDict[tuple[str, str, datetime | None], list[str]] = OrderedDict()
_lock = threading.Lock()


class UnfitWorkflowError(Exception):
    """Its tasks would be refused by their handlers."""

    remedy = "Register a corrected version of the workflow, or start workers with the handlers that it was written for."

    def __init__(self, workflow_id: str, version: int, sentences: list[str]) -> None:
        more = f"; and {len(sentences) - MOST_NAMED} more" if len(sentences) > MOST_NAMED else ""
        told = "; ".join(sentences[:MOST_NAMED]) + more
        super().__init__(f"workflow {workflow_id!r} version {version} does not fit its handlers: {told}")


def refuse_unfit(conn: Conn, namespace: str, head: WorkflowHead, definition: WorkflowDefinition) -> None:
    """Raises UnfitWorkflowError."""
    key = (namespace, head.hash, head.handlers_at)
    with _lock:
        sentences = _kept.get(key)
    if sentences is None:
        sentences = find_unfit_tasks(definition, known_handlers(conn, namespace))
        with _lock:
            _kept[key] = sentences
            if len(_kept) > MOST_KEPT:
                _kept.popitem(last=False)
    if sentences:
        raise UnfitWorkflowError(head.workflow_id, head.version, sentences)
