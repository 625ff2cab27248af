"""Settings of the database: how to reach it, how secrets are encrypted in it, how long rows are kept."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

from pydantic import AfterValidator, AliasChoices, Field, SecretStr, StringConstraints

from rmhdag.models.setting_types import Days, SettingsGroup

if TYPE_CHECKING:
    from rmhdag.store.retention import RetentionDays


def refuse_reserved(name: str) -> str:
    if name.startswith("pg_"):
        raise ValueError("PostgreSQL reserves names that begin with pg_")
    return name


PostgresUrl = Annotated[str, StringConstraints(pattern=r"^postgres(ql)?://")]
SchemaName = Annotated[str, StringConstraints(pattern=r"^[a-z_][a-z0-9_]{0,47}$"), AfterValidator(refuse_reserved)]
# A process that stores a payload needs time to report it before the payload may be deleted.
PayloadDays = Annotated[float, Field(ge=0.01, le=36_500, allow_inf_nan=False)]


class DatabaseConfiguration(SettingsGroup):
    """Only commands that change the schema use the URL of its owner."""

    database_url: PostgresUrl | None = Field(
        default=None,
        validation_alias=AliasChoices("RMHDAG_DATABASE_URL", "DATABASE_URL"),
        description="URL of the database, PostgreSQL 14 or newer; default: an embedded one in the data folder",
    )
    owner_database_url: PostgresUrl | None = Field(
        default=None,
        description="URL of the same database with the role that owns the schema, for `db migrate`, `db roles` and "
        "`up`; default: RMHDAG_DATABASE_URL",
    )
    postgis_host: str | None = Field(
        default=None,
        validation_alias=AliasChoices("POSTGIS_HOST"),
        description="Host of the database; with POSTGIS_DATABASE, instead of a URL",
    )
    postgis_port: int = Field(
        default=5432, ge=1, le=65535, validation_alias=AliasChoices("POSTGIS_PORT"), description="Port of that server"
    )
    postgis_database: str | None = Field(
        default=None, validation_alias=AliasChoices("POSTGIS_DATABASE"), description="Database on that server"
    )
    postgis_user: str | None = Field(
        default=None, validation_alias=AliasChoices("POSTGIS_USER"), description="User of that database"
    )
    postgis_password: str | None = Field(
        default=None, validation_alias=AliasChoices("POSTGIS_PASSWORD"), description="Password of that user"
    )
    schema_name: SchemaName = Field(
        default="dagapp",
        validation_alias=AliasChoices("RMHDAG_SCHEMA", "RMHDAG_SCHEMA_NAME"),
        description="Database schema for rmhdag's tables",
    )
    database_pooled: bool = Field(
        default=False,
        description="The database is behind a transaction pooler: use no LISTEN and no prepared statements",
    )

    @property
    def server_url(self) -> str | None:
        """URL of the configured server, from its URL or from its host and database; None means the embedded one."""
        if self.database_url or not (self.postgis_host and self.postgis_database):
            return self.database_url
        user = quote(self.postgis_user or "", safe="")
        password = f":{quote(self.postgis_password, safe='')}" if self.postgis_password else ""
        login = f"{user}{password}@" if user else ""
        return f"postgresql://{login}{self.postgis_host}:{self.postgis_port}/{quote(self.postgis_database, safe='')}"


class SecretConfiguration(SettingsGroup):
    """How secrets at rest are encrypted."""

    secret_key: SecretStr | None = Field(
        default=None,
        min_length=16,
        description="Passphrase that encrypts secret inputs, the same for all processes; default: the key file",
    )
    secret_key_file: Path | None = Field(
        default=None,
        description="File with a random key that encrypts secrets if no passphrase is set, the same for all "
        "machines; created if it does not exist. Default: `secret.key` in the data folder",
    )
    plain_secrets: bool = Field(
        default=False,
        description="Store secrets unencrypted if there is no passphrase and no key file can be created; otherwise "
        "they are refused",
    )


class RetentionConfiguration(SettingsGroup):
    """When old rows are deleted."""

    retention_days: Days = Field(
        default=30.0, description="Days after which a finished job is deleted with its nodes, results, events and logs"
    )
    retention_history_days: Days = Field(
        default=92.0,
        description="Days after which dead letters, events of orchestrators and invalid API keys are deleted",
    )
    retention_payload_days: PayloadDays = Field(
        default=1.0, description="Days after which a stored value that nothing refers to is deleted"
    )

    def retention(self) -> RetentionDays:
        from rmhdag.store.retention import RetentionDays

        return RetentionDays(self.retention_days, self.retention_history_days, self.retention_payload_days)
