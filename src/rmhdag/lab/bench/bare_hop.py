"""Two hops without the platform: a report with its notice one way, a settled job with its notice back, and a claim.

The same statements, the same doorbells, two processes; nothing is decided. It is what a hop costs at least.
"""

from __future__ import annotations

import time
from itertools import count
from typing import Any

from rmhdag.lab.bench import workflows
from rmhdag.lab.bench.floor import always
from rmhdag.lab.bench.process import spawn
from rmhdag.lab.bench.rig import SCHEMA, BenchFailed, Server, open_bench_connection
from rmhdag.messaging.doorbell import Doorbell
from rmhdag.models.events import EventStatus, EventType
from rmhdag.models.ids import task_id_of
from rmhdag.models.leases import ClaimedTask, TaskReport
from rmhdag.models.states import NodeStatus, TaskStatus
from rmhdag.services.submissions import job_row
from rmhdag.store import inbox, jobs, tasks
from rmhdag.store.batch_rows import HeldJob, JobEventRow, NewNode, NodeChange, QueuedTaskRow
from rmhdag.store.channels import owner_channel, queue_channel
from rmhdag.store.connection import Conn
from rmhdag.store.identity import new_id
from rmhdag.store.settle import Writes, settle

OWNER = "bare-owner"
WORKER = "bare-worker"


class BareHop:
    """This process is the worker; another one, started here, is the owner."""

    def __init__(self, server: Server) -> None:
        dsn = server.create_database()
        self._conn = open_bench_connection(dsn, reads_whole_tables=False)
        self._conn.prepare_threshold = 0
        stored = workflows.register(self._conn, workflows.chain(1))
        row = job_row(new_id(), stored, {}, namespace=workflows.NAMESPACE, submitted_by="bare")
        with self._conn.transaction():
            jobs.insert_jobs(self._conn, [row], "bench")
        (job,) = jobs.claim_unowned_jobs(self._conn, OWNER, 1)
        self._bell = Doorbell(dsn, SCHEMA, [queue_channel(workflows.QUEUE)])
        values = {"dsn": dsn, "job_id": job.job_id, "owner_epoch": job.owner_epoch}
        self._owner = spawn("bare_owner", values, server.folder / "processes.log")
        try:
            self._claimed = _claim(self._conn, self._bell, 30)
            self.sample(20)  # statements get prepared
        except BaseException:
            self.close()
            raise

    def sample(self, hops: int) -> list[float]:
        """Milliseconds from a report to the claim of the task that follows from it."""
        samples = []
        for _ in range(hops):
            began = time.perf_counter()
            report = TaskReport(
                self._claimed.task_id, self._claimed.lease_epoch, TaskStatus.COMPLETED, output=b'{"x":1}'
            )
            tasks.report_tasks(self._conn, WORKER, [report])
            self._claimed = _claim(self._conn, self._bell, 10)
            samples.append((time.perf_counter() - began) * 1000)
        return samples

    def close(self) -> None:
        self._owner.kill()
        self._owner.wait()
        self._bell.close()
        self._conn.close()


def _claim(conn: Conn, bell: Doorbell, timeout_seconds: float) -> ClaimedTask:
    deadline = time.monotonic() + timeout_seconds
    while time.monotonic() < deadline:
        bell.wait(1.0)
        claimed = tasks.claim_tasks(conn, WORKER, workflows.QUEUE, 10)
        if claimed:
            return claimed[0]
    raise BenchFailed("the bare hop did not come back")


def answer_reports(dsn: str, job_id: str, owner_epoch: int) -> None:
    """The other side, until it is killed: each report read is settled, and the next task is queued."""
    conn = open_bench_connection(dsn, reads_whole_tables=False)
    conn.prepare_threshold = 0
    bell = Doorbell(dsn, SCHEMA, [owner_channel(OWNER)])
    bell.wait(0)
    mark = 0
    for number in count():
        now, entries = inbox.read_inbox(conn, OWNER, mark, 500)
        while number and not entries:
            bell.wait(1.0)
            now, entries = inbox.read_inbox(conn, OWNER, mark, 500)
        mark = max([mark, *(entry.inbox_id for entry in entries)])
        consumed = [(entry.inbox_id, entry.job_id) for entry in entries]
        writes = _next_task(job_id, number)
        settle(conn, OWNER, [HeldJob(job_id, owner_epoch)], consumed, now, always(writes))


def _next_task(job_id: str, number: int) -> Writes:
    node_id = f"n{number}"
    task_id = task_id_of(job_id, node_id, 1)
    namespace = workflows.NAMESPACE
    params = {"x": 1}

    def event(seq: int, event_type: EventType, about: str | None, data: dict[str, Any]) -> JobEventRow:
        is_end = event_type is EventType.NODE_COMPLETED
        return JobEventRow(
            job_id=job_id,
            seq=seq + 3 * number,
            namespace=namespace,
            event_type=event_type,
            event_status=EventStatus.SUCCESS if is_end else EventStatus.INFO,
            node_id=node_id,
            task_id=about,
            duration_ms=0 if is_end else None,
            error_message=None,
            data=data,
        )

    new = NewNode(
        job_id, node_id, namespace, NodeStatus.DISPATCHED, max_retries=3, task_id=task_id, input_params=params
    )
    task = QueuedTaskRow(
        task_id=task_id,
        job_id=job_id,
        node_id=node_id,
        queue=workflows.QUEUE,
        handler="echo",
        order_key=number,
        attempt=1,
        lease_losses=0,
        timeout_seconds=60,
        priority=0,
        fairness_key="bare",
        namespace=namespace,
        params=params,
    )
    writes = Writes(
        new_nodes=[new],
        tasks=[task],
        events=[
            event(3, EventType.NODE_READY, None, {}),
            event(4, EventType.NODE_DISPATCHED, task_id, {"queue": workflows.QUEUE}),
        ],
        channels={queue_channel(workflows.QUEUE)},
    )
    if number:
        before = task_id_of(job_id, f"n{number - 1}", 1)
        done = NodeChange(
            job_id, f"n{number - 1}", NodeStatus.COMPLETED, attempt=1, task_id=before, output=params, duration_ms=0
        )
        writes.nodes.append(done)
        writes.events.append(event(2, EventType.NODE_COMPLETED, before, {}))
    return writes
