"""Promoted datasets, as they are asked for and shown."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, FailFast, Field, StringConstraints, field_validator

from rmhdag.models.api.api_model import ApiModel
from rmhdag.models.api.jobs import RequestBody
from rmhdag.models.assets import Classification
from rmhdag.models.columns import JsonObject, Message, Url
from rmhdag.models.id_types import StacId
from rmhdag.models.plain_text import refuse_deceiving
from rmhdag.models.promoted import PromotedTitle

PromotedId = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$")]
Tag = Annotated[str, StringConstraints(min_length=1, max_length=64), AfterValidator(refuse_deceiving)]
SYNONYMS = {"ouo": "restricted", "OUO": "restricted", "Official Use Only": "restricted"}


class PromotionRequest(RequestBody):
    """What to put in front: a collection, or one item of it."""

    collection_id: StacId
    item_id: StacId | None = None
    title: PromotedTitle | None = Field(default=None, description="Instead of the title in the catalogue")
    description: Message | None = None
    thumbnail_url: Url | None = None
    tags: list[Tag] = Field(default_factory=list, max_length=50)
    viewer_config: JsonObject = Field(default_factory=dict, description="Where a viewer begins: centre, zoom")
    style_id: StacId | None = None
    gallery_order: Annotated[int, Field(ge=1, le=10_000, strict=True)] | None = Field(
        default=None, description="Its place in the gallery; null: not in the gallery"
    )
    system_role: PromotedId | None = Field(
        default=None, description="What the platform itself uses it for, such as admin0_boundaries"
    )
    classification: Literal[Classification.PUBLIC, Classification.RESTRICTED] = Field(
        default=Classification.RESTRICTED, description="Only public ones are shown outside"
    )

    @field_validator("classification", mode="before")
    @classmethod
    def _accept_synonyms(cls, value: Any) -> Any:
        return SYNONYMS.get(value, value) if isinstance(value, str) else value

    @field_validator("thumbnail_url")
    @classmethod
    def _check_thumbnail(cls, value: str | None) -> str | None:
        if value is not None and not value.startswith(("https://", "http://")):
            raise ValueError("a thumbnail has a URL that begins with https:// or http://")
        return value


class PromotedView(ApiModel):
    promoted_id: str
    collection_id: str
    item_id: str | None
    title: str | None
    description: str | None
    thumbnail_url: str | None
    tags: list[str]
    viewer_config: dict[str, Any]
    style_id: str | None
    in_gallery: bool
    gallery_order: int | None
    is_system_reserved: bool
    system_role: str | None
    classification: Classification
    visible_outside: bool = Field(description="Public here and in its revision, and shown by the catalogue")
    warnings: list[str] = Field(description="What is wrong with what it refers to")
    promoted_by: str
    promoted_at: datetime
    updated_at: datetime


class PromotedPage(ApiModel):
    promoted: list[PromotedView]
    next_cursor: str | None


class GalleryOrder(RequestBody):
    promoted_ids: Annotated[list[PromotedId], FailFast()] = Field(
        max_length=500, description="All of the gallery, in its order"
    )

    @field_validator("promoted_ids")
    @classmethod
    def _check_once(cls, value: list[str]) -> list[str]:
        if len(set(value)) != len(value):
            raise ValueError("each promoted dataset has one place in the gallery")
        return value


class Gallery(ApiModel):
    promoted: list[PromotedView] = Field(description="In the order of the gallery")
