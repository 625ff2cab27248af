"""Pages that need no key: what changed for partners, and whether the gateway works now. Without scripts, and without
anything from elsewhere.
"""

from __future__ import annotations

import html
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any, NamedTuple

import rmhdag

CHANGES_PATH = "/changes"
STATUS_PATH = "/health"


class Change(NamedTuple):
    """Of the interface that partners see. A change that is not an addition says since when, and until when."""

    day: str
    text: str


# Newest first.
CHANGES = (
    Change("2026-11-19", "Tokens of an OIDC issuer are accepted beside keys, if your operator has bound them to you."),
    Change("2026-11-19", "A dry run answers `estimate`: tasks, bytes of the inputs, and how long such orders take."),
    Change(
        "2026-11-19",
        "A status has `updated_at`, `expires_at`, `partial` and `progress.message`; a result has `expires_at` and "
        "`partial`.",
    ),
    Change("2026-11-19", "`GET /platform/requests` takes `until` beside `since`."),
    Change("2026-11-19", "A retry that is repeated with its Idempotency-Key gets the same answer."),
    Change("2026-11-19", "Answers of older names of routes carry `Sunset` beside `Deprecation`."),
    Change(
        "2026-11-01",
        "First version. Older names of routes (`/platform/submit_dag`, `/platform/dag_status/{request_id}` and others "
        "that the OpenAPI document marks as deprecated) still answer.",
    ),
)
# What partners do, and the checks that it needs.
SERVICES = {
    "Orders and commands": ("env_vars", "database", "orchestrator"),
    "Status, results and lists": ("env_vars", "database"),
}


def is_working(checks: Mapping[str, Mapping[str, Any]], needs: tuple[str, ...]) -> bool:
    return all(checks[name]["passed"] for name in needs)


def status_page(checks: Mapping[str, Mapping[str, Any]]) -> str:
    """What does not work, but not why: that is for operators."""
    rows = "".join(
        f"<tr><td>{what}</td><td>{'available' if is_working(checks, needs) else 'not available'}</td></tr>"
        for what, needs in SERVICES.items()
    )
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return page("Status", f"<table>{rows}</table><p>Version {rmhdag.__version__}, checked at {now}.</p>")


@cache
def changes_page() -> str:
    rows = "".join(f"<tr><td>{change.day}</td><td>{html.escape(change.text)}</td></tr>" for change in CHANGES)
    rules = (
        "Additions come at any time: ignore what you do not know. What goes away is announced here and by the headers "
        "Deprecation (RFC 9745) and Sunset (RFC 8594) of its answers."
    )
    return page("Changes", f"<p>{rules}</p><table>{rows}</table>")


def page(title: str, body: str) -> str:
    links = " · ".join(
        f'<a href="{path}">{name}</a>'
        for path, name in (("/docs", "Routes"), (CHANGES_PATH, "Changes"), (STATUS_PATH, "Status"))
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f"<title>{title} - rmhdag gateway</title></head><body><h1>{title}</h1><p>{links}</p>{body}</body></html>"
    )
