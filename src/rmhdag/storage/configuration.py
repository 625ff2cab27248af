"""Settings of blob storage: where the zones are, how to reach them, and who shares their containers."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, AliasChoices, Field

from rmhdag.models.records import Zone
from rmhdag.models.setting_types import SettingsGroup
from rmhdag.storage.errors import StorageError
from rmhdag.storage.namespaces import Access, check_shares
from rmhdag.storage.settings import (
    OPTIONS_VARIABLE,
    ROOT_VARIABLE,
    SHARES_VARIABLE,
    ZONE_VARIABLES,
    StorageSettings,
    split_option,
)


def refuse_unusable(url: str) -> str:
    """A URL with credentials is refused: they would be shown wherever a file is named."""
    if not re.fullmatch(r"/[^\x00-\x1f]*|(file://(localhost)?/|az://|s3://)[^\s@?#]*", url):
        raise ValueError(
            "give a folder from / down, file://…, az://account/container or s3://bucket, and no credentials"
        )
    return url


def refuse_unknown_options(options: dict[str, str]) -> dict[str, str]:
    for name in options:
        try:
            split_option(name)
        except StorageError as error:
            raise ValueError(str(error)) from None
    return options


def refuse_wrong_shares(shares: dict[str, dict[str, str]]) -> dict[str, dict[str, Access]]:
    try:
        return check_shares(shares)
    except StorageError as error:
        raise ValueError(str(error)) from None


StorageUrl = Annotated[str, AfterValidator(refuse_unusable)]
StorageShares = Annotated[dict[str, dict[str, str]], AfterValidator(refuse_wrong_shares)]
StorageOptions = Annotated[dict[str, str], AfterValidator(refuse_unknown_options)]


class StorageConfiguration(SettingsGroup):
    """A zone is a folder of the storage, or has a URL of its own."""

    storage: StorageUrl | None = Field(
        default=None,
        validation_alias=AliasChoices(ROOT_VARIABLE),
        description="Blob storage: a folder, file://, az:// or s3:// with the folders bronze, silver and gold",
    )
    storage_bronze: StorageUrl | None = Field(
        default=None,
        validation_alias=AliasChoices(ZONE_VARIABLES[Zone.BRONZE]),
        description="Zone bronze, if elsewhere",
    )
    storage_silver: StorageUrl | None = Field(
        default=None,
        validation_alias=AliasChoices(ZONE_VARIABLES[Zone.SILVER]),
        description="Zone silver, if elsewhere",
    )
    storage_gold: StorageUrl | None = Field(
        default=None, validation_alias=AliasChoices(ZONE_VARIABLES[Zone.GOLD]), description="Zone gold, if elsewhere"
    )
    storage_options: StorageOptions = Field(
        default_factory=dict,
        validation_alias=AliasChoices(OPTIONS_VARIABLE),
        description='Storage keys and endpoints: {"azure_account_key": "…", "silver.aws_region": "eu-central-1"}',
    )
    storage_shares: StorageShares = Field(
        default_factory=dict,
        validation_alias=AliasChoices(SHARES_VARIABLE),
        description="Containers of namespace default that other namespaces may `read` or `write`; `*` is every "
        'namespace: {"alpha": {"bronze/reference": "read"}}',
    )

    def storage_settings(self) -> StorageSettings:
        zones = {Zone.BRONZE: self.storage_bronze, Zone.SILVER: self.storage_silver, Zone.GOLD: self.storage_gold}
        urls = {zone: url for zone, url in zones.items() if url is not None}
        return StorageSettings(self.storage, urls, self.storage_options, check_shares(self.storage_shares))
