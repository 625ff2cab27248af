"""Callbacks to a receiver that fails three times in ten: is one lost, unsigned, or told under two names?"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import threading
import time
from collections import defaultdict
from types import TracebackType
from typing import Self

from rmhdag.lab.bench import workflows
from rmhdag.lab.bench.measures import percentile
from rmhdag.lab.bench.rig import BenchFailed, Rig, Server
from rmhdag.lab.bench.scenarios import Numbers, Sizes, warm_up
from rmhdag.services.callbacks.signing import Vault, new_secret
from rmhdag.store import callback_endpoints

FAILING = 0.3
RETRIES = 40
RETRY_SECONDS = 0.2
WAVE = 500
REFUSALS = (
    b"HTTP/1.1 500 E\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 302 E\r\nLocation: /\r\nContent-Length: 0\r\n\r\n",
)
THANKS = b"HTTP/1.1 204 OK\r\n\r\n"


class FailingSink:
    """Which try fails is drawn from the message's id and the number of the try, so that a run can be repeated."""

    def __init__(self, secret: str) -> None:
        self._key = base64.b64decode(secret.removeprefix("whsec_"))
        self.tries: dict[str, int] = defaultdict(int)
        self.ids: dict[str, set[str]] = defaultdict(set)
        self.accepted: set[str] = set()
        self.unverified = 0
        self.port = 0
        self._loop = asyncio.new_event_loop()
        self._listening = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sink", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._listening.wait(10)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def _run(self) -> None:
        server = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=1024))
        self.port = server.sockets[0].getsockname()[1]
        self._listening.set()
        self._loop.run_forever()
        server.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
            body = await reader.readexactly(int(headers["content-length"]))
            writer.write(self._answer(head[0].split(" ")[1], headers, body))
            await writer.drain()
        except (OSError, EOFError):
            pass
        finally:
            writer.close()

    def _answer(self, target: str, headers: dict[str, str], body: bytes) -> bytes:
        message_id = headers["webhook-id"]
        signed = f"{message_id}.{headers['webhook-timestamp']}.".encode() + body
        expected = "v1," + base64.b64encode(hmac.digest(self._key, signed, "sha256")).decode()
        if expected not in headers["webhook-signature"].split(" "):
            self.unverified += 1
        self.ids[target].add(message_id)
        self.tries[message_id] += 1
        drawn = hashlib.sha256(f"{message_id} {self.tries[message_id]}".encode()).digest()
        if drawn[0] < FAILING * 256:
            kind = drawn[1] % (len(REFUSALS) + 1)
            return REFUSALS[kind] if kind < len(REFUSALS) else b""
        self.accepted.add(message_id)
        return THANKS


def measure_callbacks(server: Server, sizes: Sizes) -> Numbers:
    """From the submission of all jobs until the last of their callbacks is accepted."""
    secret = new_secret()
    with FailingSink(secret) as sink:
        settings = {
            "rules": {"hosts": [f"127.0.0.1:{sink.port}"]},
            "schedule_seconds": [RETRY_SECONDS] * RETRIES,
            "per_host": 32,
        }
        with Rig(server, callbacks=settings) as rig:
            warm_up(rig)
            stored = rig.register(workflows.chain(1))
            url = f"http://127.0.0.1:{sink.port}/hook"
            sealed = Vault().seal(secret, workflows.NAMESPACE, url)
            callback_endpoints.create_endpoint(rig.conn, workflows.NAMESPACE, url, sealed, "bench")
            began = time.perf_counter()
            job_ids: list[str] = []
            for first in range(0, sizes.callbacks, WAVE):
                targets = [f"{url}?n={number}" for number in range(first, min(first + WAVE, sizes.callbacks))]
                job_ids += rig.submit(stored, len(targets), callback_urls=targets)
            rig.wait_for(job_ids, 600)
            rig.wait_until("SELECT NOT EXISTS (SELECT FROM dag_callbacks WHERE status = 'pending')", 600)
            seconds = time.perf_counter() - began
            query = """SELECT c.callback_id, c.status::text, extract(epoch FROM c.settled_at - j.completed_at)::float8
                FROM dag_callbacks AS c JOIN dag_jobs AS j USING (job_id)"""
            rows = rig.conn.execute(query).fetchall()
    delivered = {row[0] for row in rows if row[1] == "delivered"}
    lost = len(job_ids) - len(delivered & sink.accepted)
    twice = sum(len(ids) > 1 for ids in sink.ids.values())
    if lost or sink.unverified or twice or len(rows) != len(job_ids):
        raise BenchFailed(f"of {len(job_ids)}: lost {lost}, tries not verified {sink.unverified}, with two ids {twice}")
    tries = sum(sink.tries.values())
    waits = sorted(row[2] * 1000 for row in rows)
    return {
        "callbacks": len(rows),
        "seconds": round(seconds, 2),
        "callbacks_per_second": round(len(rows) / seconds, 1),
        "tries": tries,
        "failed_share": round(1 - len(sink.accepted) / tries, 3),
        "lost": lost,
        "unverified": sink.unverified,
        "with_two_ids": twice,
        "end_to_accepted_p50_ms": round(percentile(waits, 0.5), 1),
        "end_to_accepted_p99_ms": round(percentile(waits, 0.99), 1),
    }
