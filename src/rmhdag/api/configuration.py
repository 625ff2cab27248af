"""Settings of the HTTP API: its address, its limits, and whose tokens it accepts."""

from __future__ import annotations

from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr, StringConstraints

from rmhdag.models.scopes import Scope
from rmhdag.models.setting_types import Interval, Name, SettingsGroup


def refuse_unsafe(url: str) -> str:
    """Keys that could be changed on the way are worthless, so http is accepted only on this machine."""
    parts = urlsplit(url)
    if not parts.hostname or parts.scheme not in ("https", "http"):
        raise ValueError("this is not the URL of a server: https://…")
    if parts.scheme == "http" and parts.hostname not in ("127.0.0.1", "::1", "localhost"):
        raise ValueError("only https is safe here")
    return url


SafeUrl = Annotated[str, AfterValidator(refuse_unsafe)]
PartnerAudience = Annotated[str, StringConstraints(pattern=r"^[\x21-\x7e]{1,200}$")]
# Only asymmetric ones: with a symmetric algorithm, a process that can check a token can also create one.
Algorithm = Literal["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]


class ApiConfiguration(SettingsGroup):
    """Each API process has its own limits."""

    api_host: str = Field(default="127.0.0.1", description="Address on which the HTTP API listens")
    api_port: int = Field(default=8700, ge=0, le=65535, description="Port of the HTTP API; 0 chooses a free one")
    api_hosts: str = Field(
        default="",
        pattern=r"^[A-Za-z0-9._:,\[\] -]*$",
        description="Additional host names under which browsers reach the API, besides loopback and the host of "
        "RMHDAG_PUBLIC_URL; separated by commas",
    )
    api_origins: str = Field(
        default="",
        pattern=r"^(https?://[^\s/]+(\s+|$))*$",
        description="Origins of pages that may call the API, such as `https://ops.example.org`, separated by spaces",
    )
    environment: str = Field(
        default="",
        pattern=r"^([A-Za-z0-9][A-Za-z0-9 ._-]{0,29})?$",
        description="Name of this installation, shown on every page of the web interface: production (with a red "
        "border), staging, test, … ; in development mode, `development` if unset",
    )
    submits_per_second: float = Field(
        default=2_000.0,
        gt=0,
        le=1_000_000,
        allow_inf_nan=False,
        description="Jobs per second that one key may submit to an API process",
    )
    requests_per_second: float = Field(
        default=1_000.0,
        gt=0,
        le=1_000_000,
        allow_inf_nan=False,
        description="Requests per second that one key may send to an API process; above that it gets 429",
    )
    check_processes: int = Field(
        default=2,
        ge=1,
        le=64,
        description="Processes of an API that check workflows and large parameters; one namespace may use all but one",
    )
    api_header_seconds: Interval = Field(
        default=10.0, description="Time limit for receiving the request headers, in seconds"
    )
    api_body_seconds: Interval = Field(
        default=30.0, description="Time limit for receiving the request body, in seconds"
    )
    api_listeners: int = Field(
        default=1_000, ge=0, le=100_000, description="Number of live streams that one API process serves"
    )
    api_listeners_per_key: int = Field(
        default=100,
        ge=0,
        le=100_000,
        description="Number of live streams that one key may have open on one API process",
    )


class OidcConfiguration(SettingsGroup):
    """Whose access tokens the API accepts, and what they may do."""

    oidc_issuer: SafeUrl | None = Field(
        default=None, description="OIDC issuer whose tokens the API accepts; the token's `iss`"
    )
    oidc_audience: str | None = Field(default=None, description="OIDC audience: the token's `aud`")
    oidc_jwks_url: SafeUrl | None = Field(
        default=None, description="URL of the issuer's keys; default: found by discovery"
    )
    oidc_role_claim: str = Field(default="roles", description="Claim with the roles; `realm_access.roles` is a path")
    oidc_role_scopes: dict[str, list[Scope]] = Field(
        default_factory=dict, description='Scopes of each role: {"Jobs.Read": ["read"], "Jobs.Admin": ["admin"]}'
    )
    oidc_name_claim: str = Field(default="sub", description="Claim with the caller's name")
    oidc_namespace: Name = Field(default="default", description="Namespace of callers with a token")
    oidc_namespace_claim: str | None = Field(
        default=None, description="Claim with the caller's namespace, instead of one namespace for all"
    )
    oidc_algorithms: list[Algorithm] = Field(
        default=["RS256", "ES256"], min_length=1, description="Accepted signature algorithms of tokens"
    )
    oidc_token_types: list[str] = Field(
        default=["at+jwt", "JWT"],
        min_length=1,
        description="Accepted types of access tokens, as in their header `typ`; `none` stands for no type. ID "
        "tokens are always refused",
    )
    partner_issuers: dict[SafeUrl, PartnerAudience] = Field(
        default_factory=dict,
        max_length=20,
        description="Issuers whose tokens the gateway accepts, each with the audience that they must name: "
        '{"https://login.microsoftonline.com/<tenant id>/v2.0": "<client id of the gateway>"}. '
        "`rmhdag clients bind` says whose tokens",
    )
    oidc_client_id: str | None = Field(
        default=None,
        min_length=1,
        max_length=200,
        description="Client under which browsers sign in at the issuer (authorization code with PKCE); its redirect "
        "URI is `/login/oidc/done` below RMHDAG_PUBLIC_URL. Without it, the web interface offers keys only",
    )
    oidc_client_secret: SecretStr | None = Field(
        default=None, description="Secret of that client, if the issuer requires one"
    )
    oidc_sign_in_scopes: str = Field(
        default="openid",
        pattern=r"^[\x21-\x7e]+( [\x21-\x7e]+)*$",
        description="Scopes that a browser asks the issuer for, separated by spaces; for Entra "
        "`openid api://<client id>/.default`",
    )
    oidc_sign_in_label: str = Field(
        default="Sign in with your organisation",
        min_length=1,
        max_length=60,
        description="Words on the button of the sign-in page",
    )
    oidc_session_hours: float = Field(
        default=8.0,
        gt=0,
        le=12,
        allow_inf_nan=False,
        description="How long a browser stays signed in, in hours; a withdrawn role counts from the next sign-in",
    )
