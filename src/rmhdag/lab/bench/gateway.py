"""Partners on the gateway while the platform works: how long a poll takes, and whether one slows down the others."""

from __future__ import annotations

import asyncio
import secrets
import signal
import socket
import subprocess
import time
from collections import Counter
from contextlib import AsyncExitStack
from statistics import median
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import httpx
import orjson
from psycopg.conninfo import make_conninfo

from rmhdag.gateway.configuration import GatewayConfiguration
from rmhdag.gateway.server import serve
from rmhdag.lab.bench import workflows
from rmhdag.lab.bench.http import START_SECONDS, HttpApi
from rmhdag.lab.bench.http_scenarios import running
from rmhdag.lab.bench.measures import percentile
from rmhdag.lab.bench.process import spawn
from rmhdag.lab.bench.rig import PROCESS_SECONDS, SCHEMA, BenchFailed, Rig, Server
from rmhdag.lab.bench.scenarios import Numbers, Sizes, warm_up
from rmhdag.models.scopes import Scope
from rmhdag.store import api_keys
from rmhdag.store.roles import make_roles, role_names

ROLES = role_names("rmhdag_bench")
# Orders of partners, while others poll.
ORDERS_PER_SECOND = 5
FLOOD_CONNECTIONS = 16
GREEDY = "greedy"


class RunningGateway:
    """Answers when the `with` block begins; gone when it ends, with the roles that it needed."""

    def __init__(self, rig: Rig, api_url: str) -> None:
        self._rig = rig
        self._api_url = api_url
        self._process: subprocess.Popen[bytes] | None = None
        self.url = ""

    def __enter__(self) -> Self:
        conn = self._rig.conn
        make_roles(conn, SCHEMA, ROLES, actor="bench")
        password = secrets.token_urlsafe(16)
        conn.execute(f"ALTER ROLE {ROLES.gateway} PASSWORD '{password}'".encode())
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        settings = {
            "gateway_database_url": make_conninfo(self._rig.dsn, user=ROLES.gateway, password=password),
            "gateway_key": self.key("gateway", Scope.GATEWAY),
            "orchestrator_url": self._api_url,
            "client_quotas": "requests_per_second=100000, requests_per_hour=100000000, orders_per_day=1000000",
        }
        self._process = spawn("gateway", {"port": port, **settings}, self._rig.log)
        try:
            self._wait_until_it_answers()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(PROCESS_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        names = ", ".join(ROLES)
        self._rig.conn.execute(f"DROP OWNED BY {names}; DROP ROLE {names}".encode())

    def key(self, name: str, *scopes: Scope) -> str:
        return api_keys.create_key(self._rig.conn, name, scopes, created_by="bench").key

    def _wait_until_it_answers(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        with httpx.Client(base_url=self.url, trust_env=False) as client:
            while True:
                try:
                    if client.get("/readyz").status_code == 200:
                        return
                except httpx.TransportError:
                    pass
                assert self._process is not None
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise BenchFailed(f"the gateway does not answer; {self._rig.log_tail(20)}")
                time.sleep(0.02)


def serve_gateway(port: int, **settings: Any) -> None:
    """What the process does."""
    with socket.create_server(("127.0.0.1", port)) as listener:
        serve(GatewayConfiguration.model_validate(settings), SCHEMA, listener, pooled=False)


class Caller:
    """One connection that is kept, at little cost of its own: partners are elsewhere in real life."""

    def __init__(self, url: str, key: str) -> None:
        address = urlsplit(url)
        self._host, self._port = address.hostname or "", address.port or 80
        self._head = f"Host: {self._host}\r\nAuthorization: Bearer {key}\r\n"
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def send(self, method: str, path: str, body: Any = None) -> tuple[int, bytes]:
        if self._streams is None:
            self._streams = await asyncio.open_connection(self._host, self._port)
        reader, writer = self._streams
        content = b"" if body is None else orjson.dumps(body)
        length = f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n" if content else ""
        writer.write(f"{method} {path} HTTP/1.1\r\n{self._head}{length}\r\n".encode() + content)
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        size = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
        answer = await reader.readexactly(size)
        if b"connection: close" in head:
            await self.aclose()
        return int(head[9:12]), answer

    async def aclose(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


def measure_gateway(server: Server, sizes: Sizes) -> Numbers:
    """Polls at a steady rate by many partners, orders among them, and jobs at half the speed they could have."""
    with Rig(server) as rig:
        warm_up(rig)
        stored = rig.register(workflows.chain(sizes.chain_length))
        rate = median(sizes.chain_jobs / rig.seconds_for(stored, sizes.chain_jobs) for _ in range(3))
        order = {"workflow_id": stored.workflow_id, "input_params": {}}
        with HttpApi(rig) as api, RunningGateway(rig, api.url) as gateway:
            keys = [gateway.key(f"partner-{number}", Scope.B2B) for number in range(sizes.partners)]
            greedy = gateway.key(GREEDY, Scope.B2B)
            rig.conn.execute(
                "INSERT INTO dag_clients (client_id, quotas, changed_by) VALUES (%s, %s, 'bench')",
                [GREEDY, '{"requests_per_second": 5}'],
            )
            with running(rig, stored, rate / 2) as load:
                alone = asyncio.run(poll(gateway.url, keys, order, sizes))
                beside = asyncio.run(poll(gateway.url, keys, order, sizes, greedy=greedy))
            rig.wait_until("SELECT NOT EXISTS (SELECT FROM dag_jobs WHERE completed_at IS NULL)", 120)
            lost = rig.conn.execute(
                "SELECT count(*) FROM dag_api_requests AS r LEFT JOIN dag_jobs AS j USING (job_id)"
                " WHERE j.status IS DISTINCT FROM 'completed'"
            ).fetchone()
    assert lost is not None
    return {
        "partners": sizes.partners,
        "polls_per_second": round(len(alone["polls"]) / sizes.poll_seconds),
        "poll_p50_ms": round(median(alone["polls"]), 1),
        "poll_p99_ms": round(percentile(alone["polls"], 0.99), 1),
        "order_p99_ms": round(percentile(alone["orders"], 0.99), 1),
        "orders": len(alone["orders"]) + len(beside["orders"]),
        "orders_not_completed": lost[0],
        "errors": {str(status): count for status, count in (alone["errors"] + beside["errors"]).items()},
        "refused_of_greedy": beside["refused"],
        "poll_p50_beside_greedy": round(median(beside["polls"]) / median(alone["polls"]), 2),
        "poll_p99_beside_greedy_ms": round(percentile(beside["polls"], 0.99), 1),
        "tasks_per_second_alone": round(rate * sizes.chain_length),
        "tasks_per_second_meanwhile": round(load["jobs"] * sizes.chain_length / load["seconds"]),
    }


async def poll(
    url: str, keys: list[str], order: dict[str, Any], sizes: Sizes, greedy: str | None = None
) -> dict[str, Any]:
    """Milliseconds of polls and orders. Each poll is due at its time, and late ones count from then."""
    counts: dict[str, Any] = {"polls": [], "orders": [], "errors": Counter(), "refused": 0}
    async with AsyncExitStack() as stack:
        callers = [await _opened(stack, Caller(url, key)) for key in keys]
        ids = []
        for caller in callers:
            status, answer = await caller.send("POST", "/platform/submit", order)
            if status != 202:
                raise BenchFailed(f"POST /platform/submit: {status} {answer[:300]!r}")
            ids.append(orjson.loads(answer)["request_id"])
        flood = [
            asyncio.create_task(_flood(await _opened(stack, Caller(url, key)), counts))
            for key in ([greedy] * FLOOD_CONNECTIONS if greedy else [])
        ]
        orderer = await _opened(stack, Caller(url, keys[0]))
        tasks = []
        began = time.monotonic()
        turn, locks = asyncio.Lock(), [asyncio.Lock() for _ in callers]
        for number in range(int(sizes.polls_per_second * sizes.poll_seconds)):
            due = began + number / sizes.polls_per_second
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            who = number % len(callers)
            path = f"/platform/status/{ids[who]}"
            tasks.append(asyncio.create_task(_timed(callers[who], locks[who], "GET", path, None, due, counts)))
            if number % (sizes.polls_per_second // ORDERS_PER_SECOND) == 0:
                tasks.append(asyncio.create_task(_timed(orderer, turn, "POST", "/platform/submit", order, due, counts)))
        await asyncio.gather(*tasks)
        for task in flood:
            task.cancel()
        await asyncio.gather(*flood, return_exceptions=True)
    return counts


async def _timed(
    caller: Caller, lock: asyncio.Lock, method: str, path: str, body: Any, due: float, counts: dict[str, Any]
) -> None:
    async with lock:
        status, _ = await caller.send(method, path, body)
    counts["polls" if body is None else "orders"].append((time.monotonic() - due) * 1000)
    if status not in (200, 202):
        counts["errors"][status] += 1


async def _flood(caller: Caller, counts: dict[str, Any]) -> None:
    """As fast as it is answered, without a look at Retry-After."""
    while True:
        status, _ = await caller.send("GET", "/platform/me")
        counts["refused"] += status == 429


async def _opened(stack: AsyncExitStack, caller: Caller) -> Caller:
    stack.push_async_callback(caller.aclose)
    return caller
