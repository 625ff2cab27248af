"""Settings of callbacks: where they may go, when they are retried, how their secrets are encrypted."""

from __future__ import annotations

from typing import Annotated

from pydantic import AliasChoices, Field, StringConstraints

from rmhdag.models.setting_types import Interval, SettingsGroup, WebUrl
from rmhdag.services.callbacks.destinations import REFUSED_PORTS, Rules
from rmhdag.services.callbacks.settings import SCHEDULE_SECONDS

ALL_NAMESPACES = "*"
NumberList = Annotated[str, StringConstraints(pattern=r"^\s*\d+(\.\d+)?(\s*,\s*\d+(\.\d+)?)*\s*$")]
HostList = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._:,=*\[\] -]*$")]


class CallbackConfiguration(SettingsGroup):
    """Orchestrators deliver callbacks; APIs check their URLs by the same rules."""

    public_url: WebUrl | None = Field(
        default=None, description="Public URL of the HTTP API; result URLs in callbacks begin with it"
    )
    callback_hosts: HostList = Field(
        default="",
        description="Hosts that callbacks may use although they are not public, separated by commas: host or "
        "host:port for the namespace `default`, NAMESPACE=host for another one, *=host for all",
    )
    callback_refused_ports: NumberList | None = Field(
        default=None, description="Ports that callbacks may not use; default: those of databases, caches and brokers"
    )
    callback_retry_seconds: NumberList | None = Field(
        default=None, description="Pauses between the tries of a callback; default: nine steps from 5 s to 24 h"
    )
    callback_timeout_seconds: Interval = Field(
        default=15.0,
        validation_alias=AliasChoices("RMHDAG_CALLBACK_TIMEOUT_SECONDS", "RMHDAG_CALLBACK_TIMEOUT_SEC"),
        description="Time limit for one try of a callback, including the name lookup, in seconds",
    )
    callback_secret_key: str | None = Field(
        default=None,
        min_length=16,
        description="Passphrase that encrypts secrets of callback endpoints in the database; default: the key file",
    )

    def callback_rules(self) -> Rules:
        trusted_hosts = [read_trusted(entry) for entry in self.callback_hosts.split(",") if entry.strip()]
        ports = self.callback_refused_ports
        return Rules(
            frozenset(host for namespace, host in trusted_hosts if namespace == ALL_NAMESPACES),
            REFUSED_PORTS if ports is None else frozenset(int(float(port)) for port in ports.split(",")),
            frozenset(entry for entry in trusted_hosts if entry[0] != ALL_NAMESPACES),
        )

    def callback_schedule(self) -> tuple[float, ...]:
        pauses = self.callback_retry_seconds
        return SCHEDULE_SECONDS if pauses is None else tuple(float(pause) for pause in pauses.split(","))


def read_trusted(entry: str) -> tuple[str, str]:
    """(namespace, host): a host without a namespace is trusted for the namespace `default` only."""
    namespace, separator, host = entry.strip().rpartition("=")
    return namespace.strip() if separator else "default", host.strip().lower()
