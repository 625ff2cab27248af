"""The rows of PostgreSQL beside those of the model store: of each table the columns that both have."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any

import orjson

from rmhdag.engine.loading import ChildUnderWay, LoadedChildren
from rmhdag.lab.simulation.reads import compact_children
from rmhdag.lab.simulation.rows import QueueRow
from rmhdag.lab.simulation.store import Store
from rmhdag.models.states import JOB_TERMINAL
from rmhdag.store.batch_rows import PieceOfFanOut
from rmhdag.store.connection import Conn
from rmhdag.store.jobs import load_children

JOBS = """SELECT job_id, status, ending, error_message, result_data,
        CASE WHEN completed_at IS NULL THEN COALESCE(owner_id, '') END,
        CASE WHEN completed_at IS NULL THEN owner_epoch END
    FROM dagapp.dag_jobs WHERE job_id = ANY(%s)"""
NODES = """SELECT job_id, node_id, status, attempt, max_retries, lease_losses, next_attempt_at, deadline_at, task_id,
        reused_task_id, parent_node_id, fan_out_index, output, error_message, checkpoint_phase
    FROM dagapp.dag_node_states WHERE job_id = ANY(%s)"""
QUEUE = """SELECT task_id, job_id, node_id, attempt, queue, timeout_seconds, params, lease_epoch, lease_losses,
        CASE WHEN worker_id NOT LIKE 'lost:%%' THEN worker_id END, COALESCE(worker_id LIKE 'lost:%%', false),
        started_at IS NOT NULL, cancel_requested, available_at
    FROM dagapp.dag_queue_messages WHERE job_id = ANY(%s)"""
RESULTS = """SELECT task_id, lease_epoch, status, output FROM dagapp.dag_task_results
    WHERE job_id = ANY(%s) AND status IN ('completed', 'failed')"""
EVENTS = """SELECT job_id, seq, event_type, node_id, task_id FROM dagapp.dag_job_events
    WHERE job_id = ANY(%s) AND event_type <> 'job_created'"""
# A job that has ended answers nobody, and what parents say to children has no row of its own.
COMMANDS = """SELECT command_id, outcome FROM dagapp.dag_job_commands JOIN dagapp.dag_jobs USING (job_id)
    WHERE job_id = ANY(%s) AND completed_at IS NULL"""
OF_PARENTS = "cancel-"
PUBLISHED = "SELECT job_id, node_id, path FROM dagapp.dag_blob_assets WHERE job_id = ANY(%s)"
DEAD_LETTERS = "SELECT task_id FROM dagapp.dag_dead_letters WHERE job_id = ANY(%s)"

Rows = list[tuple[Any, ...]]


def differences(conn: Conn, store: Store, job_ids: Collection[str], now: datetime) -> list[str]:
    """One line for each row that only one of them has; empty if they agree."""
    expected = {
        JOBS: _jobs(store, job_ids),
        NODES: _nodes(store, job_ids),
        QUEUE: [_queue_row(row, now) for row in store.queue.values() if row.job_id in job_ids],
        RESULTS: [
            (row.task_id, row.lease_epoch, "completed" if row.success else "failed", row.output)
            for results in store.results.values()
            for row in results
            if row.job_id in job_ids
        ],
        EVENTS: [
            (job_id, row.seq, row.event_type, row.node_id, row.task_id)
            for job_id in job_ids
            for row in store.events[job_id]
        ],
        COMMANDS: _commands(store, job_ids),
        PUBLISHED: [
            (row.job_id, row.node_id, record.path)
            for task_id in store.published
            for row in store.results[task_id]
            if row.job_id in job_ids
            for record in row.records
        ],
        DEAD_LETTERS: [(task_id,) for task_id in store.dead_letters if _job_of(store, task_id) in job_ids],
    }
    with conn.pipeline():
        found = {query: conn.execute(query, [list(job_ids)]) for query in expected}
    different = []
    for query, rows in expected.items():
        there = [_without_due(row, now) for row in found[query].fetchall()]
        different += [f"only in the model: {row}" for row in _missing(rows, there)]
        different += [f"only in PostgreSQL: {row}" for row in _missing(there, rows)]
    return different + _children_otherwise(conn, store, job_ids)


def _children_otherwise(conn: Conn, store: Store, job_ids: Collection[str]) -> list[str]:
    """What the next owner would load of fan-outs: two bytes for each child, and those under way."""
    different = []
    for job_id in job_ids:
        for fan_out_id, expected in compact_children(store.nodes[job_id].values()).items():
            piece = PieceOfFanOut(job_id, fan_out_id, 0, len(expected.statuses) + 1)
            (there,) = load_children(conn, [piece])
            under_way = [ChildUnderWay(*child) for child in there.under_way]
            loaded = LoadedChildren(bytearray(there.statuses), bytearray(there.attempts), under_way)
            if loaded != expected:
                different.append(f"{fan_out_id} of {job_id}: {expected} in the model, {loaded} in PostgreSQL")
    return different


def _missing(rows: Rows, among: Rows) -> Rows:
    others = {_printed(row) for row in among}
    return [row for row in rows if _printed(row) not in others]


def _printed(row: tuple[Any, ...]) -> bytes:
    return orjson.dumps(row, option=orjson.OPT_SORT_KEYS)


def _without_due(row: tuple[Any, ...], now: datetime) -> tuple[Any, ...]:
    """A delay that is over is none, whether or not anybody has cleared it away."""
    return (*row[:-1], None) if isinstance(row[-1], datetime) and row[-1] <= now else row


def has_ended(store: Store, job_id: str) -> bool:
    return store.jobs[job_id].status in JOB_TERMINAL


def _jobs(store: Store, job_ids: Collection[str]) -> Rows:
    rows = []
    for job_id in job_ids:
        job = store.jobs[job_id]
        # Whose it was does not matter once it has ended.
        owner = (None, None) if has_ended(store, job_id) else (job.owner_id, job.owner_epoch)
        rows.append((job_id, job.status, job.ending, job.error_message, job.result, *owner))
    return rows


def _nodes(store: Store, job_ids: Collection[str]) -> Rows:
    return [
        (
            job_id,
            row.node_id,
            row.status,
            row.attempt,
            row.max_retries,
            row.lease_losses,
            row.next_attempt_at,
            row.deadline_at,
            row.task_id,
            row.reused_task_id,
            row.parent_node_id,
            row.fan_out_index,
            row.output,
            row.error_message,
            row.checkpoint_phase,
        )
        for job_id in job_ids
        for row in store.nodes[job_id].values()
    ]


def _queue_row(row: QueueRow, now: datetime) -> tuple[Any, ...]:
    is_held = row.worker_id is not None or row.lost
    return (
        row.task_id,
        row.job_id,
        row.node_id,
        row.attempt,
        row.queue,
        row.timeout_seconds,
        row.params,
        row.lease_epoch,
        row.lease_losses,
        row.worker_id,
        row.lost,
        row.started and is_held,
        row.cancel_requested,
        None if row.available_at is not None and row.available_at <= now else row.available_at,
    )


def _commands(store: Store, job_ids: Collection[str]) -> Rows:
    names = {None: None, True: "applied", False: "refused"}
    return [
        (row.command_id, names[row.applied])
        for row in store.commands.values()
        if row.job_id in job_ids and not row.command_id.startswith(OF_PARENTS) and not has_ended(store, row.job_id)
    ]


def _job_of(store: Store, task_id: str) -> str | None:
    for job_id, nodes in store.nodes.items():
        if any(row.task_id == task_id for row in nodes.values()):
            return job_id
    return None
