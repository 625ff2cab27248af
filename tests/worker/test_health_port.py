"""A worker tells whether it is well, and no caller can disturb it."""

from __future__ import annotations

import json
import re
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from rmhdag.observability.supervision import Loop, Supervisor
from rmhdag.worker.health_port import HealthPort, WorkerHealth, answer
from rmhdag.worker.settings import WorkerSettings
from tests.worker.conftest import Desk, WorkerProcess

WELL = WorkerHealth(
    "w1",
    ("light",),
    2,
    1,
    7,
    draining=False,
    is_trusted=True,
    loops={"exchange": 0.1},
    threads={"exchange": 0},
    late_loops=(),
    lives=1,
)
Start = Callable[..., WorkerProcess]


def ask(found: WorkerHealth, line: str) -> tuple[int, dict[str, Any]]:
    text = answer(f"{line} HTTP/1.1\r\nHost: x\r\n\r\n".encode(), found).decode()
    return int(text.split()[1]), json.loads(text.partition("\r\n\r\n")[2])


def test_what_is_told() -> None:
    assert ask(WELL, "GET /livez") == (200, {"alive": True})
    assert ask(WELL, "GET /readyz?x=1") == (200, {"ready": True})
    status, told = ask(WELL, "GET /health")
    assert (status, told["status"], told["tasks_held"], told["queues"]) == (200, "HEALTHY", 1, ["light"])
    assert ask(WELL._replace(draining=True), "GET /readyz") == (503, {"ready": False})
    assert ask(WELL._replace(draining=True), "GET /health")[0] == 200
    assert ask(WELL._replace(is_trusted=False), "GET /health")[0] == 503
    assert ask(WELL._replace(is_trusted=False), "GET /livez")[0] == 200
    stuck = WELL._replace(late_loops=("exchange",))
    assert [ask(stuck, f"GET {path}")[0] for path in ("/livez", "/readyz", "/health")] == [503, 503, 503]
    assert ask(WELL, "GET /metrics")[0] == 404
    assert ask(WELL, "POST /health")[0] == 400


@contextmanager
def opened() -> Iterator[int]:
    port = HealthPort(WorkerSettings(dsn="host=nowhere", queues=("light",), health_port=0), lambda: WELL)
    assert port.port is not None
    over = threading.Event()
    port.start(Supervisor(over, lambda reason: None))
    yield port.port
    over.set()
    port.close()


def test_callers_who_send_nonsense_or_nothing_hold_up_nobody() -> None:
    with opened() as port:
        with (
            socket.create_connection(("127.0.0.1", port)) as slow,
            socket.create_connection(("127.0.0.1", port)) as odd,
        ):
            slow.sendall(b"G")
            odd.sendall(b"\0\xff" * 2000)
            assert httpx.get(f"http://127.0.0.1:{port}/livez", trust_env=False, timeout=20).json() == {"alive": True}
        with socket.create_connection(("127.0.0.1", port)):
            assert httpx.get(f"http://127.0.0.1:{port}/health", trust_env=False, timeout=20).status_code == 200
    refused = socket.socket()
    with refused:
        assert refused.connect_ex(("127.0.0.1", port)) != 0


def test_a_port_that_is_taken_stops_no_worker() -> None:
    with opened() as port:
        other = HealthPort(WorkerSettings(dsn="host=nowhere", queues=("light",), health_port=port), lambda: WELL)
        assert other.port is None
        other.close()


def test_a_thread_that_starts_after_the_end_ends_quietly() -> None:
    port = HealthPort(WorkerSettings(dsn="host=nowhere", queues=("light",), health_port=0), lambda: WELL)
    port.close()
    port._serve(Loop("health", 60))


def health_url(worker: WorkerProcess) -> str:
    """As its log says it."""
    assert worker.process.stderr is not None
    found = next(match for line in worker.process.stderr if (match := re.search(r"http://\S+:(\d+)/health", line)))
    return f"http://127.0.0.1:{found[1]}/health"


def test_a_real_worker_tells_of_itself(desk: Desk, start_worker: Start) -> None:
    worker = start_worker(health_port=0)
    worker_id = worker.find_worker_id()
    url = health_url(worker)

    def healthy() -> dict[str, Any] | None:
        told: dict[str, Any] = httpx.get(url, trust_env=False).json()
        return told if told["status"] == "HEALTHY" else None

    told = desk.wait(healthy)
    assert (told["worker_id"], told["slots"], told["draining"]) == (worker_id, 2, False)
    assert told["loops"].keys() == told["threads"].keys() == {"supervisor", "exchange", "heartbeat"}
    assert (set(told["threads"].values()), told["late_loops"], told["lives"]) == ({0}, [], 1)
    desk.wait(lambda: desk.stats(str(worker_id)).get("tasks_held") == 0)
    assert desk.stats(str(worker_id)).keys() == {
        "tasks_held",
        "tasks_unread",
        "tasks_unreported",
        "tasks_done",
        "memory_bytes",
        "lives",
        "loops",
        "threads",
        "sizes",
    }
    assert worker.end(signal.SIGTERM) == 0
