"""Signing in and out of the web interface."""

from pydantic import ConfigDict, Field

from rmhdag.models.api.api_model import ApiModel


class SignInRequest(ApiModel):
    """A browser exchanges an API key for a session, so that no script of a page ever holds the key."""

    model_config = ConfigDict(extra="forbid")

    key: str = Field(min_length=1, max_length=200)


class OidcWay(ApiModel):
    label: str = Field(description="The words on the button")


class SignInWays(ApiModel):
    """How a browser can sign in here, besides the link that `rmhdag up` prints."""

    key: bool = True
    oidc: OidcWay | None = None


class SessionAnswer(ApiModel):
    signed_in: bool
