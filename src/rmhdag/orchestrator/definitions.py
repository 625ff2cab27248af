"""Stored definitions as models, read once: what has a hash never changes, whatever is registered later."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any

import psycopg

from rmhdag.store import jobs
from rmhdag.workflow.definition import WorkflowDefinition

Conn = psycopg.Connection[Any]
MOST_KEPT = 500

_kept: OrderedDict[tuple[str, str, int, str], WorkflowDefinition] = OrderedDict()
_lock = threading.Lock()


class DefinitionMissingError(Exception):
    """A job names a definition that is not stored."""


def definition_of(conn: Conn, namespace: str, workflow_id: str, version: int, content_hash: str) -> WorkflowDefinition:
    key = (namespace, workflow_id, version, content_hash)
    with _lock:
        found = _kept.get(key)
        if found is not None:
            _kept.move_to_end(key)
            return found
    stored = jobs.load_definition(conn, *key)
    if stored is None:
        raise DefinitionMissingError(f"{workflow_id} version {version} is not stored any more")
    made = WorkflowDefinition.model_validate(stored)
    with _lock:
        _kept[key] = made
        if len(_kept) > MOST_KEPT:
            _kept.popitem(last=False)
    return made
