"""Jobs and results of OGC API – Processes 1.0, made of orders: the gateway shows them, and callbacks send them."""

from __future__ import annotations

from typing import Any

from rmhdag.models.partner_orders import (
    ENDED,
    Row,
    error_of,
    moment,
    result_of,
    segment,
    shown_percent,
    state_of,
)

BASE = "/ogc"
RELATIONS = "http://www.opengis.net/def/rel/ogc/1.0"
STATES = {"pending": "accepted", "running": "running", "awaiting_approval": "running", "completed": "successful"}
MESSAGES = {"awaiting_approval": "waiting for approval", "pending": "accepted", "completed": "completed"}
# What the specification calls the addresses of a subscriber, and what we call what each of them is told.
SUBSCRIBER = {"successUri": "success", "failedUri": "failed", "inProgressUri": "in_progress"}


def line_info(row: Row, url: str, state: str, at: str | None) -> dict[str, Any]:
    """A job in a list: in a state, and in it since a moment if that is its last."""
    status = "dismissed" if is_dismissed(row) else STATES.get(state, "failed")
    ended = at if state in ENDED else None
    return {
        "processID": row["workflow_id"],
        "type": "process",
        "jobID": row["request_id"],
        "status": status,
        "created": moment(row["submitted_at"]),
        **({"finished": ended, "updated": ended} if ended else {}),
        "links": [link_to(url, f"/jobs/{segment(row['request_id'])}", "self", "How it stands")],
    }


def is_dismissed(row: Row) -> bool:
    """From the moment at which that was asked for; what runs may take a while to stop."""
    return bool(row["job_status"] == "cancelled" or row["is_cancelling"])


def status_info(row: Row, url: str, state: str, at: str | None, percent: float | None) -> dict[str, Any]:
    """`percent` is left out if it is not known."""
    info = line_info(row, url, state, at)
    error = error_of(row, state) or {}
    message = "dismissed" if is_dismissed(row) else error.get("message") or MESSAGES.get(state, state)
    info["message"] = str(message)
    if state == "completed":
        percent = 100.0
        name = segment(row["request_id"])
        info["links"].append(link_to(url, f"/jobs/{name}/results", f"{RELATIONS}/results", "Its results"))
    if percent is not None:
        info["progress"] = int(percent)
    return info


def current_info(row: Row, url: str, percent: float | None) -> dict[str, Any]:
    """As the job stands now."""
    state = state_of(row)
    return status_info(row, url, state, moment(row["completed_at"]), shown_percent(row, percent))


def results_of(row: Row, *, names_outputs: bool) -> dict[str, Any]:
    """Of a completed job. A workflow that names no outputs has one, with all that its last nodes returned."""
    result = result_of(row, "completed") or {}
    return result if names_outputs else {"result": result}


def link_to(url: str, path: str, rel: str, title: str) -> dict[str, str]:
    return {"href": f"{url}{BASE}{path}", "rel": rel, "type": "application/json", "title": title}
