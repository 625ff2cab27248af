"""Settings of the embedded PostgreSQL and of the data folder that it lives in."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from rmhdag.models.setting_types import SettingsGroup


class EmbeddedConfiguration(SettingsGroup):
    """The data folder also holds local storage, logs and the key file."""

    home: Path | None = Field(default=None, description="Data folder: PostgreSQL, storage, logs")
    postgis: bool | None = Field(
        default=None,
        description="Embedded PostgreSQL: use an installed server with PostGIS (default: if there is one and the data "
        "folder is new)",
    )
