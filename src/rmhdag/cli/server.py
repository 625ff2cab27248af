"""The database that a command works on: the one that is named, or the embedded one, started while it is needed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.failure import CommandFailed
from rmhdag.cli.output import mask_url, say
from rmhdag.cli.settings import Settings
from rmhdag.embedded import (
    EmbeddedPostgres,
    EmbeddedPostgresError,
    ExternalServer,
    ServerSettings,
    default_folder,
    find_server,
)


def data_folder(settings: Settings) -> Path:
    return settings.home or default_folder()


def choose_server(settings: Settings) -> ExternalServer | EmbeddedPostgres:
    if settings.url is not None and settings.server_url is None:
        raise CommandFailed(
            "this command works on the database, and only a server is named (RMHDAG_URL)",
            remedy="Set RMHDAG_DATABASE_URL beside it; or unset RMHDAG_URL to use an embedded PostgreSQL.",
            code=ExitCode.INVALID,
        )
    with explained(settings):
        return find_server(
            ServerSettings(
                settings.server_url, data_folder(settings), settings.owner_database_url, postgis=settings.postgis
            )
        )


def name_server(server: ExternalServer | EmbeddedPostgres) -> str:
    if isinstance(server, ExternalServer):
        return mask_url(server.dsn())
    return f"the embedded PostgreSQL in {server.folder}"


@contextmanager
def opened(settings: Settings) -> Iterator[tuple[str, str]]:
    """(URL of the role that works with the tables, name to show) of a running server; what we started is stopped in the
    end.
    """
    with opened_server(settings) as server:
        yield server.app_dsn(), name_server(server)


@contextmanager
def opened_server(settings: Settings) -> Iterator[ExternalServer | EmbeddedPostgres]:
    server = choose_server(settings)
    with explained(settings):
        if isinstance(server, EmbeddedPostgres) and not server.attach():
            say(f"starting {name_server(server)} for this command")
        with server:
            yield server


@contextmanager
def explained(settings: Settings) -> Iterator[None]:
    """Errors of connecting, as sentences; never with a password in them."""
    try:
        yield
    except EmbeddedPostgresError as error:
        raise CommandFailed(str(error), code=ExitCode.UNAVAILABLE) from error
    except psycopg.OperationalError as error:
        text = mask_url(" ".join(str(error).split()))
        where = mask_url(settings.server_url or "the embedded PostgreSQL")
        if "authentication failed" in text or "no password supplied" in text:
            raise CommandFailed(
                f"{where} does not let us in: {text}",
                remedy="Check user and password in RMHDAG_DATABASE_URL.",
                code=ExitCode.AUTHENTICATION,
            ) from error
        raise CommandFailed(
            f"{where} cannot be reached: {text}",
            remedy="Check that it runs and that RMHDAG_DATABASE_URL names it; `rmhdag doctor` tells more.",
            code=ExitCode.UNAVAILABLE,
        ) from error
