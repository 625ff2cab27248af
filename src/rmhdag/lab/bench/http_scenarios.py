"""The API under load: reading among a million jobs, submitting while they run, and what it costs when nobody calls."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from itertools import cycle
from statistics import median
from typing import Any
from urllib.parse import urlsplit

import httpx
import orjson

from rmhdag.lab.bench import workflows
from rmhdag.lab.bench.http import HttpApi
from rmhdag.lab.bench.measures import compare, percentile
from rmhdag.lab.bench.rig import BenchFailed, Rig, Server
from rmhdag.lab.bench.scenarios import Numbers, Sizes, warm_up
from rmhdag.store.workflows import StoredWorkflow

WAVE_SECONDS = 0.25
SINGLE_CALLERS = 4
# Ninety days of jobs of twenty workflows and fifty submitters, as a platform in use would have them.
STORED_JOBS = """
INSERT INTO dag_jobs (job_id, workflow_id, workflow_version, workflow_hash, status, fairness_key, submitted_by,
    correlation_id, root_job_id, owner_epoch, created_at, started_at, completed_at, error_message, result_data)
SELECT id, 'old_' || j %% 20, 1, repeat('0', 64), (CASE WHEN j %% 50 = 0 THEN 'failed' WHEN j %% 97 = 0 THEN 'cancelled'
    ELSE 'completed' END)::job_status, 'team_' || j %% 50, 'team_' || j %% 50, 'order-' || j / 3, id, 1, at,
    at + interval '1 second', at + interval '1 second' * (2 + j %% 60),
    CASE WHEN j %% 50 = 0 THEN 'node n: no space' END, '{}'
FROM (
    SELECT j, '01' || lpad(to_hex(j), 30, '0') AS id, now() - interval '90 days' * (1 - j / %(jobs)s::float8) AS at
    FROM generate_series(1, %(jobs)s) AS j
) AS made
"""
STORED_NODES = """
INSERT INTO dag_node_states (job_id, node_id, status, task_id, created_at, ready_at, dispatched_at, started_at,
    completed_at, input_params)
SELECT job_id, 'n' || n, 'completed', job_id || '-n' || n, created_at, created_at, created_at, started_at,
    completed_at, '{"x": 1}'
FROM dag_jobs, generate_series(0, 1) AS n
WHERE submitted_by LIKE 'team_%%'
"""
STORED_EVENTS = """
INSERT INTO dag_job_events (job_id, seq, created_at, event_type, event_status, node_id, source_app)
SELECT job_id, seq, now() - interval '1 minute', 'node_completed', 'success', 'n0', 'bench'
FROM dag_jobs, generate_series(1, 3) AS seq
WHERE submitted_by LIKE 'team_%%'
"""
LISTS = {
    "newest": "",
    "status": "status=failed",
    "open": "status=running&status=pending",
    "workflow": "workflow_id=old_7",
    "submitter": "submitted_by=team_13",
    "time": "since={since}&until={until}",
    "correlation": "correlation_id=order-1000",
    "text": "q=old_1",
    "id": "q={start}",
    "all": "status=failed&workflow_id=old_10&submitted_by=team_0",
}


def measure_api(server: Server, sizes: Sizes) -> Numbers:
    """Reading one job, and lists, among many stored jobs, while jobs run at half the speed they could."""
    with Rig(server) as rig:
        for statement in (STORED_JOBS, STORED_NODES, STORED_EVENTS):
            rig.conn.execute(statement.encode(), {"jobs": sizes.stored_jobs})
        rig.conn.execute("VACUUM ANALYZE")
        rig.conn.execute("CHECKPOINT")
        warm_up(rig)
        stored = rig.register(workflows.chain(sizes.chain_length))
        rate = median(sizes.chain_jobs / rig.seconds_for(stored, sizes.chain_jobs) for _ in range(3))
        job_ids, list_paths = _job_ids(rig), _lists(rig)
        with HttpApi(rig) as api, running(rig, stored, rate / 2) as load:
            client = api.client()
            answers = {name: _times(client, _paths(name, job_ids), sizes.api_calls) for name in ("job", *PARTS)}
            lists = {name: _times(client, cycle([path]), sizes.list_calls) for name, path in list_paths.items()}
    return {
        "stored_jobs": sizes.stored_jobs,
        "tasks_per_second_alone": round(rate * sizes.chain_length),
        "tasks_per_second_meanwhile": round(load["jobs"] * sizes.chain_length / load["seconds"]),
        "p99_ms": {name: round(percentile(times, 0.99), 1) for name, times in answers.items()},
        "p50_ms": {name: round(median(times), 1) for name, times in answers.items()},
        "list_p99_ms": {name: round(percentile(times, 0.99), 1) for name, times in lists.items()},
        "worst_p99_ms": round(max(percentile(times, 0.99) for times in answers.values()), 1),
        "worst_list_p99_ms": round(max(percentile(times, 0.99) for times in lists.values()), 1),
    }


PARTS = ("nodes", "graph", "progress", "timeline")


def _paths(name: str, job_ids: list[str]) -> Iterator[str]:
    return cycle([f"/api/v1/jobs/{job_id}" + ("" if name == "job" else f"/{name}") for job_id in job_ids])


def _lists(rig: Rig) -> dict[str, str]:
    row = rig.conn.execute(
        "SELECT to_char(now() - interval '40 days', 'YYYY-MM-DD'), to_char(now() - interval '30 days', 'YYYY-MM-DD'),"
        " (SELECT left(job_id, 10) FROM dag_jobs WHERE submitted_by = 'team_3' LIMIT 1)"
    ).fetchone()
    assert row is not None
    since, until, start = f"{row[0]}T00:00:00Z", f"{row[1]}T00:00:00Z", row[2]
    filled = {name: query.format(since=since, until=until, start=start) for name, query in LISTS.items()}
    return {name: f"/api/v1/jobs?{query}" for name, query in filled.items()}


def _job_ids(rig: Rig) -> list[str]:
    """Of those that have just run; their graphs are those of a real workflow."""
    query = "SELECT job_id FROM dag_jobs WHERE submitted_by = 'bench' ORDER BY job_id DESC LIMIT 200"
    return [row[0] for row in rig.conn.execute(query.encode()).fetchall()]


def _times(client: httpx.Client, paths: Iterator[str], count: int) -> list[float]:
    """Milliseconds of each call, after a few that warm the way."""
    times = []
    for number in range(count + 5):
        path = next(paths)
        began = time.perf_counter()
        answer = client.get(path)
        took = (time.perf_counter() - began) * 1000
        if answer.status_code != 200:
            raise BenchFailed(f"GET {path}: {answer.status_code} {answer.text[:200]}")
        if number >= 5:
            times.append(took)
    return times


@contextmanager
def running(rig: Rig, stored: StoredWorkflow, jobs_per_second: float) -> Iterator[dict[str, float]]:
    """Jobs arrive evenly while the block runs; afterwards it tells how many, and in how many seconds they were done."""
    progress: dict[str, float] = {"jobs": 0, "seconds": 1}
    over = threading.Event()
    submitted: list[str] = []
    failed: list[BaseException] = []

    def submit() -> None:
        began = time.monotonic()
        try:
            while not over.wait(WAVE_SECONDS):
                due = int((time.monotonic() - began) * jobs_per_second) - len(submitted)
                if due > 0:
                    submitted.extend(rig.submit(stored, due))
        except BaseException as error:
            failed.append(error)

    began = time.monotonic()
    thread = threading.Thread(target=submit, name="load")
    thread.start()
    try:
        yield progress
    finally:
        over.set()
        thread.join()
    if failed:
        raise failed[0]
    rig.wait_for(submitted, 120)
    progress["jobs"], progress["seconds"] = len(submitted), time.monotonic() - began


def measure_submit(server: Server, sizes: Sizes) -> Numbers:
    """Jobs handed in over HTTP while they run: in batches by one caller, and one by one by a few."""
    with Rig(server) as rig:
        warm_up(rig)
        rig.register(workflows.chain(1))
        with HttpApi(rig, submits_per_second=1_000_000) as api:
            body = {"workflow_id": workflows.chain(1).workflow_id, "input_params": {}}
            batch = {"jobs": [body] * sizes.submit_batch}
            in_batches, ended_of_batches = _submitted(
                rig, lambda: Poster(api, "/api/v1/jobs/batch", batch), sizes.submit_batch, 1, sizes.submit_seconds
            )
            singly, ended_of_singles = _submitted(
                rig, lambda: Poster(api, "/api/v1/jobs", body), 1, SINGLE_CALLERS, sizes.submit_seconds
            )
    return {
        "batch": sizes.submit_batch,
        "in_batches_per_second": round(in_batches),
        "ended_meanwhile_per_second": round(ended_of_batches),
        "callers": SINGLE_CALLERS,
        "singly_per_second": round(singly),
        "ended_meanwhile_of_singles_per_second": round(ended_of_singles),
    }


class Poster:
    """Posts the same again and again on one connection, at little cost of its own: callers are elsewhere in real life,
    and httpx takes more of a processor for a call than the jobs that it submits.
    """

    def __init__(self, api: HttpApi, path: str, body: dict[str, Any]) -> None:
        address = urlsplit(api.url)
        assert address.hostname is not None
        self._connection = HTTPConnection(address.hostname, address.port, timeout=60)
        self._connection.connect()
        self._connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._path = path
        self._body = orjson.dumps(body)
        self._headers = {"Authorization": f"Bearer {api.key}", "Content-Type": "application/json"}

    def __call__(self) -> None:
        self._connection.request("POST", self._path, self._body, self._headers)
        answer = self._connection.getresponse()
        text = answer.read()
        if answer.status not in (200, 201):
            raise BenchFailed(f"POST {self._path}: {answer.status} {text[:300]!r}")

    def close(self) -> None:
        self._connection.close()


def _submitted(
    rig: Rig, caller: Callable[[], Poster], jobs_per_call: int, callers: int, seconds: float
) -> tuple[float, float]:
    """(accepted, ended) per second over that many seconds; the rest is let run out."""
    ended_query = "SELECT count(*) FROM dag_jobs WHERE completed_at IS NOT NULL"
    calls, began = 0, time.monotonic()
    before = _count(rig, ended_query)

    def repeat() -> int:
        done = 0
        with closing(caller()) as call:
            while time.monotonic() - began < seconds:
                call()
                done += 1
        return done

    with ThreadPoolExecutor(callers) as pool:
        calls = sum(future.result() for future in [pool.submit(repeat) for _ in range(callers)])
    took = time.monotonic() - began
    ended = _count(rig, ended_query) - before
    rig.wait_until("SELECT NOT EXISTS (SELECT FROM dag_jobs WHERE completed_at IS NULL)", 600)
    return calls * jobs_per_call / took, ended / took


def _count(rig: Rig, query: str) -> int:
    row = rig.conn.execute(query.encode()).fetchone()
    assert row is not None
    return int(row[0])


def measure_idle_api(server: Server, sizes: Sizes) -> Numbers:
    """Chains without an API, and with one that nobody calls."""
    tasks = sizes.chain_jobs * sizes.chain_length
    with Rig(server) as rig:
        warm_up(rig)
        stored = rig.register(workflows.chain(sizes.chain_length))

        def with_api() -> float:
            with HttpApi(rig):
                return tasks / rig.seconds_for(stored, sizes.chain_jobs)

        compared = compare(lambda: tasks / rig.seconds_for(stored, sizes.chain_jobs), with_api, sizes.pairs)
    return {
        "tasks_per_second_without": round(compared["first"], 1),
        "tasks_per_second": round(compared["second"], 1),
        "ratio": round(compared["ratio"], 3),
        "pairs": compared["pairs"],
    }
