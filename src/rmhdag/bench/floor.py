"""The floor: the very statements of the hot path, in batches of 200 from one connection, with no logic around them.

A chain of jobs is driven by hand: what the engine would decide is written down beforehand. What the platform reaches
above this is what its logic, its processes and its notices cost; below it nothing can be, with one connection.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import psycopg

from rmhdag.bench import workflows
from rmhdag.bench.platform import Server, open_bench_connection
from rmhdag.models.ids import task_id_of
from rmhdag.models.leases import TaskReport
from rmhdag.models.states import JobStatus, NodeStatus, TaskStatus
from rmhdag.orchestrator.submissions import job_row
from rmhdag.store import inbox, jobs, tasks
from rmhdag.store.channels import queue_channel
from rmhdag.store.identity import new_id
from rmhdag.store.settle import HeldJob, Writes, settle
from rmhdag.store.workflows import StoredWorkflow

BATCH = 200
OUTPUT = b'{"echoed_params":{"x":1}}'
OWNER = "floor-owner"
WORKER = "floor-worker"


class Floor:
    """A database on which the statements run, as often as one likes."""

    def __init__(self, server: Server, length: int) -> None:
        self._conn = open_bench_connection(server.create_database(), reads_whole_tables=False)
        self._conn.prepare_threshold = 0
        self._length = length
        self._stored = workflows.register(self._conn, workflows.chain(length))
        self._rounds = 0
        self._mark = 0
        self.tasks_per_second(1)  # statements get prepared, tables get pages

    def tasks_per_second(self, tasks_wanted: int) -> float:
        rounds = max(1, tasks_wanted // (BATCH * self._length))
        seconds = 0.0
        for _ in range(rounds):
            spent, self._mark = _drive(self._conn, self._stored, self._length, self._rounds, self._mark)
            seconds += spent
            self._rounds += 1
        return rounds * BATCH * self._length / seconds

    def close(self) -> None:
        self._conn.close()


def _drive(
    conn: psycopg.Connection[Any], stored: StoredWorkflow, length: int, number: int, mark: int
) -> tuple[float, int]:
    """Seconds, and where the inbox has been read to. Reads carry marks as the platform's do: without them the floor
    wades through dead rows that the platform never sees, and the ratio to it flatters."""
    rows = [job_row(new_id(), stored, {}, namespace=workflows.NAMESPACE, submitted_by="floor") for _ in range(BATCH)]
    ids = sorted(row["job_id"] for row in rows)
    decided = [_decide(ids, step, length, number) for step in range(length + 1)]
    began = time.perf_counter()
    with conn.transaction():
        jobs.insert_jobs(conn, rows, "floor")
    held = [HeldJob(job.job_id, job.owner_epoch) for job in jobs.claim_unowned_jobs(conn, OWNER, BATCH)]
    for step, writes in enumerate(decided):
        now, entries = inbox.read_inbox(conn, OWNER, mark, 500)
        told = [(entry.inbox_id, entry.job_id) for entry in entries]
        mark = max([mark, *(entry.inbox_id for entry in entries)])
        settled = settle(conn, OWNER, held, told, now, always(writes))
        assert settled.written
        if step < length:
            claimed = tasks.claim_tasks(conn, WORKER, workflows.QUEUE, BATCH, _first_key(number, length, step))
            reports = [
                TaskReport(task.task_id, task.lease_epoch, TaskStatus.COMPLETED, duration_ms=0, output=OUTPUT)
                for task in claimed
            ]
            assert len(tasks.report_tasks(conn, WORKER, reports)) == BATCH
    return time.perf_counter() - began, mark


def _decide(ids: list[str], step: int, length: int, number: int) -> Writes:
    """What the engine decides when node `step` − 1 of every job has completed, with as many rows of each kind."""
    writes = Writes()
    namespace = workflows.NAMESPACE
    seq = 1 + 3 * step
    for position, job_id in enumerate(ids):
        if step == 0:
            writes.jobs.append([job_id, JobStatus.RUNNING, None, None, None])
            writes.events.append([job_id, 2, namespace, "job_started", "info", None, None, None, None, {}])
            for index in range(1, length):
                row: list[Any] = [None] * 17
                row[:5] = [job_id, f"n{index}", NodeStatus.PENDING, 1, 3]
                row[6], row[16] = 0, namespace
                writes.new_nodes.append(row)
        else:
            done = f"n{step - 1}"
            task_id = task_id_of(job_id, done, 1)
            writes.nodes.append(_node(job_id, done, NodeStatus.COMPLETED, task_id, {"echoed_params": {"x": 1}}))
            data: dict[str, Any] = {"output": {"echoed_params": {"x": 1}}}
            event = [job_id, seq, namespace, "node_completed", "success", done, task_id, 0, None, data]
            writes.events.append(event)
        if step == length:
            writes.jobs.append([job_id, JobStatus.COMPLETED, None, {"n": 1}, None])
            writes.events.append([job_id, seq + 1, namespace, "job_completed", "success", None, None, None, None, {}])
            continue
        node_id = f"n{step}"
        task_id = task_id_of(job_id, node_id, 1)
        if step == 0:
            row = [None] * 17
            row[:6] = [job_id, node_id, NodeStatus.DISPATCHED, 1, 3, task_id]
            row[6], row[12], row[16] = 0, {"x": 1}, namespace
            writes.new_nodes.append(row)
        else:
            writes.nodes.append(_node(job_id, node_id, NodeStatus.DISPATCHED, task_id, None))
        data = {"queue": workflows.QUEUE, "task_id": task_id}
        writes.events.append([job_id, seq + 2, namespace, "node_ready", "info", node_id, None, None, None, {}])
        writes.events.append(
            [job_id, seq + 3, namespace, "node_dispatched", "info", node_id, task_id, None, None, data]
        )
        key = _first_key(number, length, step) + position
        task = [
            task_id,
            job_id,
            node_id,
            workflows.QUEUE,
            "echo",
            key,
            1,
            0,
            3600,
            0,
            "floor",
            namespace,
            {"x": 1},
            None,
        ]
        writes.tasks.append(task)
        writes.channels.add(queue_channel(workflows.QUEUE))
    return writes


def _node(job_id: str, node_id: str, status: NodeStatus, task_id: str, output: Any) -> list[Any]:
    params = {"x": 1} if output is None else None
    return [job_id, node_id, status, 1, task_id, 0, None, None, params, output, None, None, None, None, 0]


def always(writes: Writes) -> Callable[[set[str]], Writes]:
    """Nobody else owns these jobs: all of them are locked, all is written."""
    return lambda locked: writes


def _first_key(number: int, length: int, step: int) -> int:
    return (number * (length + 1) + step) * BATCH
