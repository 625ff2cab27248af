"""Large bodies of one namespace are in memory a few at a time; those of others do not wait for them."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator

import pytest

from rmhdag.api.body_room import LARGE_BYTES, BodyRoom
from rmhdag.api.problems import Problem
from rmhdag.models.limits import BODY_BYTES
from rmhdag.models.quotas import Quotas
from rmhdag.models.scopes import Scope
from rmhdag.store.connection import connect
from tests.api.registering import register
from tests.api.serving import ServedHere, served
from tests.security.test_quotas import SMALL
from tests.store.waiting import wait_until

MB = 1024 * 1024
SIZE = 6 * MB


@pytest.fixture
def api(migrated_database: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[ServedHere]:
    monkeypatch.setattr("rmhdag.api.body_room.PATIENCE_SECONDS", 0.3)
    with served(migrated_database, quotas=Quotas(body_bytes=8 * MB)) as running:
        yield running


def begin_body(api: ServedHere, key: str, head: str = f"Content-Length: {SIZE}\r\n") -> socket.socket:
    """Its head; the body never comes, or comes later."""
    host, port = api.url.removeprefix("http://").split(":")
    client = socket.create_connection((host, int(port)), timeout=30)
    text = f"POST /api/v1/jobs HTTP/1.1\r\nHost: x\r\nX-API-Key: {key}\r\nContent-Type: application/json\r\n{head}\r\n"
    client.sendall(text.encode())
    return client


def test_who_has_large_bodies_under_way_is_told_to_wait_and_others_are_not(api: ServedHere) -> None:
    alpha, beta = (api.key(Scope.SUBMIT, namespace=name) for name in ("alpha", "beta"))
    first = begin_body(api, alpha)
    wait_until(lambda: api.body_room.used_bytes("alpha") == SIZE)
    second = begin_body(api, alpha)
    answer = second.recv(65_536)
    assert answer.startswith(b"HTTP/1.1 429 ")
    problem = json.loads(answer.partition(b"\r\n\r\n")[2])
    assert (problem["code"], problem["quota"]["name"]) == ("quota_exceeded", "body_bytes")
    other = begin_body(api, beta)
    wait_until(lambda: api.body_room.used_bytes("beta") == SIZE)
    for client in (first, second, other):
        client.close()
    wait_until(lambda: not api.body_room.used_bytes("alpha") and not api.body_room.used_bytes("beta"))


def test_a_body_of_unknown_length_counts_as_the_largest_once_it_is_large(api: ServedHere) -> None:
    key = api.key(Scope.SUBMIT, namespace="alpha")
    client = begin_body(api, key, "Transfer-Encoding: chunked\r\n")
    part = b" " * (LARGE_BYTES // 2)
    for _ in range(4):
        client.sendall(b"%x\r\n%b\r\n" % (len(part), part))
    wait_until(lambda: api.body_room.used_bytes("alpha") == BODY_BYTES)
    client.close()
    wait_until(lambda: not api.body_room.used_bytes("alpha"))


def test_a_connection_that_has_sent_a_large_body_is_replaced(api: ServedHere, migrated_database: str) -> None:
    """The driver keeps a buffer of the largest size that it has sent."""
    register(migrated_database, SMALL, "alpha")
    alpha = api.client(Scope.SUBMIT, namespace="alpha")

    def submit(size: int) -> None:
        body = {"workflow_id": "small", "input_params": {"text": "x" * size}}
        assert alpha.post("/api/v1/jobs", json=body).status_code == 201

    submit(1)
    before = backends(migrated_database)
    submit(100_000)
    assert backends(migrated_database) >= before
    submit(2 * MB)
    wait_until(lambda: before - backends(migrated_database))


def backends(dsn: str) -> set[int]:
    with connect(dsn, "test", autocommit=True) as conn:
        query = """SELECT pid FROM pg_stat_activity
            WHERE datname = current_database() AND application_name = 'rmhdag:api:api'"""
        return {row[0] for row in conn.execute(query)}


def test_bodies_get_room_in_the_order_in_which_they_came() -> None:
    async def run() -> list[str]:
        room, order = BodyRoom(), list[str]()

        async def pass_through(name: str, size: int) -> None:
            await room.take("alpha", size, 10)
            order.append(name)
            room.give_back("alpha", size)

        await room.take("alpha", 12, 10)  # alone it has room, whatever its size
        waiting = [asyncio.create_task(pass_through(name, size)) for name, size in (("a", 9), ("b", 9), ("c", 1))]
        await asyncio.wait(waiting, timeout=0.01)
        assert not order
        room.give_back("alpha", 12)
        await asyncio.gather(*waiting)
        assert not room.used_bytes("alpha")
        return order

    assert asyncio.run(run()) == ["a", "b", "c"]


def test_who_gives_up_waiting_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        room = BodyRoom()
        await room.take("alpha", 8, 10)
        with monkeypatch.context() as patch:
            patch.setattr("rmhdag.api.body_room.PATIENCE_SECONDS", 0.01)
            with pytest.raises(Problem):
                await room.take("alpha", 8, 10)
        canceled = asyncio.create_task(room.take("alpha", 8, 10))
        await asyncio.wait([canceled], timeout=0)
        canceled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await canceled
        room.give_back("alpha", 8)
        assert not room.used_bytes("alpha")
        await room.take("alpha", 10, 10)

    asyncio.run(run())
