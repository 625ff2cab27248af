"""Settings of the gateway, for its command and, read from the environment, for an Azure Function."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import date
from typing import Annotated, Any, Self

import orjson
from pydantic import AfterValidator, AliasChoices, Field, SecretStr, StringConstraints

from rmhdag.gateway.service_urls import check_templates
from rmhdag.models.clients import ClientQuotas, read_client_quotas
from rmhdag.models.setting_types import Days, Interval, SettingsGroup, WebUrl


def check_quotas(text: str) -> str:
    read_client_quotas(text)
    return text


def check_service_urls(text: str) -> str:
    """JSON: kind of asset → name of the address → template."""
    try:
        templates = orjson.loads(text) if text else {}
    except orjson.JSONDecodeError as error:
        raise ValueError(f"this is not JSON: {error}") from None
    check_templates(templates)
    return text


class GatewayConfiguration(SettingsGroup):
    """Where the gateway reads and whom it forwards to."""

    gateway_host: str = Field(default="127.0.0.1", description="Address on which the gateway listens")
    gateway_port: int = Field(default=8800, ge=0, le=65535, description="Port of the gateway; 0 chooses a free one")
    gateway_database_url: str | None = Field(
        default=None, description="Database URL of the gateway, with the role that `rmhdag db roles` creates for it"
    )
    gateway_key: SecretStr | None = Field(
        default=None, description="Key with the scope `gateway`, with which the gateway calls the API"
    )
    orchestrator_url: WebUrl | None = Field(
        default=None,
        validation_alias=AliasChoices("RMHDAG_ORCHESTRATOR_URL", "ORCHESTRATOR_URL"),
        description="URL of the HTTP API to which the gateway forwards",
    )
    worker_url: WebUrl | None = Field(
        default=None,
        validation_alias=AliasChoices("RMHDAG_WORKER_URL", "WORKER_URL"),
        description="URL of a worker's health port, for administrators who call the gateway's /proxy/worker",
    )
    gateway_public_url: WebUrl | None = Field(
        default=None,
        description="URL under which partners reach the gateway: links begin with it, and so do those in callbacks of "
        "orders if orchestrators have the setting too; default: paths without a host",
    )
    service_urls: Annotated[str, AfterValidator(check_service_urls)] = Field(
        default="",
        description='Templates of service addresses by kind of asset: {"raster": {"viewer": "https://…?url={url}"}}',
    )
    client_quotas: Annotated[str, AfterValidator(check_quotas)] = Field(
        default="", description="Quotas of gateway clients without quotas of their own, such as requests_per_second=20"
    )
    gateway_sunset: date = Field(
        default=date(2027, 11, 1),
        description="Day from which older names of the gateway's routes may be gone, as YYYY-MM-DD: `Sunset` "
        "(RFC 8594) in their answers",
    )
    gateway_trusted_proxies: int = Field(
        default=0,
        ge=0,
        le=10,
        description="Proxies before the gateway that add to X-Forwarded-For; 0 ignores the header",
    )
    gateway_forward_seconds: Interval = Field(
        default=30.0, description="Time limit for an answer of the API to a forwarded request, in seconds"
    )

    def client_quota_defaults(self) -> ClientQuotas:
        return ClientQuotas().with_overrides(read_client_quotas(self.client_quotas))

    def service_templates(self) -> dict[str, dict[str, str]]:
        templates: dict[str, dict[str, str]] = orjson.loads(self.service_urls) if self.service_urls else {}
        return templates

    def missing_variables(self) -> list[str]:
        """Without these nothing can be answered."""
        needed = {
            "RMHDAG_GATEWAY_DATABASE_URL": self.gateway_database_url,
            "RMHDAG_GATEWAY_KEY": self.gateway_key,
            "RMHDAG_ORCHESTRATOR_URL": self.orchestrator_url,
        }
        return [name for name, value in needed.items() if value is None]

    def shown(self) -> dict[str, Any]:
        """For operators: without secrets and addresses of the platform."""
        return {
            "client_quotas": {name: getattr(self.client_quota_defaults(), name) for name in ClientQuotas.__slots__},
            "service_urls": self.service_templates(),
            "is_configured": not self.missing_variables(),
            "trusted_proxies": self.gateway_trusted_proxies,
            "forward_seconds": self.gateway_forward_seconds,
        }


class EnvironmentConfiguration(GatewayConfiguration):
    """The same from environment variables alone, where no command reads settings."""

    schema_name: Annotated[str, StringConstraints(pattern=r"^[a-z_][a-z0-9_]{0,62}$")] = Field(
        default="dagapp", validation_alias=AliasChoices("RMHDAG_SCHEMA", "RMHDAG_SCHEMA_NAME")
    )
    database_pooled: bool = Field(default=False)
    retention_days: Days = Field(default=30.0)

    @classmethod
    def read(cls, environment: Mapping[str, str] = os.environ) -> Self:
        return cls.model_validate({name: value for name, value in environment.items() if value})
