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
from rmhdag.store.vault import SecretUnreadable


def data_folder(settings: Settings) -> Path:
    return settings.home or default_folder()


def choose_server(settings: Settings) -> ExternalServer | EmbeddedPostgres:
    if settings.url is not None and settings.server_url is None:
        raise CommandFailed(
            "this command needs a database connection, but only RMHDAG_URL (an HTTP server) is configured",
            remedy="Also set RMHDAG_DATABASE_URL, or unset RMHDAG_URL to use an embedded PostgreSQL.",
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


def postgis_dsn(settings: Settings, server: ExternalServer | EmbeddedPostgres) -> str | None:
    """The data database: the configured one, or an embedded server with PostGIS; None if there is none."""
    if settings.postgis_url is not None:
        return settings.postgis_url.get_secret_value()
    return server.data_dsn() if isinstance(server, EmbeddedPostgres) else None


@contextmanager
def explained(settings: Settings) -> Iterator[None]:
    """Errors of connecting, as sentences; never with a password in them."""
    try:
        yield
    except EmbeddedPostgresError as error:
        raise CommandFailed(str(error), code=ExitCode.UNAVAILABLE) from error
    except SecretUnreadable as error:
        raise CommandFailed(str(error), remedy="`rmhdag doctor` shows it too.", code=ExitCode.UNAVAILABLE) from error
    except psycopg.OperationalError as error:
        text = mask_url(" ".join(str(error).split()))
        where = mask_url(settings.server_url or "the embedded PostgreSQL")
        if "authentication failed" in text or "no password supplied" in text:
            raise CommandFailed(
                f"{where} refuses the login: {text}",
                remedy="Check user and password in RMHDAG_DATABASE_URL.",
                code=ExitCode.AUTHENTICATION,
            ) from error
        raise CommandFailed(
            f"{where} cannot be reached: {text}",
            remedy="Check that it is running and that RMHDAG_DATABASE_URL is correct.",
            code=ExitCode.UNAVAILABLE,
        ) from error
