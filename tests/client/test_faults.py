"""What the client does when the other side refuses, stumbles, restarts or loses answers."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from subprocess import Popen

import httpx
import pytest

from rmhdag import AsyncClient, Client, RmhdagError
from rmhdag.cli.exit_codes import ExitCode
from rmhdag.client import (
    AuthenticationError,
    Conflict,
    InvalidRequest,
    JobCancelled,
    JobFailed,
    NotFound,
    ServerError,
    Unavailable,
    WaitTimeout,
)
from rmhdag.models.scopes import Scope
from tests.api.running import Running
from tests.client.answering import Prepared, answering, problem
from tests.store.waiting import wait_until

ME = Prepared(200, {"name": "ada", "namespace": "default", "scopes": ["read"], "key_id": None})
NOW = {"Retry-After": "0"}


def test_errors_mirror_exit_codes() -> None:
    mirrored: dict[type[RmhdagError], ExitCode] = {
        JobFailed: ExitCode.FAILED,
        ServerError: ExitCode.FAILED,
        InvalidRequest: ExitCode.INVALID,
        NotFound: ExitCode.NOT_FOUND,
        AuthenticationError: ExitCode.AUTHENTICATION,
        Conflict: ExitCode.CONFLICT,
        JobCancelled: ExitCode.CANCELLED,
        WaitTimeout: ExitCode.WAIT_TIMEOUT,
        Unavailable: ExitCode.UNAVAILABLE,
    }
    assert {kind: kind.exit_code for kind in mirrored} == mirrored


def test_what_the_server_refuses(client: Client, up: Running) -> None:
    with Client(up.api.url, "rmh_nobody") as nobody, pytest.raises(AuthenticationError) as unknown:
        nobody.me()
    assert unknown.value.status == 401
    with Client(up.api.url, up.api.key(Scope.READ)) as reader, pytest.raises(AuthenticationError) as forbidden:
        reader.submit("flaky")
    assert forbidden.value.code == "scope_missing"
    with pytest.raises(NotFound, match="flaki") as missing:
        client.submit("flaki")
    assert "flaky" in (missing.value.remedy or "")
    with pytest.raises(InvalidRequest) as invalid:
        client.submit("flaky", fails="perhaps", colour="red")
    assert {place.pointer for place in invalid.value.errors} == {"/input_params/fails", "/input_params/colour"}
    assert "colour" in str(invalid.value)
    client.submit("lonely", idempotency_key="once")
    with pytest.raises(Conflict):
        client.submit("slow", idempotency_key="once")
    with pytest.raises(InvalidRequest) as wrong:
        client.register("workflow_id: broken\nname: Broken\nnodes: {a: {handler: echo, queue: nowhere}}\n")
    assert wrong.value.errors[0].line == 3


def test_what_is_wrong_before_anything_is_sent(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidRequest):
        client.submit("flaky", priority=11)
    monkeypatch.delenv("RMHDAG_URL", raising=False)
    for url in (None, "example.org", "ftp://example.org"):
        with pytest.raises(InvalidRequest):
            Client(url)
    with pytest.raises(AuthenticationError):
        Client("http://example.org", "a\nb")


def test_url_and_key_come_from_the_environment(up: Running, admin_key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RMHDAG_URL", f"{up.api.url}/")
    monkeypatch.setenv("RMHDAG_KEY", admin_key)
    with Client() as client:
        assert client.me().name == "ada"


@pytest.mark.parametrize(
    ("answers", "requests"),
    [
        ([problem(503), ME], 2),
        ([Prepared(502, b"<html>", NOW), Prepared(429, b"", NOW), ME], 3),
        ([Prepared(None), Prepared(None), ME], 3),
    ],
)
def test_what_may_pass_is_tried_again(answers: list[Prepared], requests: int) -> None:
    with answering(*answers) as server, Client(server.url, "k") as client:
        assert client.me().name == "ada"
    assert len(server.requests) == requests


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (Prepared(503, b"", {"Retry-After": "3600"}), Unavailable),
        (problem(500, "unexpected_error"), ServerError),
        (Prepared(200, b"<html>"), ServerError),
        (Prepared(302, b"", {"Location": "http://127.0.0.1:1/"}), ServerError),
        (Prepared(418, b"teapot"), InvalidRequest),
        (problem(409, remedy="do this", errors=[{"pointer": "/a", "detail": "b"}]), Conflict),
    ],
)
def test_what_will_not_pass_is_told_at_once(answer: Prepared, kind: type[RmhdagError]) -> None:
    with answering(answer) as server, Client(server.url, "k") as client, pytest.raises(kind) as told:
        client.me()
    assert len(server.requests) == 1
    if kind is Conflict:
        assert (told.value.code, told.value.remedy) == ("some_code", "do this")
        assert str(told.value) == "told some_code\n  /a: b\n  do this"


def test_what_is_not_safe_is_not_repeated() -> None:
    with answering(Prepared(None)) as server, Client(server.url, "k") as client, pytest.raises(Unavailable):
        client.redeliver("0190a0b0c0d07e0f8a0b0c0d0e0f0a0e")
    assert len(server.requests) == 1


def test_a_server_that_is_not_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    with Client(url, "k") as client, pytest.raises(Unavailable, match="does not answer"):
        client.me()


def test_lost_answers_start_no_second_job(up: Running, admin_key: str) -> None:
    lost = [Prepared(None)] * 2
    with answering(*lost, forward_to=up.api.url) as proxy, Client(proxy.url, admin_key) as client:
        client.submit("lonely", correlation_id="lost-answers")
    assert [path for _, path in proxy.requests] == ["/api/v1/jobs"] * 3
    with answering(*lost, forward_to=up.api.url) as proxy, Client(proxy.url, admin_key) as client:
        client.submit_many([{"workflow_id": "lonely", "correlation_id": "lost-batch"}] * 3)
    assert len(proxy.requests) == 3

    async def awaited(url: str) -> None:
        async with AsyncClient(url, admin_key) as client:
            await client.submit("lonely", correlation_id="lost-awaited")

    with answering(*lost, forward_to=up.api.url) as proxy:
        asyncio.run(awaited(proxy.url))
    with Client(up.api.url, admin_key) as client:
        for name, count in (("lost-answers", 1), ("lost-batch", 3), ("lost-awaited", 1)):
            assert len(list(client.jobs(correlation_id=name))) == count


class MortalApi:
    """A real API process on a port that it keeps over its deaths."""

    def __init__(self, up: Running) -> None:
        self._cluster = up.cluster
        with socket.create_server(("127.0.0.1", 0)) as taken:
            self.port = taken.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.process = self.start()

    def start(self) -> Popen[bytes]:
        process = self._cluster.start("api", "--port", str(self.port))

        def is_there() -> bool:
            try:
                return httpx.get(f"{self.url}/livez", trust_env=False).status_code == 200
            except httpx.TransportError:
                return False

        wait_until(is_there)
        return process

    def die(self) -> None:
        """Killed; whoever looks meanwhile is hung up on, and came at least once before it is started again."""
        self._cluster.kill(self.process)
        with socket.create_server(("127.0.0.1", self.port)) as nobody:
            nobody.settimeout(60)
            connection, _ = nobody.accept()
            connection.close()
        self.process = self.start()


@pytest.fixture
def mortal(up: Running) -> Iterator[MortalApi]:
    api = MortalApi(up)
    yield api
    up.cluster.kill(api.process)


@contextmanager
def in_thread(act: Callable[[], None]) -> Iterator[None]:
    failures: list[BaseException] = []

    def run() -> None:
        try:
            act()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    yield
    thread.join(60)
    assert not thread.is_alive()
    assert not failures, failures


def test_waiting_outlives_the_server(mortal: MortalApi, up: Running, admin_key: str, client: Client) -> None:
    looks: list[float] = []
    with Client(mortal.url, admin_key) as far:
        job = far.submit("release")

        def wait() -> None:
            job.wait(100, progress=lambda told: looks.append(told.overall_percent))

        with in_thread(wait):
            up.wait_for_node(job.job_id, "ask", "running")
            wait_until(lambda: looks)
            mortal.die()
            client.job(job.job_id).decide("ask", approve=True)
        assert job.outputs


def test_events_outlive_the_server(mortal: MortalApi, up: Running, admin_key: str, client: Client) -> None:
    heard: list[int] = []
    with Client(mortal.url, admin_key) as far:
        job = far.submit("release")

        def listen() -> None:
            heard.extend(event.event_id for event in job.events())

        with in_thread(listen):
            up.wait_for_node(job.job_id, "ask", "running")
            wait_until(lambda: len(heard) > 1)
            mortal.die()
            client.job(job.job_id).decide("ask", approve=True)
        last = list(client.job(job.job_id).events())[-1]
    assert heard == list(range(1, last.event_id + 1))
