"""Settings of the STAC catalogue."""

from __future__ import annotations

from pydantic import Field

from rmhdag.models.catalogue import CatalogueKind
from rmhdag.models.setting_types import SettingsGroup


class CatalogueConfiguration(SettingsGroup):
    """Where STAC items are published."""

    catalogue: CatalogueKind = Field(
        default=CatalogueKind.STATIC,
        description="Where STAC items are published: static (files in zone gold) or pgstac (in the database)",
    )
