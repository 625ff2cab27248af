"""Registers workflows: the handlers and queues of an installation, and how a definition is stored."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

from rmhdag.services.plans import QueueOf
from rmhdag.store import workflows
from rmhdag.store.connection import Conn
from rmhdag.store.registered_handlers import RegisteredHandler, registered_handlers, served_queues
from rmhdag.workflow import HandlerEntry, KnownHandlers, definition_hash, definition_json, shipped_handlers
from rmhdag.workflow.definition import WorkflowDefinition


def known_handlers(conn: Conn, namespace: str | None = None) -> KnownHandlers:
    """Handlers that come with rmhdag, and those that workers have registered for all namespaces and for this one.

    A namespace's own handler cannot take the name of a shared one, nor, by an alias, that of another of its own.
    """
    return _known(registered_handlers(conn, namespace))


def _known(rows: Iterable[RegisteredHandler]) -> KnownHandlers:
    rows = list(rows)
    shared = shipped_handlers().with_entries(_entry(row) for row in rows if row.is_shared)
    own = {row.handler: row for row in rows if row.handler not in shared}
    return shared.with_entries(
        _entry(row)._replace(aliases=tuple(name for name in row.aliases if name not in shared and name not in own))
        for row in own.values()
    )


def _entry(row: RegisteredHandler) -> HandlerEntry:
    return HandlerEntry(row.handler, tuple(row.aliases), row.queue, row.params_schema, row.output_schema)


def queues_among(read: Callable[[], Iterable[Any]]) -> QueueOf:
    """The queues that handlers name themselves. `read` gives their names, aliases, queues and whether all namespaces
    have them; it is called once, on first use.
    """

    @cache
    def handlers() -> KnownHandlers:
        return _known(
            RegisteredHandler(name, aliases, queue, {}, {}, shared) for name, aliases, queue, shared in read()
        )

    return lambda handler: handlers().queue_of(handler)


def handler_queues(conn: Conn, namespace: str | None = None) -> dict[str, str]:
    """The queues that handlers declare: those of shared handlers, and those of this namespace."""
    handlers = known_handlers(conn, namespace)
    named = ((name, handlers.queue_of(name)) for name in handlers.names())
    return {name: queue for name, queue in named if queue is not None}


def known_queues(conn: Conn, namespace: str, configured: Iterable[str], alive_seconds: float) -> set[str]:
    """The queues of the settings, and those that workers serve now for the namespace."""
    return {*configured} | served_queues(conn, namespace, alive_seconds)


def stored_form(definition: WorkflowDefinition) -> workflows.StoredWorkflow:
    return workflows.StoredWorkflow(
        definition.workflow_id, definition.version, definition_hash(definition), definition_json(definition)
    )
