"""A listener for tests: reads server-sent events in a thread, and keeps what it has got."""

from __future__ import annotations

import contextlib
import json
import threading
from types import TracebackType
from typing import Any, NamedTuple, Self

import httpx
from psycopg.types.json import Jsonb

from rmhdag.store.connection import Conn, connect


class Heard(NamedTuple):
    id: str
    event: str
    data: Any

    @property
    def name(self) -> tuple[str, int]:
        return self.data["job_id"], self.data["event_id"]


class SseReader:
    """Lines of a stream into what an EventSource would dispatch; `last_id` is what it would come back with."""

    def __init__(self, last_id: str = "") -> None:
        self.last_id = last_id
        self.heard: list[Heard] = []
        self.comments = 0
        self.retry: int | None = None
        self._event, self._data = "message", ""

    def feed(self, line: str) -> None:
        name, _, value = line.partition(": ")
        match name:
            case "":
                if self._data:
                    self.heard.append(Heard(self.last_id, self._event, json.loads(self._data)))
                self._event, self._data = "message", ""
                self.comments += bool(value)
            case "id":
                self.last_id = value
            case "event":
                self._event = value
            case "data":
                self._data = value
            case "retry":
                self.retry = int(value)
            case _:
                raise AssertionError(f"not a line of a stream: {line!r}")

    @property
    def events(self) -> list[Heard]:
        return [one for one in self.heard if one.event == "message"]

    @property
    def names(self) -> list[tuple[str, int]]:
        return [one.name for one in self.events]


class Listening:
    """`with Listening(client, path) as listening:` is connected when the block begins."""

    def __init__(self, client: httpx.Client, path: str, *, last_id: str | None = None) -> None:
        self.reader = SseReader(last_id or "")
        self.over = threading.Event()
        self.status_code = 0
        self._client = client
        self._path = path
        self._headers = {"Last-Event-ID": last_id} if last_id is not None else {}
        self._connected = threading.Event()
        self._grew = threading.Condition()
        self._response: httpx.Response | None = None
        self._thread = threading.Thread(target=self._read)

    def _read(self) -> None:
        try:
            with self._client.stream("GET", self._path, headers=self._headers, timeout=60) as response:
                self._response = response
                self.status_code = response.status_code
                for line in response.iter_lines():
                    with self._grew:
                        self.reader.feed(line)
                        self._grew.notify_all()
                    self._connected.set()
        except (httpx.HTTPError, httpx.StreamError, OSError):
            pass
        finally:
            self.over.set()
            self._connected.set()

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._connected.wait(30)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.hang_up()

    def hang_up(self) -> None:
        """As a client that goes away without a word."""
        if self._response is not None:
            stream = self._response.extensions["network_stream"]
            with contextlib.suppress(OSError):
                stream.get_extra_info("socket").shutdown(2)
        self._thread.join(30)
        assert not self._thread.is_alive()

    def wait_for(self, count: int) -> list[Heard]:
        with self._grew:
            enough = self._grew.wait_for(lambda: len(self.reader.heard) >= count, 60)
        assert enough, f"heard {len(self.reader.heard)} of {count}"
        return self.reader.events

    def wait_for_end(self) -> list[Heard]:
        assert self.over.wait(30)
        return self.reader.heard


def open_connection(dsn: str) -> Conn:
    conn = connect(dsn, "test", autocommit=True, idle_in_transaction_timeout_seconds=0)
    conn.execute("SET search_path TO dagapp")
    return conn


def add_job(conn: Conn, job_id: str, namespace: str = "default") -> None:
    conn.execute(
        "INSERT INTO dag_jobs (job_id, namespace, workflow_id, workflow_version, workflow_hash, fairness_key,"
        " submitted_by, root_job_id) VALUES (%s, %s, 'w', 1, 'h', 'me', 'me', %s)",
        [job_id, namespace, job_id],
    )


def add_events(
    conn: Conn,
    job_id: str,
    first: int,
    count: int = 1,
    kind: str = "node_ready",
    namespace: str = "default",
    at: str = "clock_timestamp()",
    **data: Any,
) -> None:
    query = f"""
        INSERT INTO dag_job_events (job_id, seq, created_at, namespace, event_type, source_app, node_id, event_data)
        SELECT %s, n, {at}, %s, %s::event_type, 'test', 'n', %s FROM generate_series(%s::int, %s::int) AS n
    """
    conn.execute(query.encode(), [job_id, namespace, kind, Jsonb(data), first, first + count - 1])


def end_job(conn: Conn, job_id: str, seq: int) -> None:
    with conn.transaction():
        add_events(conn, job_id, seq, kind="job_completed")
        conn.execute(
            "UPDATE dag_jobs SET status = 'completed', started_at = now(), completed_at = now() WHERE job_id = %s",
            [job_id],
        )


def all_events(conn: Conn, namespace: str = "default") -> list[tuple[str, int]]:
    """In the order of the stream."""
    query = "SELECT job_id, seq FROM dag_job_events WHERE namespace = %s ORDER BY transaction_id, job_id, seq"
    return [(job_id, seq) for job_id, seq in conn.execute(query, [namespace])]
