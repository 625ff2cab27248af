"""Waiting for what the server itself can tell, instead of for time to pass."""

import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

import psycopg

T = TypeVar("T")

NEVER = threading.Event()
PAUSE_SECONDS = 0.01


def wait_until(observe: Callable[[], T | None], timeout_seconds: float = 30) -> T:
    """The first thing observed that is neither None nor False."""
    deadline = time.monotonic() + timeout_seconds
    while not (found := observe()):
        assert time.monotonic() < deadline, f"not observed within {timeout_seconds} s"
        # Whoever looks without a pause takes the processor from those whom it waits for.
        NEVER.wait(PAUSE_SECONDS)
    return found


def migrator_waits_for(conn: psycopg.Connection[Any], statement: str) -> int | None:
    """The process of a migrator that waits for a lock in a statement that begins so."""
    query = """SELECT pid FROM pg_stat_activity WHERE application_name = 'rmhdag:migrate' AND wait_event_type = 'Lock'
        AND datname = current_database() AND query LIKE %s || '%%'"""
    found = conn.execute(query, [statement]).fetchone()
    return int(found[0]) if found else None


def backend_is_gone(conn: psycopg.Connection[Any], pid: int) -> bool:
    return conn.execute("SELECT 1 FROM pg_stat_activity WHERE pid = %s", [pid]).fetchone() is None


def is_held(conn: psycopg.Connection[Any], other: psycopg.Connection[Any]) -> bool:
    """Whether a statement on the other connection waits for a lock."""
    query = "SELECT 1 FROM pg_stat_activity WHERE pid = %s AND wait_event_type = 'Lock'"
    return conn.execute(query, [other.info.backend_pid]).fetchone() is not None
