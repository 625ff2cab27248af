"""Clients of the gateway as they are shown and changed."""

from datetime import datetime
from typing import Annotated

from pydantic import ConfigDict, Field, field_validator

from rmhdag.models.api.api_model import ApiModel
from rmhdag.models.clients import CLIENT_QUOTAS, refuse_wrong_quota


class ClientQuotaView(ApiModel):
    name: str
    what: str = Field(description="What is limited")
    limit: int
    is_own: bool = Field(description="Set for this client; else the default of the platform")


class ClientView(ApiModel):
    """A client of the gateway; its name is that of its keys."""

    client_id: str
    active: bool = Field(description="A client that is not active is refused by the gateway")
    quotas: list[ClientQuotaView]
    changed_by: str | None = Field(description="Null if the client has only defaults")
    updated_at: datetime | None


class ClientPage(ApiModel):
    clients: list[ClientView] = Field(description="Those that were changed, by name")
    next_cursor: str | None


class ClientChanges(ApiModel):
    """Quotas that are not named stay; null gives the default of the platform back."""

    model_config = ConfigDict(extra="forbid")

    quotas: dict[str, Annotated[int, Field(ge=0, le=10**9)] | None] = Field(
        default_factory=dict, max_length=len(CLIENT_QUOTAS)
    )
    active: Annotated[bool, Field(strict=True)] | None = None

    @field_validator("quotas")
    @classmethod
    def check(cls, limits: dict[str, int | None]) -> dict[str, int | None]:
        for name, value in limits.items():
            refuse_wrong_quota(
                name, CLIENT_QUOTAS[name]["least"] if value is None and name in CLIENT_QUOTAS else value or 0
            )
        return limits
