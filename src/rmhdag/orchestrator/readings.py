"""Inbox rows become inputs of the engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

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
from rmhdag.store.connection import Conn
from rmhdag.store.inbox import InboxEntry
from rmhdag.store.tasks import PUBLISHES, WARNED, read_records, read_warnings
from rmhdag.store.workers import read_checkpoint

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
    payload = entry.payload
    output = None
    if payload["ok"]:
        value = payload["out"] if "out" in payload else outputs.get(str(entry.task_id))
        output = read_output(conn, job.run.plan, job.namespace, str(entry.node_id), value)
    records: Records = ()
    if PUBLISHES in payload:
        try:
            records = _records(conn, job, entry)
        except (PayloadMissingError, ValidationError) as error:
            return _reported(conn, job, unpublished(entry, f"the records cannot be read: {_first(error)}"), outputs)
    return given.TaskReported(
        str(entry.node_id),
        payload["attempt"],
        str(entry.task_id),
        entry.lease_epoch or 0,
        payload["ok"],
        output,
        payload.get("error"),
        ErrorKind(payload["kind"]) if "kind" in payload else None,
        payload.get("worker_id"),
        payload.get("ms"),
        records,
        payload.get("cause"),
        _warnings(conn, entry) if WARNED in payload else (),
    )


def _warnings(conn: Conn, entry: InboxEntry) -> list[dict[str, Any]]:
    payload = entry.payload[WARNED]
    return payload if isinstance(payload, list) else read_warnings(conn, str(entry.task_id), entry.lease_epoch or 0)


def unpublished(entry: InboxEntry, message: str) -> InboxEntry:
    """The same report, as the failure of its attempt."""
    payload = {name: value for name, value in entry.payload.items() if name not in (PUBLISHES, "out")}
    failed = {"ok": False, "kind": ErrorKind.PUBLISH_FAILED, "error": message[:MESSAGE_CHARACTERS]}
    return entry._replace(payload=payload | failed)


def _records(conn: Conn, job: OwnedJob, entry: InboxEntry) -> Records:
    value = read_records(conn, str(entry.task_id), entry.lease_epoch or 0)
    reference = as_reference(value)
    if reference is not None:
        value = payloads.read_json(conn, job.namespace, reference.sha256)
    return decode_records(value)


def _first(error: Exception) -> str:
    if isinstance(error, ValidationError):
        fault = error.errors(include_url=False, include_input=False)[0]
        return f"{fault['msg']} at {json_pointer(*fault['loc'])}"
    return str(error)


def _started(conn: Conn, job: OwnedJob, entry: InboxEntry, outputs: dict[str, Any]) -> given.Input:
    payload = entry.payload
    return given.TaskStarted(
        str(entry.node_id), payload["attempt"], str(entry.task_id), entry.lease_epoch or 0, payload["worker_id"]
    )


def _lost(conn: Conn, job: OwnedJob, entry: InboxEntry, outputs: dict[str, Any]) -> given.Input:
    payload = entry.payload
    return given.TaskLost(
        str(entry.node_id),
        payload["attempt"],
        str(entry.task_id),
        entry.lease_epoch or 0,
        payload["worker_id"],
        payload["started"],
    )


def _snoozed(conn: Conn, job: OwnedJob, entry: InboxEntry, outputs: dict[str, Any]) -> given.Input:
    payload = entry.payload
    return given.TaskSnoozed(
        str(entry.node_id),
        payload["attempt"],
        str(entry.task_id),
        entry.lease_epoch or 0,
        payload["delay_seconds"],
        payload.get("reason"),
    )


def _withdrawn(conn: Conn, job: OwnedJob, entry: InboxEntry, outputs: dict[str, Any]) -> given.Input:
    return given.TaskWithdrawn(str(entry.node_id), entry.payload["attempt"], str(entry.task_id))


def _checkpointed(conn: Conn, job: OwnedJob, entry: InboxEntry, outputs: dict[str, Any]) -> given.Input:
    payload = entry.payload
    is_large = "checkpoint_id" in payload
    return given.TaskCheckpointed(
        str(entry.node_id),
        payload["attempt"],
        str(entry.task_id),
        entry.lease_epoch or 0,
        payload["phase"],
        read_checkpoint(conn, payload["checkpoint_id"]) if is_large else payload.get("data"),
    )


def _command(conn: Conn, job: OwnedJob, entry: InboxEntry, outputs: dict[str, Any]) -> given.Input:
    payload, body = entry.payload, entry.payload.get("body", {})
    match payload["kind"]:
        case "cancel":
            return given.CancelJob(payload["issued_by"], body.get("reason"))
        case "retry_node":
            return given.RetryNode(body["node_id"], payload["issued_by"])
        case "decide":
            decided_by, reason = payload["issued_by"], body.get("reason")
            return given.Decided(body["node_id"], body["approved"], decided_by, reason, body.get("clearance"))
        case other:
            raise ValueError(f"there is no command {other!r}")


def _child_job_ended(conn: Conn, job: OwnedJob, entry: InboxEntry, outputs: dict[str, Any]) -> given.Input:
    payload = entry.payload
    value = outputs.get(payload["child_job_id"])
    output = None
    if value is not None:
        use_references(conn, job.namespace, job.job_id, value)
        output = read_output(conn, job.run.plan, job.namespace, str(entry.node_id), value)
    return given.ChildJobEnded(
        str(entry.node_id),
        0,
        payload["child_job_id"],
        JobStatus(payload["status"]),
        output,
        payload.get("error_message"),
        payload.get("error"),
        jobs.load_warnings(conn, payload["child_job_id"]) if payload.get(WARNED) else (),
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
