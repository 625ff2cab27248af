"""Settings of the data database."""

from __future__ import annotations

from pydantic import Field, SecretStr

from rmhdag.models.setting_types import SettingsGroup


class DataDatabaseConfiguration(SettingsGroup):
    """Without an address, an embedded PostgreSQL with PostGIS holds the data as well."""

    postgis_url: SecretStr | None = Field(
        default=None,
        description="PostGIS database for vector tables, as a role of its own (default: the embedded PostgreSQL, if it "
        "has PostGIS)",
    )
    table_revisions: int = Field(
        default=2, ge=0, le=1_000, description="Earlier revisions of an asset whose tables are kept, for rollbacks"
    )
