"""Promoted datasets: collections and items that people put in front, with words and an order of their own."""

from typing import Annotated, ClassVar

from pydantic import Field

from rmhdag.models.assets import Classification
from rmhdag.models.catalogue import ItemId
from rmhdag.models.columns import Attempt, JsonList, JsonObject, Message, Name, Namespace, Stamped, Url, varchar
from rmhdag.models.table import Check, Index, Row, Table

PromotedTitle = Annotated[str, varchar(500)]


class PromotedEntry(Row):
    """A reference to a collection, or to an item of it (`item_id` is not ''). With a `system_role` the platform itself
    relies on it. Those with a `gallery_order` are in the gallery.
    """

    table: ClassVar[Table] = Table(
        name="dag_promoted_datasets",
        key=("namespace", "promoted_id"),
        indexes=(
            Index("role", ("namespace", "system_role"), unique=True, where="system_role IS NOT NULL"),
            Index("gallery", ("namespace", "gallery_order"), where="gallery_order IS NOT NULL"),
        ),
        checks=(
            Check("order_positive", "gallery_order >= 1"),
            Check("classification_decided", "classification <> 'undecided'"),
        ),
    )

    namespace: Namespace = "default"
    promoted_id: Name
    collection_id: Name
    item_id: ItemId = ""
    title: PromotedTitle | None = None
    description: Message | None = None
    thumbnail_url: Url | None = None
    style_id: Name | None = None
    gallery_order: Attempt | None = None
    system_role: Name | None = None
    classification: Classification = Classification.RESTRICTED
    promoted_by: Name
    promoted_at: Stamped
    updated_at: Stamped
    tags: JsonList = Field(default_factory=list)
    viewer_config: JsonObject = Field(default_factory=dict)
