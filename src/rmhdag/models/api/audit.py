"""The audit trail over HTTP: who did what to keys, approvals, assets, workflows and the platform."""

from datetime import datetime
from typing import Any

from pydantic import Field

from rmhdag.models.api.api_model import ApiModel


class AuditView(ApiModel):
    """One action. Rows are only added, so what is read once stays as it is."""

    seq: int = Field(description="Grows with every action; of a gap nothing follows")
    namespace: str
    actor: str = Field(description="Who did it: the holder of a key, or a user of the command line")
    action: str = Field(description="As `key.revoke`: what kind of thing, and what was done to it")
    subject: str = Field(description="What it was done to")
    before: dict[str, Any] = Field(description="What the action replaced or removed, as far as that is short")
    after: dict[str, Any] = Field(description="What it made")
    reason: str | None
    at: datetime


class AuditPage(ApiModel):
    entries: list[AuditView] = Field(description="Newest first")
    next_cursor: str | None
