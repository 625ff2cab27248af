"""Platforms that order assets, as they are registered and shown."""

from datetime import datetime
from typing import Annotated, Self

from pydantic import Field, model_validator

from rmhdag.models.api.api_model import ApiModel
from rmhdag.models.api.jobs import RequestBody
from rmhdag.models.assets import PlatformReview
from rmhdag.models.columns import Name

MOST_REFERENCES = 20
ReferenceNames = Annotated[list[Name], Field(max_length=MOST_REFERENCES)]


class PlatformBody(RequestBody):
    """A whole definition: what is left out has its default."""

    identity_refs: Annotated[ReferenceNames, Field(min_length=1)] = Field(
        description="References that every order names, and that identify an asset"
    )
    optional_refs: ReferenceNames = Field(
        default_factory=list, description="References that an order may name; they are part of the identity too"
    )
    version_ref: Name | None = Field(
        default=None, description="The reference that is the version label; no part of the identity"
    )
    review: PlatformReview = Field(
        default=PlatformReview.NONE, description="Whether its assets need an approval; `four_eyes`: by someone else"
    )
    active: bool = Field(default=True, strict=True, description="An inactive platform takes no orders")

    @model_validator(mode="after")
    def _check_distinct(self) -> Self:
        names = [*self.identity_refs, *self.optional_refs, *([self.version_ref] if self.version_ref else [])]
        if len(set(names)) != len(names):
            raise ValueError("a reference occurs twice: each is an identity, an optional or the version reference")
        return self


class PlatformView(ApiModel):
    platform_id: str
    identity_refs: list[str]
    optional_refs: list[str]
    version_ref: str | None
    review: PlatformReview
    active: bool
    namespace: str = Field(description="Whose definition counts: the caller's own, else that of `default`")
    created_by: str | None = Field(description="`settings`: shipped, or from RMHDAG_PLATFORMS")
    updated_by: str | None = Field(description="Null as long as nobody has changed it")
    updated_at: datetime | None


class PlatformList(ApiModel):
    platforms: list[PlatformView]
