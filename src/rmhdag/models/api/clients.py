"""Clients of the gateway as they are shown and changed."""

from datetime import datetime
from typing import Annotated

from pydantic import ConfigDict, FailFast, Field, StringConstraints, field_validator

from rmhdag.models.api.api_model import ApiModel
from rmhdag.models.api.keys import Days
from rmhdag.models.clients import CLIENT_QUOTAS, IdentityKind, refuse_wrong_quota
from rmhdag.models.scopes import PARTNER_SCOPES, Scope

MOST_TOKEN_CHARACTERS = 16 * 1024
MOST_USES = 1_000
IssuerText = Annotated[str, StringConstraints(pattern=r"^https?://[\x21-\x7e]{1,500}$")]
IdentityText = Annotated[str, StringConstraints(pattern=r"^[\x21-\x7e]{1,256}$")]
UseId = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{16}$")]


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


class IdentityRequest(ApiModel):
    """Whose tokens are those of a client."""

    model_config = ConfigDict(extra="forbid")

    issuer: IssuerText = Field(description="One of RMHDAG_PARTNER_ISSUERS; the token's `iss`")
    kind: IdentityKind = Field(
        description="`application`: the `azp`, `appid` or `client_id` of tokens that an application gets for itself; "
        "`subject`: their `sub`"
    )
    value: IdentityText
    scopes: list[Scope] = Field(min_length=1, max_length=len(PARTNER_SCOPES))
    expires_days: Days | None = Field(default=None, description="Without it, until somebody unbinds it")

    @field_validator("scopes")
    @classmethod
    def check(cls, scopes: list[Scope]) -> list[Scope]:
        if others := sorted(set(scopes) - PARTNER_SCOPES):
            raise ValueError(f"{', '.join(others)}: tokens of partners have {', '.join(sorted(PARTNER_SCOPES))}")
        return sorted(set(scopes))


class IdentityView(ApiModel):
    """Tokens of this identity are those of the client."""

    identity_id: str
    client_id: str
    issuer: str
    kind: IdentityKind
    value: str
    scopes: list[Scope]
    created_by: str
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None = Field(description="To the minute")


class IdentityList(ApiModel):
    identities: list[IdentityView]


class TokenText(ApiModel):
    """A token that a gateway was sent."""

    model_config = ConfigDict(extra="forbid")

    token: Annotated[str, StringConstraints(max_length=MOST_TOKEN_CHARACTERS)] = Field(repr=False)


class TokenIdentity(ApiModel):
    """Whose a token is; its signature, issuer, audience and times were checked."""

    issuer: str
    application: str | None = Field(description="Null if a person asked for the token")
    subject: str | None
    expires_at: float = Field(description="In seconds since 1970")


class Uses(ApiModel):
    """What was used at a gateway in the last minute."""

    model_config = ConfigDict(extra="forbid")

    key_ids: Annotated[list[UseId], FailFast()] = Field(default_factory=list, max_length=MOST_USES)
    identity_ids: Annotated[list[UseId], FailFast()] = Field(default_factory=list, max_length=MOST_USES)


class UsesNoted(ApiModel):
    noted: int = Field(description="How many of them are known here, and were not noted in the last minute")
