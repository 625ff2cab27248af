"""Errors and warnings about data as they are shown; their codes are listed in docs/error-codes.md."""

from typing import Any

from pydantic import Field

from rmhdag.models.api.api_model import ApiModel


class ErrorView(ApiModel):
    """Why something failed, in a form that programs can use."""

    code: str = Field(description="Never changes its meaning")
    category: str = Field(description="Who can do something about it: the client, the platform or its operator")
    message: str
    remediation: str | None = None
    user_fixable: bool = Field(description="The client can correct it and order again")
    retryable: bool = Field(description="A retry may succeed; the platform retries by itself")
    details: dict[str, Any] = Field(default_factory=dict)


class WarningView(ApiModel):
    """Something that a person should know about the data, and how often it was found."""

    code: str
    message: str = Field(description="Of the first one")
    count: int
