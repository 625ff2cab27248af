"""Errors and warnings about data in the words of the command line."""

from __future__ import annotations

from collections.abc import Sequence

from rmhdag.cli.operations import Operations
from rmhdag.models.api.data_errors import ErrorView, WarningView
from rmhdag.models.api.overviews import JobOverview

NAMED_CHILDREN = 5
# A table or a line holds so much of a message; `--node` shows all of it.
SHOWN_CHARACTERS = 300


def describe_cause(error: ErrorView) -> str:
    """`CRS_MISSING (data_quality): add it to the file`."""
    return f"{error.code} ({error.category})" + (f": {flat(error.remediation)}" if error.remediation else "")


def count_warnings(warnings: Sequence[WarningView]) -> str:
    total = sum(warning.count for warning in warnings)
    return f"{total:,} warning{'' if total == 1 else 's'}"


def describe_warnings(warnings: Sequence[WarningView]) -> list[str]:
    """`3 × RASTER_EMPTY: no pixel of the first band has data`, the most frequent first."""
    ordered = sorted(warnings, key=lambda warning: -warning.count)
    return [f"{warning.count:,} × {warning.code}: {flat(warning.message)}" for warning in ordered]


def describe_failed_children(platform: Operations, job: JobOverview) -> dict[str, list[tuple[str, str]]]:
    """By fan-out: the ids of the first failed children, each with its item and its error."""
    children = {}
    for node in job.nodes:
        if node.children is None or not node.children.failed:
            continue
        lines = []
        for child in platform.failed_children(job.job_id, node.node_id, NAMED_CHILDREN):
            item = "" if child.fan_out_item_key is None else f" ({child.fan_out_item_key})"
            lines.append((child.node_id, f"{child.node_id}{item}: {flat(child.error_message or 'no message')}"))
        if node.children.failed > len(lines):
            lines.append(("", f"… and {node.children.failed - len(lines):,} more"))
        children[node.node_id] = lines
    return children


def flat(text: str) -> str:
    """On one line, and not too long for it."""
    line = " ".join(text.split())
    return line if len(line) <= SHOWN_CHARACTERS else line[: SHOWN_CHARACTERS - 1] + "…"
