"""The report of a campaign as the record of it that ships with the program."""

from __future__ import annotations

from datetime import date
from typing import Any

from rmhdag.models.api.about import Campaign

AS_REPORTED = (
    "minutes",
    "jobs",
    "tasks",
    "kills",
    "freezes",
    "freezes_in_transaction",
    "database_restarts",
    "lost",
    "stuck",
)
# Faults that have no column of their own.
OTHERS = ("terminated_backends", "cuts", "half_open", "delays", "hand_overs")


def campaign_record(report: dict[str, Any], *, command: str, version: str, day: date) -> Campaign:
    """Whatever was violated counts: what is neither lost, doubled nor stuck is late."""
    violations = sum(report["violated"].values())
    return Campaign(
        version=version,
        date=day,
        command=command,
        freezes_past_lease=report["wake_ups_after_lease"],
        other_faults=sum(report[name] for name in OTHERS),
        doubled=report["duplicated"],
        late=violations - report["lost"] - report["duplicated"] + len(report["unexpected"]),
        **{name: report[name] for name in AS_REPORTED},
    )
