"""Workflows and what an installation has for them: its handlers and queues; and how a definition is stored."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import psycopg

from rmhdag.store import views, workflows
from rmhdag.workflow import HandlerCatalogue, HandlerEntry, definition_hash, definition_json, shipped_handlers
from rmhdag.workflow.definition import WorkflowDefinition
from rmhdag.workflow.layout import layout

Conn = psycopg.Connection[Any]


def known_handlers(conn: Conn, namespace: str | None = None) -> HandlerCatalogue:
    """Those that come with rmhdag, and those that workers have registered for all namespaces and for this one.

    A namespace's own never take a name from those that all share, nor by an alias from each other.
    """
    found = views.handlers(conn, namespace)
    shared = shipped_handlers().with_entries(_entry(one) for one in found if one.is_shared)
    own = {one.handler: one for one in found if one.handler not in shared}
    return shared.with_entries(
        _entry(one)._replace(aliases=tuple(name for name in one.aliases if name not in shared and name not in own))
        for one in own.values()
    )


def _entry(found: views.KnownHandler) -> HandlerEntry:
    return HandlerEntry(found.handler, tuple(found.aliases), found.queue, found.params_schema, found.output_schema)


def handler_queues(conn: Conn, namespace: str | None = None) -> dict[str, str]:
    """The queues that handlers name themselves: those that all namespaces have, and those of this one."""
    catalogue = known_handlers(conn, namespace)
    named = ((name, catalogue.queue_of(name)) for name in catalogue.names())
    return {name: queue for name, queue in named if queue is not None}


def known_queues(conn: Conn, namespace: str, configured: Iterable[str], alive_seconds: float) -> set[str]:
    """Those of the settings, and those that workers serve now for the namespace."""
    served = {line.queue for line in views.queues(conn, namespace, alive_seconds) if line.workers}
    return {*configured} | served


def stored_form(definition: WorkflowDefinition) -> workflows.StoredWorkflow:
    return workflows.StoredWorkflow(
        definition.workflow_id, definition.version, definition_hash(definition), definition_json(definition)
    )


def register_definition(
    conn: Conn, definition: WorkflowDefinition, namespace: str, registered_by: str, *, development: bool
) -> bool:
    """Store a checked definition with its layout; False if it is there already. Raises OtherContentError."""
    return workflows.register_workflow(
        conn,
        namespace,
        stored_form(definition),
        registered_by,
        layout(definition).as_json(),
        development=development,
    )
