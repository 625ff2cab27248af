"""Settings of notifications: whether processes use NOTIFY, and how often they poll."""

from __future__ import annotations

from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from rmhdag.models.setting_types import Interval


class NotificationConfiguration(BaseModel):
    """Polling finds all work, with or without notifications."""

    model_config = ConfigDict(populate_by_name=True, defer_build=True)

    notify: bool = Field(
        default=True, validation_alias=AliasChoices("RMHDAG_NOTIFY"), description="Use NOTIFY; otherwise only poll"
    )
    poll_seconds: Interval = Field(
        default=1.0,
        validation_alias=AliasChoices("RMHDAG_POLL_SECONDS", "RMHDAG_POLL_INTERVAL_SEC", "POLL_INTERVAL_SEC"),
        description="Seconds between polls for work when no notification arrives",
    )
