"""Settings of the STAC catalogue."""

from __future__ import annotations

from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from rmhdag.models.catalogue import CatalogueKind


class CatalogueConfiguration(BaseModel):
    """Where STAC items are published."""

    model_config = ConfigDict(populate_by_name=True, defer_build=True)

    catalogue: CatalogueKind = Field(
        default=CatalogueKind.STATIC,
        validation_alias=AliasChoices("RMHDAG_CATALOGUE"),
        description="Where STAC items are published: static (files in zone gold) or pgstac (in the database)",
    )
