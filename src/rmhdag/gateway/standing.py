"""How an order stands in words, whether parts of it are missing, when it last changed, and how long it can be seen."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from rmhdag.gateway.calls import Call
from rmhdag.gateway.database import Row
from rmhdag.models.partner_orders import error_of, moment, shown_percent, state_of

MESSAGES = {
    "pending": "waits to be started",
    "awaiting_approval": "waits for a reviewer",
    "completed": "completed",
}


def standing(call: Call, row: Row) -> dict[str, Any]:
    """What a status says beside the contract's keys."""
    state, progress = state_of(row), row["progress"]
    percent = shown_percent(row, progress.get("percent"))
    return {
        "progress": {"percent": percent, "message": message_of(row, state)},
        "partial": is_partial(row, state),
        "updated_at": updated_at(row),
        "expires_at": expires_at(call, row),
    }


def message_of(row: Row, state: str) -> str:
    progress = row["progress"]
    if state == "running":
        if row["is_cancelling"]:
            return "is being cancelled"
        steps = progress.get("steps")
        return f"{progress['done_steps']} of {steps} steps are done" if steps else "is being processed"
    if state == "failed":
        return str((error_of(row, state) or {}).get("message") or "failed")
    if state == "completed" and is_partial(row, state):
        failed = progress["failed_parts"]
        return f"completed without {failed:,} {'part' if failed == 1 else 'parts'} that failed"
    return MESSAGES[state]


def is_partial(row: Row, state: str) -> bool | None:
    """The order was completed although parts of it failed: its workflow tolerates some. None if that is not known."""
    if state not in ("completed", "awaiting_approval"):
        return False
    if row["job_status"] is None:
        return None
    failed = row["progress"].get("failed_parts", 0)
    return None if failed is None else failed > 0


def updated_at(row: Row) -> str | None:
    """When the order last changed: a step was done, it ended, or a reviewer decided."""
    times = [row["submitted_at"], row["job_updated_at"], row["completed_at"], row["revision_completed_at"]]
    step_at = row["progress"].get("updated_at")
    times += [row["decided_at"], None if step_at is None else datetime.fromisoformat(step_at)]
    return moment(max(time for time in times if time is not None))


def expires_at(call: Call, row: Row) -> str | None:
    """Until then an order that makes no data for a platform can be seen, with its result and files. Data is kept until
    it is unpublished or deleted.
    """
    if row["asset_id"] is not None or row["completed_at"] is None:
        return None
    return moment(row["completed_at"] + timedelta(days=call.gateway.retention_days))
