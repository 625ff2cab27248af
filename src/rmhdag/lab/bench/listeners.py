"""What 500 people who watch cost the jobs: most follow one job each, some follow all jobs by their milestones."""

from __future__ import annotations

import selectors
import signal
import socket
import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from rmhdag.lab.bench import workflows
from rmhdag.lab.bench.http import HttpApi
from rmhdag.lab.bench.measures import compare
from rmhdag.lab.bench.rig import BenchFailed, Rig, Server
from rmhdag.lab.bench.scenarios import Numbers, Sizes, warm_up

# One in so many listens to all jobs.
DASHBOARDS = 10
MILESTONES = ("job_created", "job_started", "job_completed", "job_failed", "job_cancelled")
ALL_JOBS = "/api/v1/events/stream?" + "&".join(f"event_types={kind}" for kind in MILESTONES)
MARK = b"\ndata: {"
CONNECT_SECONDS = 60.0
# While it is held, nobody may take its jobs.
HOLD_SECONDS = 120.0


class Listeners:
    """Connected when the `with` block begins. They only count what they hear: watching should not cost here."""

    def __init__(self, api: HttpApi, paths: Sequence[str]) -> None:
        self.heard = 0
        self._connected = 0
        self._api = api
        self._paths = paths
        self._ends: dict[socket.socket, bytes] = {}
        self._selector = selectors.DefaultSelector()
        self._leaving = False
        self._thread = threading.Thread(target=self._read)

    def __enter__(self) -> Self:
        address = urlsplit(self._api.url)
        assert address.hostname is not None
        for path in self._paths:
            connection = socket.create_connection((address.hostname, address.port or 80))
            # In this version an answer is not cut into pieces, so that no mark is torn apart.
            request = f"GET {path} HTTP/1.0\r\nHost: {address.netloc}\r\nX-API-Key: {self._api.key}\r\n\r\n"
            connection.sendall(request.encode())
            connection.setblocking(False)
            self._ends[connection] = b""
            self._selector.register(connection, selectors.EVENT_READ)
        self._thread.start()
        wait_until(lambda: self._connected == len(self._paths), CONNECT_SECONDS, "all listeners are connected")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leaving = True
        self._thread.join()
        for connection in self._ends:
            connection.close()
        self._selector.close()

    def _read(self) -> None:
        while not self._leaving:
            for key, _ in self._selector.select(0.1):
                connection = key.fileobj
                assert isinstance(connection, socket.socket)
                data = connection.recv(1 << 20)
                before = self._ends[connection]
                if not before and data:
                    if not data.startswith(b"HTTP/1.1 200"):
                        return
                    self._connected += 1
                # Shorter than the mark, so that nothing is counted twice.
                self.heard += (before + data).count(MARK)
                self._ends[connection] = (before + data)[1 - len(MARK) :]
                if not data:
                    self._selector.unregister(connection)


def measure_listeners(server: Server, sizes: Sizes) -> Numbers:
    """Chains beside an API, with listeners and without; both begin with all jobs there and the orchestrator held."""
    count = 2 * sizes.chain_jobs
    counts: list[int] = []
    with Rig(server, ttl_seconds=HOLD_SECONDS) as rig:
        warm_up(rig)
        stored = rig.register(workflows.chain(sizes.chain_length))
        # Those of the round before may not have been seen to leave.
        places = 2 * sizes.listeners
        with HttpApi(rig, max_listeners=places, max_listeners_per_key=places) as api:

            def run(listeners: int) -> float:
                assert rig.orchestrator is not None
                rig.orchestrator.send_signal(signal.SIGSTOP)
                ids = rig.submit(stored, count)
                dashboards = listeners // DASHBOARDS
                watched = [ids[index % count] for index in range(listeners - dashboards)]
                paths = [f"/api/v1/jobs/{job_id}/stream" for job_id in watched] + [ALL_JOBS] * dashboards
                with Listeners(api, paths) as crowd:
                    so_far = _events_of(rig, watched)
                    wait_until(lambda: crowd.heard >= so_far, CONNECT_SECONDS, "all listeners have caught up")
                    began = time.perf_counter()
                    rig.orchestrator.send_signal(signal.SIGCONT)
                    rig.wait_for(ids, 600)
                    took = time.perf_counter() - began
                    if listeners:
                        # Dashboards came after the jobs were made. The end of a stream looks like an event from afar.
                        expected = dashboards * 2 * count + _events_of(rig, watched) + len(watched)
                        wait_until(lambda: crowd.heard >= expected, 60, f"{expected} events are heard")
                        counts.append(crowd.heard)
                return count * sizes.chain_length / took

            compared = compare(lambda: run(0), lambda: run(sizes.listeners), sizes.pairs)
    return {
        "listeners": sizes.listeners,
        "tasks": count * sizes.chain_length,
        "tasks_per_second_without": round(compared["first"], 1),
        "tasks_per_second": round(compared["second"], 1),
        "ratio": round(compared["ratio"], 3),
        "pairs": compared["pairs"],
        "events_heard": counts,
    }


def _events_of(rig: Rig, job_ids: Sequence[str]) -> int:
    """As many times as they are listened to."""
    row = rig.conn.execute(
        "SELECT count(*) FROM unnest(%s::text[]) AS w (job_id) JOIN dag_job_events USING (job_id)", [list(job_ids)]
    ).fetchone()
    assert row is not None
    return int(row[0])


def wait_until(condition: Callable[[], bool], seconds: float, what: str) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise BenchFailed(f"waited {seconds:g} s until {what}")
        time.sleep(0.01)
