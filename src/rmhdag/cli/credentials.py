"""Credentials that are withheld because another source names their destination, and settings that may be shown."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rmhdag.cli.output import mask_url
from rmhdag.cli.settings_files import CONFIG_VARIABLE, LOCAL_FILE
from rmhdag.storage.settings import OPEN_OPTIONS, split_option

# What lets us in, and where it is sent.
SENT_TO = {"key": "url", "postgis_password": "postgis_host", "gateway_key": "orchestrator_url"}
# They only sound so: kinds of tokens, and the place of a secret.
NOT_SECRET = frozenset({"oidc_token_types", "secret_key_file"})


def find_withheld(origins: Mapping[str, str]) -> dict[str, str]:
    """A file in the current folder may be anybody's: what comes from elsewhere is not sent to where it points."""
    if os.environ.get(CONFIG_VARIABLE):
        return {}
    local = f"file {LOCAL_FILE}"
    return {
        secret: f"{place} comes from {LOCAL_FILE} in the current folder and {secret} from elsewhere "
        f"({origins[secret]}), so {secret} is not sent"
        for secret, place in SENT_TO.items()
        if origins[place] == local and origins[secret] not in (local, "default")
    }


def find_shown_password(flags: Mapping[str, Any]) -> list[str]:
    url = str(flags.get("database_url", ""))
    if mask_url(url) == url:
        return []
    warning = (
        "the password in --database-url can be read in the list of processes and in the shell's history; set the "
        "URL in RMHDAG_DATABASE_URL or a settings file, or put the password into ~/.pgpass"
    )
    return [warning]


def show(field: str, value: object) -> object:
    """A value as it may appear on a screen."""
    if value is None:
        return None
    if field == "storage_options" and isinstance(value, dict):
        return {name: text if split_option(name)[1] in OPEN_OPTIONS else "***" for name, text in value.items()}
    sounds_secret = any(word in field for word in ("password", "secret", "token", "connection_string"))
    if field in ("key", "gateway_key") or (sounds_secret and field not in NOT_SECRET):
        return "***"
    return mask_url(str(value)) if isinstance(value, str | Path) else value
