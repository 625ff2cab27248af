"""Waits for a notification, or until it is time to poll anyway.

A notification is only a hint. Without one, with a lost connection, or behind a pooler that passes none on, a wait
simply ends at its time-out, and the caller polls the rows.
"""

from __future__ import annotations

import select
import time
from collections.abc import Iterable, Sequence

import psycopg
from psycopg import sql

from rmhdag.store.connection import Conn, connect

RECONNECT_SECONDS = 1.0
# A frozen server keeps the connection but does not answer; the caller has other work to do meanwhile.
ANSWER_SECONDS = 5.0


class Doorbell:
    """Listens on channels over its own connection, and opens a new one if that breaks."""

    def __init__(self, dsn: str, schema: str, channels: Iterable[str], enabled: bool = True) -> None:
        self._dsn = dsn
        self._name = f"rmhdag:doorbell:{schema}"[:63]
        self._channels = sorted(set(channels))
        self._enabled = enabled and bool(self._channels)
        self._conn: Conn | None = None
        self._next_try = 0.0
        self._missed = False
        self._heard: set[str] = set()

    def fileno(self) -> int:
        """Readable after a notification; −1 while there is no connection."""
        return self._conn.fileno() if self._listening() and self._conn is not None else -1

    def wait(self, timeout_seconds: float, also: Sequence[int] = ()) -> bool:
        """Wait for a notification, the time-out, or one of the other descriptors to be readable.

        True if a notification arrived, or may have been missed. Callers check their other descriptors themselves.
        """
        deadline = time.monotonic() + timeout_seconds
        while True:
            bell = self.fileno()
            if self._missed:
                self._missed = False
                self._heard.update(self._channels)
                return True
            poll = select.poll()
            for descriptor in (*also, *([bell] if bell >= 0 else [])):
                poll.register(descriptor, select.POLLIN)
            seconds = deadline - time.monotonic()
            if self._enabled and bell < 0:
                seconds = min(seconds, RECONNECT_SECONDS)
            ready = {descriptor for descriptor, _ in poll.poll(max(0.0, seconds) * 1000)}
            if bell in ready and self.take():
                return True
            if ready - {bell} or time.monotonic() >= deadline:
                return False

    def take(self) -> bool:
        """Read the notifications so far, without waiting; True if there were any."""
        if self._conn is None:
            return False
        try:
            pgconn = self._conn.pgconn
            pgconn.consume_input()
            rung = False
            while (notice := pgconn.notifies()) is not None:
                self._heard.add(notice.relname.decode())
                rung = True
            return rung
        except psycopg.Error:
            self._lose()
            self._heard.update(self._channels)
            return True

    def heard(self, channel: str) -> bool:
        """Whether a notification arrived on this channel, or may have been missed, since the last call."""
        if channel not in self._heard:
            return False
        self._heard.discard(channel)
        return True

    def close(self) -> None:
        self._enabled = False
        if self._conn is not None:
            self._conn.close()
            self._conn = None

    def _listening(self) -> bool:
        if not self._enabled or self._conn is not None:
            return self._conn is not None
        if time.monotonic() < self._next_try:
            return False
        self._next_try = time.monotonic() + RECONNECT_SECONDS
        conn = None
        try:
            conn = connect(self._dsn, self._name, autocommit=True, answer_seconds=ANSWER_SECONDS)
            for channel in self._channels:
                conn.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
        except psycopg.Error:
            if conn is not None:
                conn.close()
            return False
        self._conn = conn
        self._missed = True
        return True

    def _lose(self) -> None:
        if self._conn is not None:
            self._conn.close()
        self._conn = None
        # At once, but not in a tight loop if the new connection breaks as well.
        self._next_try = 0.0 if self._next_try < time.monotonic() else self._next_try
