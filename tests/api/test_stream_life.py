"""How streams end and what they leave behind: clients that go away or do not read, servers that stop or are full."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import weakref
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest
import websockets.exceptions
from websockets.sync.client import ClientConnection, connect

from rmhdag.api.server import STREAM_BUFFER_BYTES
from rmhdag.api.streams.chunks import Chunk, Message
from rmhdag.api.streams.listener import Backlog, Listener, StreamLimits
from rmhdag.models.scopes import Scope
from rmhdag.store.connection import Conn
from tests.api.listening import Listening, add_events, add_job, all_events, end_job, open_connection
from tests.api.serving import ServedHere, served
from tests.api.test_foundation import problem
from tests.store.waiting import wait_until

ALL = "/api/v1/events/stream"


@pytest.fixture
def conn(api: ServedHere) -> Iterator[Conn]:
    with open_connection(api.dsn) as opened:
        yield opened


def talk(api: ServedHere, path: str, **given: Any) -> ClientConnection:
    made: ClientConnection = connect(api.url.replace("http://", "ws://") + path, proxy=None, **given)
    return made


def bearer(api: ServedHere, *scopes: Scope) -> dict[str, str]:
    return {"Authorization": f"Bearer {api.key(*scopes)}"}


def test_a_websocket_tells_the_same_as_messages(api: ServedHere, conn: Conn) -> None:
    add_job(conn, "j1")
    add_events(conn, "j1", 1, 3, phase="a")
    with talk(api, "/ws/jobs/j1?after=1", additional_headers=bearer(api, Scope.READ)) as websocket:
        heard = [json.loads(websocket.recv(30)) for _ in range(2)]
        end_job(conn, "j1", 4)
        heard += [json.loads(text) for text in websocket]
    assert [(one["event"], one.get("id")) for one in heard] == [
        ("message", "2"),
        ("message", "3"),
        ("message", "4"),
        ("end", None),
    ]
    assert heard[0]["data"]["data"] == {"phase": "a"}
    assert heard[-1]["data"] == {"job_id": "j1", "status": "completed"}
    assert websocket.close_code == 1000


@pytest.mark.parametrize("protocols", [["rmhdag.events", "bearer.{key}"], ["bearer.{key}"]])
def test_a_browser_sends_its_key_as_a_protocol(api: ServedHere, conn: Conn, protocols: list[str]) -> None:
    add_job(conn, "j1")
    add_events(conn, "j1", 1)
    origin: Any = api.url
    offered: Any = [one.format(key=api.key(Scope.READ)) for one in protocols]
    with talk(api, "/ws/jobs/j1", subprotocols=offered, origin=origin) as websocket:
        assert websocket.subprotocol == offered[0]
        assert json.loads(websocket.recv(30))["id"] == "1"


@pytest.mark.parametrize(
    ("path", "scopes", "origin", "status", "code"),
    [
        ("/ws/jobs/j1", None, None, 401, "no_key"),
        ("/ws/jobs/j1", [Scope.SUBMIT], None, 403, "scope_missing"),
        ("/ws/jobs/j1", [Scope.READ], "https://elsewhere.example", 403, "origin_refused"),
        ("/ws/jobs/j1", [Scope.READ], "null", 403, "origin_refused"),
        ("/ws/jobs/j1?aftr=1", [Scope.READ], None, 422, "invalid_request"),
        ("/ws/jobs/j1?after=0&after=0", [Scope.READ], None, 422, "invalid_request"),
        ("/ws/jobs/j1?after=x", [Scope.READ], None, 400, "unknown_place"),
        ("/ws/jobs/j2", [Scope.READ], None, 404, "not_found"),
        ("/ws/jobs/%00", [Scope.READ], None, 404, "not_found"),
        ("/ws/jobs/" + "x" * 200, [Scope.READ], None, 404, "not_found"),
    ],
)
def test_a_websocket_is_refused_with_a_problem(
    api: ServedHere, conn: Conn, path: str, scopes: list[Scope] | None, origin: Any, status: int, code: str
) -> None:
    add_job(conn, "j1")
    headers = {} if scopes is None else bearer(api, *scopes)
    with pytest.raises(websockets.exceptions.InvalidStatus) as refused:
        talk(api, path, additional_headers=headers, origin=origin)
    assert refused.value.response.status_code == status
    assert json.loads(refused.value.response.body or b"")["code"] == code


def test_other_sites_may_be_named(migrated_database: str) -> None:
    with served(migrated_database, origins=frozenset({"https://ops.example"})) as api, open_connection(api.dsn) as conn:
        add_job(conn, "j1")
        add_events(conn, "j1", 1)
        given: Any = {"origin": "https://ops.example", "additional_headers": bearer(api, Scope.READ)}
        with talk(api, "/ws/jobs/j1", **given) as websocket:
            assert json.loads(websocket.recv(30))["id"] == "1"


def test_a_server_takes_only_so_many_listeners(migrated_database: str) -> None:
    with served(migrated_database, max_listeners=3, max_listeners_per_key=2) as api:
        ada, ben = api.client(Scope.READ), api.client(Scope.READ)
        with Listening(ada, ALL), Listening(ada, ALL) as second:
            answer = ada.get(ALL)
            problem(answer, 429, "too_many_streams")
            assert answer.headers["retry-after"]
            with Listening(ben, ALL):
                problem(ben.get(ALL), 503, "too_many_listeners")
            second.hang_up()
            wait_until(lambda: open_streams(ada))
        assert api.hub.listeners <= 3


def open_streams(client: Any) -> bool:
    with Listening(client, ALL) as again:
        return again.status_code == 200


def test_whoever_goes_away_leaves_nothing_behind(api: ServedHere, conn: Conn) -> None:
    add_job(conn, "j1")
    client, headers = api.client(Scope.READ), bearer(api, Scope.READ)
    with Listening(client, ALL):  # what a first listener makes once is made
        pass
    wait_until(lambda: not api.hub.listeners)
    before = lasting_threads()
    for _ in range(10):
        with (
            Listening(client, ALL) as all_jobs,
            Listening(client, "/api/v1/jobs/j1/stream"),
            talk(api, "/ws/jobs/j1", additional_headers=headers),
        ):
            wait_until(lambda: api.hub.listeners == 3)
            all_jobs.hang_up()
        wait_until(lambda: not api.hub.listeners)
    client.close()
    wait_until(lambda: api.open_connections() == 0)
    wait_until(lambda: lasting_threads() <= before)


def lasting_threads() -> Counter[str]:
    """Without those of pools, which come and go as they like."""
    return Counter(one.name for one in threading.enumerate() if not one.name.startswith(("AnyIO", "api-")))


@pytest.mark.parametrize("stream_limits", [StreamLimits(most_chunks=2, send_seconds=300)])
def test_a_listener_that_does_not_read_keeps_its_place_and_little_memory(api: ServedHere, conn: Conn) -> None:
    """It holds no more than its queue; when it reads again, the rest comes from the table."""
    key = api.key(Scope.READ)
    host, port = api.url.removeprefix("http://").split(":")
    waiting = []
    with socket.socket() as slow, Listening(api.client(Scope.READ), ALL) as quick:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        slow.connect((host, int(port)))
        slow.sendall(f"GET {ALL} HTTP/1.0\r\nHost: x\r\nX-API-Key: {key}\r\n\r\n".encode())
        wait_until(lambda: api.hub.listeners == 2)
        for number in range(1, 31):
            add_events(conn, f"j{number}", 1, 100, text="x" * 5_000)
            quick.wait_for(number * 100)
            waiting.append(api.hub.most_queued)
        with slow.makefile("rb") as lines:
            told = (json.loads(line[6:]) for line in lines if line.startswith(b"data: "))
            heard = [(one["job_id"], one["event_id"]) for one in islice(told, 3_000)]
    assert 0 < max(waiting) <= 2
    assert heard == all_events(conn)
    assert quick.reader.names == all_events(conn)


@pytest.mark.parametrize("stream_limits", [StreamLimits(send_seconds=0.2)])
def test_a_listener_that_never_reads_is_cut_off(api: ServedHere, conn: Conn) -> None:
    """Its connection too: to close it would be to keep what it has not read for as long as it likes."""
    key = api.key(Scope.READ)
    host, port = api.url.removeprefix("http://").split(":")
    with socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        slow.connect((host, int(port)))
        slow.sendall(f"GET {ALL} HTTP/1.0\r\nHost: x\r\nX-API-Key: {key}\r\n\r\n".encode())
        wait_until(lambda: api.hub.listeners == 1)
        for number in range(1, 11):
            add_events(conn, f"j{number}", 1, 100, text="x" * 5_000)
        wait_until(lambda: not api.hub.listeners)
        wait_until(lambda: api.open_connections() == 0)


def test_the_system_keeps_little_for_a_stream(api: ServedHere, conn: Conn) -> None:
    """By default up to 4 MB for each client that does not read."""
    other = api.client(Scope.READ)
    assert other.get("/api/v1/me").status_code == 200
    sizes = [peer.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) for peer in api.peers()]
    assert min(sizes) > 2 * STREAM_BUFFER_BYTES
    other.close()
    with Listening(api.client(Scope.READ), ALL):
        wait_until(lambda: api.hub.listeners == 1)
        sizes = [peer.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) for peer in api.peers()]
    assert min(sizes) == 2 * STREAM_BUFFER_BYTES


def test_what_is_sent_is_kept_by_nobody_else() -> None:
    """A client that does not read would else keep its page as objects and as text."""

    async def read(place: int) -> Backlog[int]:
        return Backlog(chunk(place + 1, place + 10), is_last=False)

    async def play() -> None:
        listener = Listener(0, read, StreamLimits())
        listener.greet()
        async for taken in listener.chunks():
            watched = weakref.ref(taken)
            del taken
            assert watched() is None
            return

    asyncio.run(play())


@pytest.mark.parametrize("stream_limits", [StreamLimits(ping_seconds=0.1)])
def test_a_quiet_stream_shows_that_it_is_alive_and_where_it_is(api: ServedHere, conn: Conn) -> None:
    with Listening(api.client(Scope.READ), f"{ALL}?event_types=job_failed") as listening:
        place = listening.reader.last_id
        add_events(conn, "j1", 1)  # nothing for this listener, but it has passed it
        wait_until(lambda: listening.reader.last_id != place)
        assert listening.reader.comments


def test_a_stream_ends_when_its_key_is_revoked(api: ServedHere, conn: Conn) -> None:
    add_job(conn, "j1")
    first, second = api.client(Scope.READ), api.client(Scope.READ)
    mine, theirs = (client.headers["Authorization"].split("_")[1] for client in (first, second))
    with (
        Listening(first, ALL) as revoked,
        Listening(second, ALL) as live,
        talk(api, "/ws/jobs/j1", additional_headers=bearer(api, Scope.READ)) as websocket,
    ):
        conn.execute("UPDATE dag_api_keys SET revoked_at = now() WHERE key_id = %s", [mine])
        assert revoked.over.wait(30)
        conn.execute("UPDATE dag_api_keys SET expires_at = now() WHERE key_id <> %s", [theirs])
        with pytest.raises(websockets.exceptions.ConnectionClosed):
            websocket.recv(30)
        add_events(conn, "j1", 1)
        wait_until(lambda: live.reader.events)
        assert not live.over.is_set()


@pytest.mark.parametrize("stream_limits", [StreamLimits(most_seconds=0.2)])
def test_a_stream_ends_after_some_time_so_that_tokens_are_looked_at_again(api: ServedHere, conn: Conn) -> None:
    client = api.client(Scope.READ)
    with Listening(client, ALL) as listening:
        assert listening.over.wait(30)
    add_events(conn, "j1", 1)
    conn.execute("UPDATE dag_api_keys SET revoked_at = now()")
    again = client.get(ALL, headers={"Last-Event-ID": listening.reader.last_id})
    problem(again, 401, "key_refused")


def test_a_server_that_stops_ends_its_streams_at_once(migrated_database: str) -> None:
    with served(migrated_database) as api, open_connection(migrated_database) as conn:
        add_job(conn, "j1")
        with (
            Listening(api.client(Scope.READ), ALL) as all_jobs,
            Listening(api.client(Scope.READ), "/api/v1/jobs/j1/stream") as one_job,
            talk(api, "/ws/jobs/j1", additional_headers=bearer(api, Scope.READ)) as websocket,
        ):
            api.stop()
            assert all_jobs.over.wait(4)  # less than the grace of ordinary calls
            assert one_job.over.wait(4)
            with pytest.raises(websockets.exceptions.ConnectionClosedError):
                websocket.recv(4)
            assert websocket.close_code == 1012
        assert [one.event for one in one_job.reader.heard] == []


def test_a_reader_that_loses_its_connection_goes_on_where_it_was(api: ServedHere, conn: Conn) -> None:
    kill = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
    with Listening(api.client(Scope.READ), ALL) as listening:
        add_events(conn, "j1", 1)
        listening.wait_for(1)
        assert conn.execute(f"{kill} AND application_name LIKE 'rmhdag:%%'".encode(), []).fetchall()
        add_events(conn, "j1", 2, 3)
        listening.wait_for(4)
    assert listening.reader.names == all_events(conn)


def message(seq: int) -> Message[int]:
    return Message(seq, b"{}")


def chunk(first: int, last: int, end: str | None = None) -> Chunk[int]:
    return Chunk(first - 1, last, tuple(message(seq) for seq in range(first, last + 1)), end)


def test_a_listener_takes_each_event_once_whatever_it_is_offered() -> None:
    """Chunks that overlap, repeat, skip or come early; the table has what was skipped."""
    table = 9
    reads: list[int] = []

    async def read(place: int) -> Backlog[int]:
        reads.append(place)
        return Backlog(chunk(place + 1, max(place, table)), is_last=True)

    async def play() -> list[int]:
        nonlocal table
        listener = Listener(3, read, StreamLimits())
        got: list[int] = []
        listener.offer(chunk(4, 5))
        listener.greet()
        listener.offer(chunk(8, 11))
        listener.offer(chunk(8, 9))
        listener.offer(chunk(14, 15))
        listener.offer(chunk(16, 16, "completed"))
        table = 13
        async for taken in listener.chunks():
            got += [one.place for one in taken.messages]
            table = 15
        return got

    assert asyncio.run(play()) == list(range(4, 17))
    assert reads == [3]
