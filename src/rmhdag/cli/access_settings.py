"""Settings for who is let in, and with which rights."""

from __future__ import annotations

from pathlib import Path

from pydantic import AliasChoices, Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from rmhdag.cli.setting_types import PostgresUrl


class AccessSettings(BaseSettings):
    """What belongs to the database's owner is read by the commands that change the schema, and by nobody else."""

    model_config = SettingsConfigDict(populate_by_name=True)

    owner_database_url: PostgresUrl | None = Field(
        default=None,
        validation_alias=AliasChoices("RMHDAG_OWNER_DATABASE_URL"),
        description="The same database as the role that owns the schema, for `db migrate`, `db roles` and `up`; "
        "without it, RMHDAG_DATABASE_URL is the owner's",
    )
    secret_key_file: Path | None = Field(
        default=None,
        validation_alias=AliasChoices("RMHDAG_SECRET_KEY_FILE"),
        description="File with a random key that seals secrets where no passphrase is set, the same for all machines; "
        "made if it is not there. Beside an embedded database it is `secret.key` in the data folder",
    )
    oidc_token_types: list[str] = Field(
        default=["at+jwt", "JWT"],
        min_length=1,
        validation_alias=AliasChoices("RMHDAG_OIDC_TOKEN_TYPES"),
        description="Types of access tokens that are taken, as in their header `typ`; `none` stands for no type. "
        "ID tokens are always refused",
    )
    api_hosts: str = Field(
        default="",
        pattern=r"^[A-Za-z0-9._:,\[\] -]*$",
        validation_alias=AliasChoices("RMHDAG_API_HOSTS"),
        description="Host names, separated by commas, under which browsers reach the API; besides loopback and the "
        "host of RMHDAG_PUBLIC_URL",
    )
