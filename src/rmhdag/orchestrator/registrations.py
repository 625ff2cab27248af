"""Workflows and what an installation has for them: its handlers and queues."""

from __future__ import annotations

from typing import Any

import psycopg

from rmhdag.store import views
from rmhdag.workflow import HandlerCatalogue, HandlerEntry, shipped_handlers

Conn = psycopg.Connection[Any]


def known_handlers(conn: Conn) -> HandlerCatalogue:
    """Those that come with rmhdag, and those that workers have registered."""
    found = [
        HandlerEntry(name=name, aliases=tuple(aliases), queue=queue) for name, aliases, queue in views.handlers(conn)
    ]
    return shipped_handlers().with_entries(found)


def handler_queues(conn: Conn) -> dict[str, str]:
    """The queues that handlers name themselves."""
    catalogue = known_handlers(conn)
    named = ((name, catalogue.queue_of(name)) for name in catalogue.names())
    return {name: queue for name, queue in named if queue is not None}
