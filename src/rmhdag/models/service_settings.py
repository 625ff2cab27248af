"""What a service of each kind is configured with, besides its URL and its secret."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from rmhdag.models.columns import Url
from rmhdag.models.service_calls import ServiceKind

Segment = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._()-]*[A-Za-z0-9_()-]$", max_length=90)]
Pipeline = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_ -]{0,139}$")]
Credential = Annotated[str, StringConstraints(pattern=r"^[\x21-\x7e]+$", max_length=200)]
AZURE_LOGIN = "https://login.microsoftonline.com"


class MessageSettings(BaseModel):
    """Of a webhook, and of DDH: nothing."""

    model_config = ConfigDict(extra="forbid")


class PipelineSettings(BaseModel):
    """A pipeline of Azure Data Factory. The URL of the service is that of Azure's management API.

    The secret is a bearer token, or with `auth: client_credentials` the secret of the client that asks for tokens.
    """

    model_config = ConfigDict(extra="forbid")

    subscription_id: Segment
    resource_group: Segment
    factory: Segment
    pipeline: Pipeline = "export_to_public"
    withdrawal_pipeline: Pipeline | None = Field(
        default=None, description="Run for what is revoked or unpublished; without it, copies stay where they are"
    )
    auth: Literal["token", "client_credentials"] = "token"
    tenant_id: Segment | None = None
    client_id: Credential | None = None
    token_url: Url | None = Field(default=None, description="Where tokens are issued; default: Azure's for the tenant")
    token_scope: Credential = "https://management.azure.com/.default"
    poll_seconds: float = Field(default=30.0, ge=0.05, le=3600, description="Between two looks at a run")
    public_url: Url | None = Field(
        default=None,
        description="Where the copy is found; {asset_id}, {revision} and {release_id} are filled in",
    )

    @model_validator(mode="after")
    def _check_credentials(self) -> PipelineSettings:
        if self.auth == "client_credentials" and (
            self.client_id is None or (self.tenant_id is None and self.token_url is None)
        ):
            raise ValueError("client_credentials needs client_id, and tenant_id or token_url")
        return self

    @property
    def tokens_from(self) -> str:
        return self.token_url or f"{AZURE_LOGIN}/{self.tenant_id}/oauth2/v2.0/token"


SETTINGS_OF: dict[ServiceKind, type[MessageSettings] | type[PipelineSettings]] = {
    ServiceKind.WEBHOOK: MessageSettings,
    ServiceKind.DDH: MessageSettings,
    ServiceKind.ADF: PipelineSettings,
}
