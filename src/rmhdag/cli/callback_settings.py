"""The settings of callbacks as values for the processes that check and deliver them."""

from __future__ import annotations

from rmhdag.cli.settings import Settings
from rmhdag.services.callbacks.settings import CallbackSettings


def callback_settings(settings: Settings) -> CallbackSettings:
    return CallbackSettings(
        rules=settings.callback_rules(),
        schedule_seconds=settings.callback_schedule(),
        total_seconds=settings.callback_timeout_seconds,
        public_url=(settings.public_url or "").rstrip("/"),
        gateway_url=(settings.gateway_public_url or "").rstrip("/"),
        secret_key=settings.callback_secret_key,
        key_file=settings.key_file(),
        allow_plain=settings.plain_secrets,
    )
