"""One sentence per event, for timelines, streams and the command line."""

from collections.abc import Callable, Mapping
from typing import Any

from rmhdag.models.events import EventType

Data = Mapping[str, Any]
MOST_CHARACTERS = 300


def message(event_type: str, node_id: str | None, data: Data, error_message: str | None = None) -> str:
    """An event as a sentence. An unknown event is described by its type: a newer version may have written it."""
    tell = _SENTENCES.get(event_type)
    text = event_type.replace("_", " ").capitalize() if tell is None else tell(node_id or "A node", data)
    if error_message:
        text = f"{text}: {error_message}"
    text = " ".join(text.split())
    if len(text) > MOST_CHARACTERS:
        return text[: MOST_CHARACTERS - 1] + "…"
    return text if text.endswith((".", "!", "?")) else text + "."


def _created(node: str, data: Data) -> str:
    workflow = data.get("workflow_id")
    return f"The job was created from workflow {workflow}" if workflow else "The job was created"


def _started(node: str, data: Data) -> str:
    first = data.get("first_node")
    return f"The job started with {first}" if first else "The job started"


def _completed(node: str, data: Data) -> str:
    seconds, count = data.get("duration_seconds"), data.get("node_count")
    after = "" if seconds is None else f" after {in_words(seconds)}"
    return f"The job completed{after}" + ("" if count is None else f" with {_number(count)} node{_s(count)}")


def _failed(node: str, data: Data) -> str:
    failed = data.get("failed_nodes") or []
    return "The job failed" + (f" because of {_names(failed)}" if failed else "")


def _cancelled(node: str, data: Data) -> str:
    by, reason = data.get("by"), data.get("reason")
    return "The job was cancelled" + (f" by {by}" if by else "") + (f": {reason}" if reason else "")


def _reclaimed(node: str, data: Data) -> str:
    silent = data.get("silent_seconds")
    after = f" after {in_words(silent)} of silence" if silent else ""
    return f"Orchestrator {_short(data.get('to'))} took over from {_short(data.get('from'))}{after}"


def _rerun(node: str, data: Data) -> str:
    by = data.get("by")
    return f"The job was run again as {data.get('as', 'a new job')}" + (f" by {by}" if by else "")


def _callback_dead(node: str, data: Data) -> str:
    tries = data.get("attempts", "all")
    return f"The submitter could not be notified: the callback was given up after {tries} tries"


def _ready(node: str, data: Data) -> str:
    met = data.get("dependencies_met")
    return f"{node} is ready" + (f": {met} dependenc{'y is' if met == 1 else 'ies are'} met" if met else "")


def _dispatched(node: str, data: Data) -> str:
    queue = data.get("queue")
    return f"{node} waits for a worker" + (f" in queue {queue}" if queue else "")


def _running(node: str, data: Data) -> str:
    waits = data.get("waits_for")
    if waits == "approval":
        message = data.get("message")
        return f"{node} waits for a decision" + (f": {message}" if message else "")
    if waits:
        return f"{node} waits for job {waits}"
    worker = data.get("worker_id")
    return f"{node} runs" + (f" on worker {_short(worker)}" if worker else "")


def _node_completed(node: str, data: Data) -> str:
    if "taken" in data:
        targets = data["taken"]
        result = f" with {data['result']!r}" if "result" in data else ""
        return f"{node} decided{result}" + (f" for {_names(targets)}" if targets else " to go no further")
    if "children_created" in data:
        count = data["children_created"]
        return f"All {_number(count)} children of {node} are done" if count else f"{node} had no items"
    if "aggregated_count" in data:
        count = data["aggregated_count"]
        return f"{node} gathered {_number(count)} result{_s(count)}"
    return f"{node} completed"


def _node_failed(node: str, data: Data) -> str:
    kind = str(data.get("error_kind") or "").replace("_", " ")
    again = ", and will be tried again" if data.get("will_retry") else ""
    return f"{node} failed" + (f" ({kind})" if kind else "") + again


_GIVEN_BACK = {
    "worker_stopping": "its worker stopped before it had finished; another worker continues",
    "worker_frozen": "its worker had lost contact with the platform",
    "worker_busy": "its worker had no free process for it",
    "no_handler": "its worker does not have its handler",
}


def _retrying(node: str, data: Data) -> str:
    count, due = data.get("retry_count"), data.get("next_attempt_at")
    if data.get("reason"):
        return f"{node} was given back: {_GIVEN_BACK.get(str(data['reason']), 'it had not run')}"
    if data.get("snoozed"):
        return f"{node} asked to be called again" + (f" at {due}" if due else "")
    return f"{node} is tried again" + ("" if count is None else f" (retry {count})") + (f" at {due}" if due else "")


def _skipped(node: str, data: Data) -> str:
    reasons = {"conditional_branch_not_taken": "its branch was not taken", "job_failed": "the job is failing"}
    reason = str(data.get("reason") or "")
    return f"{node} was skipped" + (f": {reasons.get(reason, reason.replace('_', ' '))}" if reason else "")


def _node_cancelled(node: str, data: Data) -> str:
    children = data.get("children_cancelled")
    return f"{node} was cancelled" + (f" with {_number(children)} of its children" if children else "")


def _lost(node: str, data: Data) -> str:
    return f"{node} lost its worker {_short(data.get('worker_id'))}"


_SENTENCES: dict[str, Callable[[str, Data], str]] = {
    EventType.JOB_CREATED: _created,
    EventType.JOB_STARTED: _started,
    EventType.JOB_COMPLETED: _completed,
    EventType.JOB_FAILED: _failed,
    EventType.JOB_CANCELLED: _cancelled,
    EventType.JOB_RECLAIMED: _reclaimed,
    EventType.JOB_RERUN: _rerun,
    EventType.CALLBACK_DEAD: _callback_dead,
    EventType.NODE_READY: _ready,
    EventType.NODE_DISPATCHED: _dispatched,
    EventType.NODE_RUNNING: _running,
    EventType.NODE_COMPLETED: _node_completed,
    EventType.NODE_FAILED: _node_failed,
    EventType.NODE_RETRYING: _retrying,
    EventType.NODE_SKIPPED: _skipped,
    EventType.NODE_CHECKPOINT: lambda node, data: f"{node} saved checkpoint {data.get('phase', '')}",
    EventType.NODE_CANCELLED: _node_cancelled,
    EventType.NODE_LOST: _lost,
    EventType.ORCHESTRATOR_STARTED: lambda node, data: f"The orchestrator started, version {data.get('version', '?')}",
    EventType.ORCHESTRATOR_STOPPED: lambda node, data: (
        f"The orchestrator stopped and handed over {data.get('jobs_handed_over', 0)} jobs"
    ),
    EventType.ORCHESTRATOR_ERROR: lambda node, data: "The orchestrator met an error",
    EventType.ORCHESTRATOR_STALL: lambda node, data: (
        f"Nothing moved in job {data.get('job_id', '?')} for {in_words(data.get('silent_seconds'))}"
    ),
    EventType.ORCHESTRATOR_BACKPRESSURE: lambda node, data: (
        f"Queue {data.get('queue', '?')} has {_number(data.get('waiting', 0))} tasks waiting: "
        f"each job may have {data.get('window', 0)} there"
    ),
}


def in_words(seconds: Any) -> str:
    """`850 ms`, `12.3 s`, `2m 14s`, `3h 5m`."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        return "some time"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}m {rest}s" if minutes < 60 else f"{minutes // 60}h {minutes % 60}m"


def _short(process_id: Any) -> str:
    """The end of an id tells processes apart; its beginning is the time."""
    return "?" if not process_id else str(process_id)[-8:]


def _names(nodes: Any) -> str:
    if isinstance(nodes, str):
        return nodes
    names = [str(node) for node in nodes] if isinstance(nodes, list) else [str(nodes)]
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _number(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def _s(count: Any) -> str:
    return "" if count == 1 else "s"
