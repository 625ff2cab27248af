"""The one way to the platform: a client. What differs is where its requests go.

A server that is named is reached over HTTP, by a key. On the machine itself requests go to the API that `rmhdag up`
runs, and where none runs, to the API application inside the command; either way the command has all rights.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from types import ModuleType
from typing import cast
from urllib.parse import urlsplit

import httpx

from rmhdag.cli.acting_name import who
from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.failure import CommandFailed
from rmhdag.cli.handler_modules import describe_handlers
from rmhdag.cli.local_door import Door, find_door
from rmhdag.cli.operations import Operations
from rmhdag.cli.patience import noticed
from rmhdag.cli.plain_http import warn_of_plain_http
from rmhdag.cli.settings import Loaded, Settings, load_settings
from rmhdag.client import Client
from rmhdag.models.local_callers import local_headers, new_local_secret
from rmhdag.workflow.known_handlers import HandlerEntry, shipped_handlers

NAMESPACE = "default"
IN_PROCESS_URL = "http://in-process"
# One command asks one thing after the other.
CONNECTIONS = 2
STATEMENT_SECONDS = 30.0
PATIENCE_SECONDS = 5.0


@contextmanager
def connected(
    url: str | None = None,
    database_url: str | None = None,
    schema: str | None = None,
    *,
    namespace: str | None = None,
    name: str | None = None,
    submits: bool = False,
    ships: bool = False,
) -> Iterator[Operations]:
    """The server, if one is named, else the database. What is named on the command line counts before the rest.

    `name` is in whose name things are done, if it is not the caller's own; `submits` if a server may be asked for that.
    `ships` if the workflows that come with rmhdag are registered: whatever is there in their place is replaced.
    """
    if url is not None and (database_url is not None or schema is not None):
        raise CommandFailed(
            "--url names a server, --database-url and --schema a database: give one of the two", code=ExitCode.USAGE
        )
    loaded = load_settings({"url": url, "database_url": database_url, "schema_name": schema})
    if loaded.settings.url is not None and database_url is None:
        if ships:
            raise CommandFailed(
                "--shipped works with the database: its queues are named by the settings beside it",
                remedy="Run it where the orchestrators' settings are, without --url and RMHDAG_URL.",
                code=ExitCode.USAGE,
            )
        with over_http(loaded, namespace, name, submits=submits) as far:
            yield far
    else:
        with on_this_machine(loaded.settings, namespace, name, ships=ships) as near:
            yield near


@contextmanager
def over_http(loaded: Loaded, namespace: str | None, name: str | None, *, submits: bool) -> Iterator[Operations]:
    """Everything is in the namespace of the key, and in the name of its holder."""
    settings = loaded.settings
    assert settings.url is not None
    if "key" in loaded.withheld:
        raise CommandFailed(
            loaded.withheld["key"],
            remedy="Name the server by RMHDAG_URL or --url, or the file by RMHDAG_CONFIG, if you trust it.",
            code=ExitCode.AUTHENTICATION,
        )
    if name is not None and not submits:
        raise CommandFailed(
            "a server identifies you by your API key: --as works on the machine of the database only, "
            "and for submit with the scope admin",
            code=ExitCode.USAGE,
        )
    key = None if settings.key is None else settings.key.get_secret_value()
    if key is not None:
        warn_of_plain_http(settings.url)
    with Client(settings.url, key) as client:
        platform = Operations(client, settings, server_name(settings.url), submitted_by=name)
        with platform.explained():
            if namespace is not None:
                platform.require_namespace(namespace)
            yield platform


@contextmanager
def on_this_machine(
    settings: Settings, namespace: str | None, name: str | None, *, ships: bool = False
) -> Iterator[Operations]:
    """By the API of `rmhdag up`, or by one in this process. An embedded server that is not running is started for the
    command, as `rmhdag db` does it.
    """
    door = None if ships else find_door(settings)
    if door is not None:
        with through(door, settings, namespace, name) as platform:
            yield platform
        return
    # structlog would import Rich, to colour tracebacks, which takes 50 ms; it does without where that is not possible.
    sys.modules.setdefault("rich", cast(ModuleType, None))
    from rmhdag.cli.database import CONNECT_SECONDS, migrated, open_connection
    from rmhdag.cli.schema_version import require_version
    from rmhdag.cli.server import explained, opened

    with opened(settings) as (dsn, where), explained(settings), migrated(settings, where):
        with noticed(f"waiting for {where} (at most {CONNECT_SECONDS} s)"):
            conn = open_connection(dsn, settings)
        with conn:
            require_version(conn, settings, where)
        with inside(dsn, settings, where, namespace, name, ships=ships) as platform:
            yield platform


@contextmanager
def through(door: Door, settings: Settings, namespace: str | None, name: str | None) -> Iterator[Operations]:
    headers = local_headers(namespace or NAMESPACE, who(name))
    # A transport of our own, past any proxy that the environment names: the secret is for this machine alone. It is
    # reached over plain HTTP, so that no certificates are loaded, which takes 20 ms.
    with Client(door.url, door.secret, transport=httpx.HTTPTransport(verify=False), headers=headers) as client:
        platform = Operations(client, settings, door.url, is_local=True)
        with platform.explained():
            yield platform


@contextmanager
def inside(
    dsn: str,
    settings: Settings,
    where: str,
    namespace: str | None = None,
    name: str | None = None,
    own: Sequence[HandlerEntry] | None = None,
    *,
    ships: bool = False,
) -> Iterator[Operations]:
    """The API application in this process, on a database that is there.

    `own` are handlers that workers will have; else those of the modules that the settings name.
    """
    if ships:
        # They fit our handlers, whatever older workers have.
        settings, own = settings.model_copy(update={"development": True}), list(shipped_handlers().entries())
    from rmhdag.cli.in_process import in_process
    from rmhdag.cli.run_api import api_settings

    secret = new_local_secret()
    options = replace(
        api_settings(dsn, settings),
        connections=CONNECTIONS,
        statement_seconds=STATEMENT_SECONDS,
        patience_seconds=PATIENCE_SECONDS,
        check_processes=None,
        checks_ready=False,
        oidc=None,
        local_secret=secret,
        own_handlers=cache(lambda: describe_handlers(settings.handlers) if own is None else own),
    )
    headers = local_headers(namespace or NAMESPACE, who(name))
    with (
        in_process(options) as transport,
        Client(IN_PROCESS_URL, secret, transport=transport, headers=headers) as client,
    ):
        platform = Operations(client, settings, where, is_local=True)
        with platform.explained():
            yield platform


def server_name(url: str) -> str:
    """Without a password, should there be one."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname}" + (f":{parts.port}" if parts.port else "")
