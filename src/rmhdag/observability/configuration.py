"""Settings of logs and traces."""

from __future__ import annotations

from typing import Literal

from pydantic import AliasChoices, Field

from rmhdag.models.setting_types import SettingsGroup


class ObservabilityConfiguration(SettingsGroup):
    """All processes read these."""

    log_format: Literal["logfmt", "json"] = Field(default="logfmt", description="Format of the log: logfmt or json")
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Log level: debug, info, warning or error"
    )
    otlp_endpoint: str | None = Field(
        default=None,
        validation_alias=AliasChoices("RMHDAG_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"),
        description="OTLP endpoint for traces over HTTP, such as http://collector:4318; default: no traces",
    )
    applicationinsights_connection_string: str | None = Field(
        default=None,
        validation_alias=AliasChoices("APPLICATIONINSIGHTS_CONNECTION_STRING"),
        description="Sends traces to Azure Monitor; needs the extra azure-monitor",
    )
