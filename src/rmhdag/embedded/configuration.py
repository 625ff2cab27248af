"""Settings of the embedded PostgreSQL and of the data folder that it lives in."""

from __future__ import annotations

from pathlib import Path

from pydantic import AliasChoices, BaseModel, ConfigDict, Field


class EmbeddedConfiguration(BaseModel):
    """The data folder also holds local storage, logs and the key file."""

    model_config = ConfigDict(populate_by_name=True, defer_build=True)

    home: Path | None = Field(
        default=None, validation_alias=AliasChoices("RMHDAG_HOME"), description="Data folder: PostgreSQL, storage, logs"
    )
    postgis: bool | None = Field(
        default=None,
        validation_alias=AliasChoices("RMHDAG_POSTGIS"),
        description="Embedded PostgreSQL: use an installed server with PostGIS (default: if there is one and the data "
        "folder is new)",
    )
