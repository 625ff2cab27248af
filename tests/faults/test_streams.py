"""Listeners while API, orchestrator and worker are killed: together they have heard what the table has (F41)."""

from __future__ import annotations

import contextlib
import signal
import socket
import threading
from typing import Any

import httpx
import pytest

from rmhdag.models.scopes import Scope
from rmhdag.store import api_keys
from tests.api.listening import SseReader, all_events
from tests.engine.definitions import task, workflow
from tests.faults.processes import Cluster
from tests.store.waiting import wait_until


class Browser:
    """Comes back whenever it is cut off, with the id that it had last, as an EventSource does."""

    def __init__(self, url: str, key: str, **parameters: Any) -> None:
        self.reader = SseReader()
        self.connections = 0
        self.connected = threading.Event()
        self.ended = threading.Event()
        self._url = url
        self._client = httpx.Client(headers={"X-API-Key": key}, params=parameters, timeout=20, trust_env=False)
        self._leaving = threading.Event()
        self._thread = threading.Thread(target=self._follow)
        self._thread.start()

    def _follow(self) -> None:
        while not self.ended.is_set() and not self._leaving.wait(0.1):
            headers = {"Last-Event-ID": self.reader.last_id} if self.reader.last_id else {}
            with contextlib.suppress(httpx.HTTPError), self._client.stream("GET", self._url, headers=headers) as answer:
                answer.raise_for_status()
                self.connections += 1
                for line in answer.iter_lines():
                    self.reader.feed(line)
                    self.connected.set()
            if any(one.event == "end" for one in self.reader.heard):
                self.ended.set()

    def leave(self) -> None:
        """Do not come back when the server goes."""
        self._leaving.set()

    def join(self) -> None:
        self._thread.join(30)
        self._client.close()
        assert not self._thread.is_alive()


class Api:
    """One address, and processes that come and go behind it."""

    def __init__(self, cluster: Cluster) -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            self.port = taken.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._cluster = cluster
        self.start()

    def start(self) -> None:
        self.process = self._cluster.start("api", "--port", str(self.port))
        self._cluster.wait_for(self.answers, "the API answers")

    def answers(self) -> bool:
        with contextlib.suppress(httpx.HTTPError):
            return httpx.get(f"{self.url}/readyz", trust_env=False, timeout=5).status_code == 200
        return False

    def kill(self) -> None:
        self._cluster.kill(self.process)


@pytest.fixture
def api(cluster: Cluster) -> Api:
    return Api(cluster)


def make_key(cluster: Cluster) -> str:
    return api_keys.create_key(cluster.conn, "listener", [Scope.READ], created_by="test").key


def count(cluster: Cluster, query: str) -> int:
    return int(cluster.one(f"SELECT count(*) FROM {query}"))


@pytest.mark.timeout(240)
def test_nothing_is_missed_or_heard_twice_while_everything_is_killed(cluster: Cluster, api: Api) -> None:
    chain = workflow(a=task("b"), b=task("c"), c=task())
    orchestrator, _ = cluster.orchestrator(), cluster.worker()
    everything = Browser(f"{api.url}/api/v1/events/stream", make_key(cluster))
    assert everything.connected.wait(30)
    job_ids = [cluster.submit(chain) for _ in range(40)]
    watched = job_ids[-1]
    one_job = Browser(f"{api.url}/api/v1/jobs/{watched}/stream", make_key(cluster))
    cluster.wait_for(lambda: count(cluster, "dag_job_events WHERE seq > 3") > 20, "jobs are under way")
    api.kill()
    job_ids += [cluster.submit(chain) for _ in range(20)]
    api.start()
    cluster.kill(orchestrator)
    job_ids += [cluster.submit(chain) for _ in range(20)]
    cluster.orchestrator()
    wait_until(lambda: everything.connections >= 2, 30)
    api.kill()
    api.start()
    wait_until(lambda: everything.connections >= 3, 30)
    assert set(cluster.wait_for_end(*job_ids)) == {"completed"}
    expected = all_events(cluster.conn)
    wait_until(lambda: len(everything.reader.events) >= len(expected), 60)
    everything.leave()
    assert one_job.ended.wait(60)
    api.process.send_signal(signal.SIGTERM)
    assert api.process.wait(20) == 0
    everything.join()
    one_job.join()
    assert everything.reader.names == expected
    assert [seq for _, seq in one_job.reader.names] == list(range(1, len(one_job.reader.names) + 1))
    assert len(one_job.reader.names) == count(cluster, f"dag_job_events WHERE job_id = '{watched}'")
