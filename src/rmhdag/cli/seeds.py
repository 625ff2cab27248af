"""Rows that come from the settings."""

from __future__ import annotations

from rmhdag.assets.identity import Platforms, read_platforms
from rmhdag.cli.settings import Settings
from rmhdag.services.platforms import seed_platforms
from rmhdag.store.connection import Conn


def write_seeds(conn: Conn, settings: Settings) -> None:
    """The platforms of the settings as rows of the registry. It is safe to repeat, and keeps what a person has set."""
    seed_platforms(conn, Platforms(read_platforms(settings.platforms)))
