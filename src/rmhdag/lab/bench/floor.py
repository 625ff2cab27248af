"""The floor: the very statements of the hot path, in batches of 200 from one connection, with no logic around them.

A chain of jobs is driven by hand: what the engine would decide is written down beforehand. What the platform reaches
above this is what its logic, its processes and its notices cost; below it nothing can be, with one connection.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from rmhdag.lab.bench import workflows
from rmhdag.lab.bench.rig import Server, open_bench_connection
from rmhdag.models.events import EventStatus, EventType
from rmhdag.models.ids import task_id_of
from rmhdag.models.leases import TaskReport
from rmhdag.models.states import JobStatus, NodeStatus, TaskStatus
from rmhdag.services.submissions import job_row
from rmhdag.store import inbox, jobs, tasks
from rmhdag.store.batch_rows import HeldJob, JobChange, JobEventRow, NewNode, NodeChange, QueuedTaskRow
from rmhdag.store.channels import queue_channel
from rmhdag.store.connection import Conn
from rmhdag.store.identity import new_id
from rmhdag.store.settle import Writes, settle
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


def _drive(conn: Conn, stored: StoredWorkflow, length: int, number: int, mark: int) -> tuple[float, int]:
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
        consumed = [(entry.inbox_id, entry.job_id) for entry in entries]
        mark = max([mark, *(entry.inbox_id for entry in entries)])
        settled = settle(conn, OWNER, held, consumed, now, always(writes))
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
    params = {"x": 1}
    output = {"echoed_params": params}
    seq = 1 + 3 * step
    for position, job_id in enumerate(ids):
        if step == 0:
            writes.jobs.append(JobChange(job_id, JobStatus.RUNNING))
            writes.events.append(_event(job_id, 2, EventType.JOB_STARTED))
            for index in range(1, length):
                writes.new_nodes.append(NewNode(job_id, f"n{index}", namespace, NodeStatus.PENDING, max_retries=3))
        else:
            done = f"n{step - 1}"
            task_id = task_id_of(job_id, done, 1)
            change = NodeChange(job_id, done, NodeStatus.COMPLETED, 1, task_id, output=output, duration_ms=0)
            writes.nodes.append(change)
            writes.events.append(_event(job_id, seq, EventType.NODE_COMPLETED, done, task_id, {"output": output}))
        if step == length:
            writes.jobs.append(JobChange(job_id, JobStatus.COMPLETED, result={"n": 1}))
            writes.events.append(_event(job_id, seq + 1, EventType.JOB_COMPLETED))
            continue
        node_id = f"n{step}"
        task_id = task_id_of(job_id, node_id, 1)
        status = NodeStatus.DISPATCHED
        if step == 0:
            new = NewNode(job_id, node_id, namespace, status, max_retries=3, task_id=task_id, input_params=params)
            writes.new_nodes.append(new)
        else:
            writes.nodes.append(NodeChange(job_id, node_id, status, 1, task_id, input_params=params, duration_ms=0))
        data = {"queue": workflows.QUEUE, "task_id": task_id}
        writes.events.append(_event(job_id, seq + 2, EventType.NODE_READY, node_id))
        writes.events.append(_event(job_id, seq + 3, EventType.NODE_DISPATCHED, node_id, task_id, data))
        task = QueuedTaskRow(
            task_id=task_id,
            job_id=job_id,
            node_id=node_id,
            queue=workflows.QUEUE,
            handler="echo",
            order_key=_first_key(number, length, step) + position,
            attempt=1,
            lease_losses=0,
            timeout_seconds=3600,
            priority=0,
            fairness_key="floor",
            namespace=namespace,
            params=params,
        )
        writes.tasks.append(task)
        writes.channels.add(queue_channel(workflows.QUEUE))
    return writes


def _event(
    job_id: str,
    seq: int,
    event_type: EventType,
    node_id: str | None = None,
    task_id: str | None = None,
    data: dict[str, Any] | None = None,
) -> JobEventRow:
    is_end = event_type in (EventType.NODE_COMPLETED, EventType.JOB_COMPLETED)
    return JobEventRow(
        job_id=job_id,
        seq=seq,
        namespace=workflows.NAMESPACE,
        event_type=event_type,
        event_status=EventStatus.SUCCESS if is_end else EventStatus.INFO,
        node_id=node_id,
        task_id=task_id,
        duration_ms=0 if event_type is EventType.NODE_COMPLETED else None,
        error_message=None,
        data=data or {},
    )


def always(writes: Writes) -> Callable[[set[str]], Writes]:
    """Nobody else owns these jobs: all of them are locked, all is written."""
    return lambda locked: writes


def _first_key(number: int, length: int, step: int) -> int:
    return (number * (length + 1) + step) * BATCH
