"""Unpublish a revision, or a whole asset: a preview first, then everything in one transaction."""

from __future__ import annotations

import psycopg

from rmhdag.models.refusals import Kind, Refusal
from rmhdag.store import unpublishing
from rmhdag.store.connection import Conn
from rmhdag.store.unpublishing import Preview, Unpublish, Unpublished


def preview_unpublishing(conn: Conn, subject: Unpublish) -> Preview:
    """What would go, from one moment. Refused as the real one would be, but for approved content: it is named."""
    with conn.transaction():
        conn.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        return unpublishing.preview(conn, subject)


def unpublish(conn: Conn, subject: Unpublish) -> Unpublished:
    """Files are deleted afterwards, by an orchestrator. A repetition changes nothing."""
    try:
        return unpublishing.unpublish(conn, subject)
    except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected):
        raise Refusal(
            Kind.UNAVAILABLE,
            "publishing_busy",
            "too many files are being recorded at the moment",
            remedy="Nothing was changed: try again in a few seconds.",
        ) from None
