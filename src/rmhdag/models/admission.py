"""Whether a namespace may have more jobs, and in which words it is refused: the same over HTTP and for commands that
work on the database.
"""

from __future__ import annotations

from typing import NamedTuple

from rmhdag.models.quotas import Quotas

REMEDIES = {
    "open_jobs": "Wait for jobs to end or cancel some, then submit again.",
    "stored_bytes": "Delete finished jobs (`rmhdag prune`, or a shorter retention), or ask the operator for more.",
    "upload_bytes": "Finish the uploads that were begun; those of an hour ago are removed by themselves.",
    "listeners": "Close some streams, or follow all jobs by one stream.",
    "requests_per_second": "Send fewer requests: follow a stream instead of polling, and submit jobs in batches.",
    "processor_share": "Ask for less at once: smaller pages, filters, a stream instead of polling.",
    "body_bytes": "Send large bodies one after the other.",
    "handler_trials": "Wait for the end of another trial.",
    "workflows": "Reuse the ids of workflows that are no longer needed: a version more of one is not counted.",
    "handlers": "Register fewer handlers; names that no worker offers any more count too.",
    "keys": "Revoke keys that are no longer used.",
    "priority": "Submit with a lower priority.",
}


class Exceeded(NamedTuple):
    """The quota that refuses something."""

    name: str
    limit: int
    used: int

    @property
    def sentence(self) -> str:
        if self.name == "priority":
            return f"the priority {self.used} is above {self.limit}, the highest of this namespace (quota `priority`)"
        return f"the quota `{self.name}` of this namespace is used up: {self.used:,} of {self.limit:,}"


def exceeded_by_jobs(
    limits: Quotas, open_jobs: int, stored_bytes: int, *, jobs: int, size_bytes: int, priority: int
) -> Exceeded | None:
    """Whether jobs of this size and urgency are too much for what there is already."""
    if priority > limits.priority:
        return Exceeded("priority", limits.priority, priority)
    if open_jobs + jobs > limits.open_jobs:
        return Exceeded("open_jobs", limits.open_jobs, open_jobs)
    if stored_bytes + size_bytes > limits.stored_bytes:
        return Exceeded("stored_bytes", limits.stored_bytes, stored_bytes)
    return None
