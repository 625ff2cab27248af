"""What views need to know of an installation's settings."""

from __future__ import annotations

from typing import Protocol

from rmhdag.models.quotas import Quotas


class Installation(Protocol):
    """`orphan_seconds`: without a heartbeat for so long, a process counts as dead."""

    @property
    def orphan_seconds(self) -> float: ...
    @property
    def queues(self) -> frozenset[str]: ...
    @property
    def job_queue_name(self) -> str | None: ...
    @property
    def quotas(self) -> Quotas: ...
