"""Inbox rows become inputs of the engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import psycopg
from pydantic import ValidationError

from rmhdag.engine import inputs as given
from rmhdag.models.events import ErrorKind
from rmhdag.models.json_values import json_pointer
from rmhdag.models.leases import PayloadMissingError
from rmhdag.models.limits import MESSAGE_CHARACTERS
from rmhdag.models.records import Records, decode_records
from rmhdag.models.references import as_reference
from rmhdag.models.states import JobStatus
from rmhdag.orchestrator.large_values import use_references
from rmhdag.orchestrator.owned_jobs import OwnedJob
from rmhdag.orchestrator.stored_outputs import read_output
from rmhdag.store import inbox, jobs, payloads, tasks
from rmhdag.store.inbox import InboxEntry
from rmhdag.store.tasks import PUBLISHES, WARNED, read_records, read_warnings
from rmhdag.store.workers import read_checkpoint

Conn = psycopg.Connection[Any]
OF_A_LEASE = ("task_started", "task_snoozed")


def discard_late_news(conn: Conn, me: str, entries: Sequence[InboxEntry]) -> set[int]:
    """A start of a lease that is over would make a task look alive that waits in its queue again.

    That a lease was given back is news until its successor has started: only then the node's clock is right again.
    """
    news = [entry for entry in entries if entry.kind in OF_A_LEASE and entry.task_id is not None]
    if not news:
        return set()
    current = tasks.current_leases(conn, [str(entry.task_id) for entry in news])
    late = set()
    for entry in news:
        lease_epoch, is_started = current.get(str(entry.task_id), (None, True))
        if lease_epoch != entry.lease_epoch and (is_started or entry.kind == "task_started"):
            late.add(entry.inbox_id)
    if late:
        inbox.discard(conn, me, late)
    return late


def load_large_outputs(conn: Conn, entries: Sequence[InboxEntry]) -> dict[str, Any]:
    """Outputs too large for their inbox row. A row that makes no sense is left for its job to stumble over."""
    finished = [
        str(entry.task_id)
        for entry in entries
        if entry.kind == "task_reported" and entry.payload.get("ok") and "out" not in entry.payload
    ]
    children = [
        entry.payload["child_job_id"]
        for entry in entries
        if entry.kind == "child_job_ended" and "child_job_id" in entry.payload
    ]
    return jobs.load_outputs(conn, finished) | jobs.load_results(conn, children)


def read_entry(conn: Conn, job: OwnedJob, entry: InboxEntry, outputs: dict[str, Any]) -> given.Input:
    """The input behind an entry. `outputs` holds the outputs that were too large for their inbox row."""
    return _READERS[entry.kind](conn, job, entry, outputs)


def _reported(conn: Conn, job: OwnedJob, entry: InboxEntry, outputs: dict[str, Any]) -> given.Input:
    told = entry.payload
    output = None
    if told["ok"]:
        value = told["out"] if "out" in told else outputs.get(str(entry.task_id))
        output = read_output(conn, job.run.plan, job.namespace, str(entry.node_id), value)
    records: Records = ()
    if PUBLISHES in told:
        try:
            records = _records(conn, job, entry)
        except (PayloadMissingError, ValidationError) as error:
            return _reported(conn, job, unpublished(entry, f"the records cannot be read: {_first(error)}"), outputs)
    return given.TaskReported(
        str(entry.node_id),
        told["attempt"],
        str(entry.task_id),
        entry.lease_epoch or 0,
        told["ok"],
        output,
        told.get("error"),
        ErrorKind(told["kind"]) if "kind" in told else None,
        told.get("worker_id"),
        told.get("ms"),
        records,
        told.get("cause"),
        _warnings(conn, entry) if WARNED in told else (),
    )


def _warnings(conn: Conn, entry: InboxEntry) -> list[dict[str, Any]]:
    told = entry.payload[WARNED]
    return told if isinstance(told, list) else read_warnings(conn, str(entry.task_id), entry.lease_epoch or 0)


def unpublished(entry: InboxEntry, message: str) -> InboxEntry:
    """The same report, as the failure of its attempt."""
    kept = {name: value for name, value in entry.payload.items() if name not in (PUBLISHES, "out")}
    failed = {"ok": False, "kind": ErrorKind.PUBLISH_FAILED, "error": message[:MESSAGE_CHARACTERS]}
    return entry._replace(payload=kept | failed)


def _records(conn: Conn, job: OwnedJob, entry: InboxEntry) -> Records:
    value = read_records(conn, str(entry.task_id), entry.lease_epoch or 0)
    reference = as_reference(value)
    if reference is not None:
        value = payloads.read_json(conn, job.namespace, reference.sha256)
    return decode_records(value)


def _first(error: Exception) -> str:
    if isinstance(error, ValidationError):
        found = error.errors(include_url=False, include_input=False)[0]
        return f"{found['msg']} at {json_pointer(*found['loc'])}"
    return str(error)


def _started(conn: Conn, job: OwnedJob, entry: InboxEntry, outputs: dict[str, Any]) -> given.Input:
    told = entry.payload
    return given.TaskStarted(
        str(entry.node_id), told["attempt"], str(entry.task_id), entry.lease_epoch or 0, told["worker_id"]
    )


def _lost(conn: Conn, job: OwnedJob, entry: InboxEntry, outputs: dict[str, Any]) -> given.Input:
    told = entry.payload
    return given.TaskLost(
        str(entry.node_id),
        told["attempt"],
        str(entry.task_id),
        entry.lease_epoch or 0,
        told["worker_id"],
        told["started"],
    )


def _snoozed(conn: Conn, job: OwnedJob, entry: InboxEntry, outputs: dict[str, Any]) -> given.Input:
    told = entry.payload
    return given.TaskSnoozed(
        str(entry.node_id),
        told["attempt"],
        str(entry.task_id),
        entry.lease_epoch or 0,
        told["delay_seconds"],
        told.get("reason"),
    )


def _withdrawn(conn: Conn, job: OwnedJob, entry: InboxEntry, outputs: dict[str, Any]) -> given.Input:
    return given.TaskWithdrawn(str(entry.node_id), entry.payload["attempt"], str(entry.task_id))


def _checkpointed(conn: Conn, job: OwnedJob, entry: InboxEntry, outputs: dict[str, Any]) -> given.Input:
    told = entry.payload
    is_large = "checkpoint_id" in told
    return given.TaskCheckpointed(
        str(entry.node_id),
        told["attempt"],
        str(entry.task_id),
        entry.lease_epoch or 0,
        told["phase"],
        read_checkpoint(conn, told["checkpoint_id"]) if is_large else told.get("data"),
    )


def _command(conn: Conn, job: OwnedJob, entry: InboxEntry, outputs: dict[str, Any]) -> given.Input:
    told, body = entry.payload, entry.payload.get("body", {})
    match told["kind"]:
        case "cancel":
            return given.CancelJob(told["issued_by"], body.get("reason"))
        case "retry_node":
            return given.RetryNode(body["node_id"], told["issued_by"])
        case "decide":
            return given.Decided(body["node_id"], body["approved"], told["issued_by"], body.get("reason"))
        case other:
            raise ValueError(f"there is no command {other!r}")


def _child_job_ended(conn: Conn, job: OwnedJob, entry: InboxEntry, outputs: dict[str, Any]) -> given.Input:
    told = entry.payload
    value = outputs.get(told["child_job_id"])
    output = None
    if value is not None:
        use_references(conn, job.namespace, job.job_id, value)
        output = read_output(conn, job.run.plan, job.namespace, str(entry.node_id), value)
    return given.ChildJobEnded(
        str(entry.node_id),
        0,
        told["child_job_id"],
        JobStatus(told["status"]),
        output,
        told.get("error_message"),
        told.get("error"),
        jobs.load_warnings(conn, told["child_job_id"]) if told.get(WARNED) else (),
    )


_READERS: dict[str, Callable[[Conn, OwnedJob, InboxEntry, dict[str, Any]], given.Input]] = {
    "task_reported": _reported,
    "task_started": _started,
    "task_lost": _lost,
    "task_snoozed": _snoozed,
    "task_withdrawn": _withdrawn,
    "task_checkpointed": _checkpointed,
    "command": _command,
    "child_job_ended": _child_job_ended,
}
