"""Settings of callbacks, as whoever delivers and checks them wants them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rmhdag.cli.settings import Settings
    from rmhdag.orchestrator.callbacks.destinations import Rules
    from rmhdag.orchestrator.callbacks.settings import CallbackSettings


EVERYBODY = "*"


def callback_rules(settings: Settings) -> Rules:
    from rmhdag.orchestrator.callbacks.destinations import REFUSED_PORTS, Rules

    trusted = [read_trusted(entry) for entry in settings.callback_hosts.split(",") if entry.strip()]
    given = settings.callback_refused_ports
    return Rules(
        frozenset(host for namespace, host in trusted if namespace == EVERYBODY),
        REFUSED_PORTS if given is None else frozenset(int(float(port)) for port in given.split(",")),
        frozenset(entry for entry in trusted if entry[0] != EVERYBODY),
    )


def read_trusted(entry: str) -> tuple[str, str]:
    """(namespace, host): a host that is named alone is trusted for the namespace `default` only."""
    namespace, separator, host = entry.strip().rpartition("=")
    return namespace.strip() if separator else "default", host.strip().lower()


def callback_settings(settings: Settings) -> CallbackSettings:
    from rmhdag.orchestrator.callbacks.settings import SCHEDULE_SECONDS, CallbackSettings

    given = settings.callback_retry_seconds
    return CallbackSettings(
        rules=callback_rules(settings),
        schedule_seconds=SCHEDULE_SECONDS if given is None else tuple(float(pause) for pause in given.split(",")),
        total_seconds=settings.callback_timeout_seconds,
        public_url=(settings.public_url or "").rstrip("/"),
        secret_key=settings.callback_secret_key,
        key_file=settings.key_file(),
    )
