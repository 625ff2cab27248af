"""PostgreSQL without an administrator: finds binaries, creates a data folder, starts, guards and stops the server."""

from rmhdag.embedded.binaries import ServerBinaries, debian_binaries, wheel_binaries
from rmhdag.embedded.choice import ExternalServer, ServerSettings, default_folder, find_server
from rmhdag.embedded.failure import EmbeddedPostgresError
from rmhdag.embedded.launcher import EmbeddedPostgres

__all__ = [
    "EmbeddedPostgres",
    "EmbeddedPostgresError",
    "ExternalServer",
    "ServerBinaries",
    "ServerSettings",
    "debian_binaries",
    "default_folder",
    "find_server",
    "wheel_binaries",
]
