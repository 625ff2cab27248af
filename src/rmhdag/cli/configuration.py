"""Settings of the command line itself: the server that commands use instead of a database."""

from __future__ import annotations

from pydantic import AliasChoices, Field, SecretStr

from rmhdag.models.setting_types import SettingsGroup, WebUrl


class CommandConfiguration(SettingsGroup):
    """Workers without a database use the same server and key."""

    url: WebUrl | None = Field(
        default=None, description="URL of a server; commands for jobs and workflows use it instead of a database"
    )
    key: SecretStr | None = Field(
        default=None,
        validation_alias=AliasChoices("RMHDAG_KEY", "RMHDAG_API_KEY"),
        description="API key that commands and workers send to a server",
    )
