"""What a partner sees of an order, at the gateway and in callbacks: built key by key, never passed on as it is stored.

No id of a job or node, no host, no path and no text of an exception gets out. Texts of errors that a client can act on
are kept; all others are replaced by the sentence of their code.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from rmhdag.models.error_codes import ERROR_CODES, USER_FIXABLE
from rmhdag.models.json_values import RESERVED_KEY

Row = Mapping[str, Any]

# Of handlers' outputs: about the platform and not about the data.
HIDDEN_KEYS = frozenset(
    "job_id node_id task_id worker_id owner_id namespace host hostname process_id pid traceback stack scratch "
    "mount_path local_path blob_url connection_string account account_url dsn sql".split()
)
# Absolute paths, places in GDAL's and the system's notation, and addresses of storage.
PLACE = re.compile(
    r"(?:/vsi\w+)?(?<![\w:/.])(?:/(?:[\w.+-]+/)+[\w.+-]*)|/vsi\w+/\S*|\b[A-Za-z]:\\\S*|\bfile:\S+"
    r"|\b(?:postgres(?:ql)?|abfss?|s3|az|gs)://\S+|\bhttps?://\S+"
)
IDENTIFIER = re.compile(r"\b[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}\b")
INSIDES = re.compile(
    r"Traceback|File \"|\bline \d+, in |\bSELECT\b.*\bFROM\b|\bINSERT INTO\b|\bUPDATE\b.*\bSET\b"
    r"|\bdag_\w+|psycopg|sqlalchemy",
    re.DOTALL,
)
# Fields of an order that have parts.
SENT = re.compile(r"/(?:input_params|labels|platform_refs|subscriber)(?:/|$)")
# Addresses that say what the data is written in, and nothing about where it lies.
SPECIFICATIONS = ("https://stac-extensions.github.io/", "https://schemas.stacspec.org/")
HIDDEN = "…"
MOST_CHARACTERS = 1_000
# States of a review in which content is never served, and what its client can do.
NOT_SERVED = {
    "rejected": "Correct the data and order again.",
    "revoked": "Correct the data and order again.",
    "superseded": "Follow the newer order for the same data, or order again.",
}
ENDED = frozenset({"completed", "failed"})
GONE = "the details of this order are older than the platform keeps them"


def shown_status(row: Row, percent: float | None) -> dict[str, Any]:
    """CONTRACT of `GET /platform/status`: every key is always there."""
    state = state_of(row)
    return {
        "request_id": row["request_id"],
        "workflow_id": row["workflow_id"],
        "platform_id": row["platform_id"],
        "platform_refs": row["platform_refs"] or {},
        "status": state,
        "submitted_at": moment(row["submitted_at"]),
        "completed_at": moment(row["completed_at"] or row["revision_completed_at"]) if state in ENDED else None,
        "progress": {"percent": shown_percent(row, percent)},
        "result": result_of(row, state),
        "error": error_of(row, state),
        "warnings": shown_warnings(row["warnings"] or row["revision_warnings"]),
        "services": None,
        "version": row["version_label"],
        "versions": [shown_version(version, row["current_revision"]) for version in row["versions"] or []],
    }


def state_of(row: Row) -> str:
    """Of few and final states: a cancelled order has failed, and one whose content waits for review is not complete."""
    job, review = row["job_status"], row["review_state"]
    if job == "pending":
        return "pending"
    if job == "running":
        return "awaiting_approval" if row["is_waiting"] else "running"
    if not is_worked_off(row) or review in NOT_SERVED:
        return "failed"
    return "awaiting_approval" if review == "pending_review" else "completed"


def shown_percent(row: Row, percent: float | None) -> float:
    """It never goes back: content that waits for a decision is made."""
    return 100.0 if is_worked_off(row) else percent or 0.0


def is_worked_off(row: Row) -> bool:
    """Nothing is left to do but to decide. When the job is pruned, its revision still tells how it ended."""
    status: object = row["revision_status"] if row["job_status"] is None else row["job_status"]
    return status == "completed"


def result_of(row: Row, state: str) -> dict[str, Any] | None:
    if state != "completed":
        return None
    value = row["outputs"] if row["job_status"] is None else row["result_data"]
    return shown_value(value) if isinstance(value, dict) else None


def error_of(row: Row, state: str) -> dict[str, Any] | None:
    if state != "failed":
        return None
    review = row["review_state"]
    if row["job_status"] == "cancelled":
        return cancelled_error()
    if review in NOT_SERVED:
        reason = shown_text(row["decision_reason"] or f"the content was {review}")
        return error(review.upper(), "data_quality", reason, NOT_SERVED[review], user_fixable=True)
    if row["job_status"] is None and row["revision_status"] is None:
        return error("NO_LONGER_KEPT", "system", GONE, "Order it again if it is still needed.", user_fixable=True)
    stored = row["revision_error"] if row["job_status"] is None else row["error"]
    return shown_error(stored)


def cancelled_error() -> dict[str, Any]:
    return error("CANCELLED", "parameter", "cancelled", "Order it again if it is still needed.", user_fixable=True)


def shown_error(stored: Mapping[str, Any] | None) -> dict[str, Any]:
    """Of a handler's error with a code. What has none is a fault of the platform, and its text is for operators."""
    code = (stored or {}).get("code")
    entry = ERROR_CODES.get(str(code))
    if stored is None or code is None:
        report = "Try again later. If it fails again, report the request_id to the operator of the platform."
        return error("SYSTEM_ERROR", "system", "the platform could not process the order", report, user_fixable=False)
    category = str(stored.get("category") or (entry.category if entry else "system"))
    is_fixable = bool(stored.get("user_fixable", category in USER_FIXABLE))
    text = str(stored.get("message") or "") if is_fixable else ""
    message = shown_text(text) if text and not INSIDES.search(text) else entry.meaning if entry else "it failed"
    remediation = stored.get("remediation") or (entry.remediation if entry else None)
    remedy = None if remediation is None else shown_text(str(remediation))
    return error(str(code), category, message, remedy, user_fixable=is_fixable)


def error(code: str, category: str, message: str, remediation: str | None, *, user_fixable: bool) -> dict[str, Any]:
    return {
        "code": code,
        "category": category,
        "message": message,
        "remediation": remediation,
        "user_fixable": user_fixable,
    }


def shown_warnings(stored: Any) -> list[dict[str, Any]]:
    return [
        {"code": str(line["code"]), "message": shown_text(str(line["message"])), "count": int(line["count"])}
        for line in stored or []
    ]


def shown_version(version: Row, served: int | None) -> dict[str, Any]:
    return {
        "number": version["revision"],
        "version": version["version_label"],
        "status": version["status"],
        "review": version["review_state"],
        "clearance": version["clearance"],
        "is_served": version["revision"] == served,
        "created_at": moment(version["created_at"]),
        "completed_at": moment(version["completed_at"]),
    }


def shown_value(value: Any) -> Any:
    """A result without what is about the platform: keys that name its parts, and places on its disks."""
    if isinstance(value, dict):
        if RESERVED_KEY in value:
            return {"size_bytes": value[RESERVED_KEY]["size_bytes"], "note": "too large to be shown here"}
        return {key: shown_value(inner) for key, inner in value.items() if key not in HIDDEN_KEYS}
    if isinstance(value, list):
        return [shown_value(inner) for inner in value]
    return shown_text(value, most=len(value)) if isinstance(value, str) else value


def shown_text(text: str, own: str = "", most: int = MOST_CHARACTERS) -> str:
    """Without places and ids, except those that the client has sent itself, which are in `own`."""
    if INSIDES.search(text) and text not in own:
        return HIDDEN
    for pattern in (PLACE, IDENTIFIER):
        text = pattern.sub(lambda match: match[0] if is_public(match[0], own) else HIDDEN, text)
    return text if len(text) <= most else text[:most] + HIDDEN


def is_public(part: str, own: str) -> bool:
    return (bool(own) and part in own) or part.startswith(SPECIFICATIONS)


def shown_pointer(pointer: str, own: str = "") -> str:
    """A place in what the client has sent, which looks like a path on a disk."""
    return pointer[:MOST_CHARACTERS] if SENT.match(pointer) else shown_text(pointer, own)


def segment(text: str) -> str:
    """One part of a path, whatever is in it."""
    return quote(text, safe="").replace(".", "%2E") if text.strip(".") == "" else quote(text, safe="")


def moment(value: datetime | str | None) -> str | None:
    """Moments inside JSON come as PostgreSQL writes them."""
    if value is None:
        return None
    at = datetime.fromisoformat(value) if isinstance(value, str) else value
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")
