"""Settings of notifications: whether processes use NOTIFY, and how often they poll."""

from __future__ import annotations

from pydantic import AliasChoices, Field

from rmhdag.models.setting_types import Interval, SettingsGroup


class NotificationConfiguration(SettingsGroup):
    """Polling finds all work, with or without notifications."""

    notify: bool = Field(default=True, description="Use NOTIFY; otherwise only poll")
    poll_seconds: Interval = Field(
        default=1.0,
        validation_alias=AliasChoices("RMHDAG_POLL_SECONDS", "RMHDAG_POLL_INTERVAL_SEC", "POLL_INTERVAL_SEC"),
        description="Seconds between polls for work when no notification arrives",
    )
