"""Settings of the data database."""

from __future__ import annotations

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, SecretStr


class DataDatabaseConfiguration(BaseModel):
    """Without an address, an embedded PostgreSQL with PostGIS holds the data as well."""

    model_config = ConfigDict(populate_by_name=True, defer_build=True)

    postgis_url: SecretStr | None = Field(
        default=None,
        validation_alias=AliasChoices("RMHDAG_POSTGIS_URL"),
        description="PostGIS database for vector tables, as a role of its own (default: the embedded PostgreSQL, if it "
        "has PostGIS)",
    )
    table_revisions: int = Field(
        default=2,
        ge=0,
        le=1_000,
        validation_alias=AliasChoices("RMHDAG_TABLE_REVISIONS"),
        description="Earlier revisions of an asset whose tables are kept, for rollbacks",
    )
