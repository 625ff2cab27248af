"""Checks whether a stored workflow still fits its handlers, which may have changed since it was registered.

The result is cached until a handler changes, so that a submission needs no query.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from datetime import datetime

from rmhdag.models.refusals import Kind, Refusal
from rmhdag.services.registrations import known_handlers
from rmhdag.store.connection import Conn
from rmhdag.store.workflows import WorkflowHead
from rmhdag.workflow.definition import WorkflowDefinition
from rmhdag.workflow.handler_rules import find_unfit_tasks

MOST_KEPT = 500
MOST_NAMED = 5

_kept: OrderedDict[tuple[str, str, datetime | None], list[str]] = OrderedDict()
_lock = threading.Lock()


class UnfitWorkflowError(Refusal):
    """The handlers would refuse the tasks of the workflow."""

    def __init__(self, workflow_id: str, version: int, sentences: list[str]) -> None:
        more = f"; and {len(sentences) - MOST_NAMED} more" if len(sentences) > MOST_NAMED else ""
        reasons = "; ".join(sentences[:MOST_NAMED]) + more
        super().__init__(
            Kind.UNUSABLE,
            "unfit_workflow",
            f"workflow {workflow_id!r} version {version} does not fit its handlers: {reasons}",
            remedy="Register a corrected version of the workflow, or start workers with the handlers that it was "
            "written for.",
            pointer="/workflow_id",
        )


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
