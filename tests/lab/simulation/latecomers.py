"""Those who come too late: while a transaction is open, somebody tries what it has just made impossible.

Whatever they try must be refused, at once or after having waited for the commit; nothing of it may stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import NamedTuple

from rmhdag.models.leases import TaskReport
from rmhdag.models.states import TaskStatus
from rmhdag.store import jobs, suspects, tasks, workers
from rmhdag.store.batch_rows import HeldJob, RequeuedTask
from rmhdag.store.connection import Conn
from rmhdag.store.settle import Writes, settle

INTRUDER = "intruder"


class Attempt(NamedTuple):
    """`act` says who got through: nobody may."""

    what: str
    act: Callable[[Conn], set[str]]
    may_wait: bool = True
    is_after: bool = False  # it looks at the row before and after, so the commit has to be there already


def stale_commit(owner_id: str, job_id: str, owner_epoch: int, now: datetime) -> Attempt:
    def act(conn: Conn) -> set[str]:
        settled = settle(conn, owner_id, [HeldJob(job_id, owner_epoch)], [], now, lambda locked: Writes())
        return {job_id} - settled.lost

    return Attempt("a commit of somebody who is not the owner", act)


def stale_report(worker_id: str, task_id: str, lease_epoch: int) -> Attempt:
    report = TaskReport(task_id, lease_epoch, TaskStatus.COMPLETED, output=b'{"late":true}')
    return Attempt("a report of a lease that is over", lambda conn: tasks.report_tasks(conn, worker_id, [report]))


def stale_start(worker_id: str, task_id: str, lease_epoch: int) -> Attempt:
    return Attempt(
        "a start of a lease that is over",
        lambda conn: tasks.start_tasks(conn, worker_id, [(task_id, lease_epoch)]),
    )


def stale_checkpoint(worker_id: str, task_id: str, lease_epoch: int) -> Attempt:
    def act(conn: Conn) -> set[str]:
        kept = workers.save_checkpoint_if_held(conn, worker_id, task_id, lease_epoch, "late", b"{}", None)
        return {task_id} if kept else set()

    return Attempt("a checkpoint of a lease that is over", act)


def stale_release(worker_id: str, task_id: str, lease_epoch: int) -> Attempt:
    def act(conn: Conn) -> set[str]:
        before = _lease(conn, task_id)
        tasks.release_tasks(conn, worker_id, [(task_id, lease_epoch, None)])
        return {task_id} if _lease(conn, task_id) != before else set()

    return Attempt("a give-back of a lease that is over", act, is_after=True)


def stale_requeue(
    owner_id: str, job_id: str, owner_epoch: int, task_id: str, lease_epoch: int, now: datetime
) -> Attempt:
    """The owner hears late of the loss of a lease that has a successor."""

    def act(conn: Conn) -> set[str]:
        before = _lease(conn, task_id)
        writes = Writes(requeued=[RequeuedTask(task_id, lease_epoch, lease_losses=1, order_key=1)])
        settle(conn, owner_id, [HeldJob(job_id, owner_epoch)], [], now, lambda locked: writes)
        return {task_id} if _lease(conn, task_id) != before else set()

    return Attempt("a requeue of a lease that is over", act, is_after=True)


def _lease(conn: Conn, task_id: str) -> object:
    query = "SELECT worker_id, lease_epoch, lease_losses FROM dag_queue_messages WHERE task_id = %s"
    return conn.execute(query, [task_id]).fetchone()


def claim_of_jobs(owner_id: str, taken: Iterable[str]) -> Attempt:
    """Somebody takes the owner for dead, or sees jobs that nobody owns, while these are being written."""

    def act(conn: Conn) -> set[str]:
        claimed = jobs.claim_orphaned_jobs(conn, INTRUDER, [owner_id], 1_000)
        claimed += jobs.claim_unowned_jobs(conn, INTRUDER, 1_000)
        return {job.job_id for job in claimed} & set(taken)

    return Attempt("a claim of jobs that are being written", _undone(act), may_wait=False)


def claim_of_tasks(queues: Iterable[str], taken: Iterable[str]) -> Attempt:
    def act(conn: Conn) -> set[str]:
        claimed = [task.task_id for queue in queues for task in tasks.claim_tasks(conn, INTRUDER, queue, 1_000)]
        suspect = suspects.claim_suspect(conn, INTRUDER, list(queues))
        return {*claimed, *([suspect.task_id] if suspect is not None else [])} & set(taken)

    return Attempt("a claim of tasks that are being claimed", _undone(act), may_wait=False)


def loss_of_tasks(worker_id: str, task_id: str, lease_epoch: int) -> Attempt:
    """The worker is declared dead while it reports: what is reported is not lost."""

    def act(conn: Conn) -> set[str]:
        tasks.report_lost_tasks(conn, [worker_id])
        query = "SELECT task_id FROM dag_inbox WHERE kind = 'task_lost' AND task_id = %s AND lease_epoch = %s"
        return {row[0] for row in conn.execute(query, [task_id, lease_epoch])}

    return Attempt("the loss of a task that is being reported", _undone(act))


def _undone(act: Callable[[Conn], set[str]]) -> Callable[[Conn], set[str]]:
    """What else it could have had is none of its business."""

    def tried(conn: Conn) -> set[str]:
        with conn.transaction(force_rollback=True):
            return act(conn)

    return tried
