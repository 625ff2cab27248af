"""`rmhdag serve`: STAC, OGC features and tiles behind one port until SIGTERM or Ctrl-C."""

from __future__ import annotations

from typing import Annotated

import typer

from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.failure import CommandFailed
from rmhdag.cli.lifeline import die_with
from rmhdag.cli.observation import observed
from rmhdag.cli.options import SchemaOption, UrlOption
from rmhdag.cli.output import say
from rmhdag.cli.run_orchestrator import ParentOption
from rmhdag.cli.settings import load_settings
from rmhdag.serving.environment import EnvironmentMissing, ensure_python


def register(app: typer.Typer) -> None:
    app.command(short_help="Serve STAC, OGC features and tiles.")(serve)


def serve(
    host: Annotated[
        str | None, typer.Option("--host", metavar="ADDRESS", help="Address to listen on (default: RMHDAG_SERVE_HOST).")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option("--port", min=0, max=65535, help="Port (default: RMHDAG_SERVE_PORT); 0 chooses a free one."),
    ] = None,
    install: Annotated[bool, typer.Option("--install", help="Only install the services, and exit.")] = False,
    parent: ParentOption = None,
    listener: Annotated[
        int | None, typer.Option("--listener", hidden=True, help="A descriptor that listens already.")
    ] = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """Serve published data until SIGTERM or Ctrl-C: a STAC API at /stac, OGC features and vector tiles at /features,
    raster tiles at /tiles, and files at /files. These are the services of the field (stac-fastapi-pgstac, tipg and
    titiler), each in a process of its own, read-only, restarted if it ends. The first start installs them.

    \b
    Examples:
      rmhdag serve
      rmhdag serve --port 8901
      rmhdag serve --install
      rmhdag up --serve

    What the database does not have is not served, and the reason is shown: /stac needs pgSTAC, /features needs PostGIS.
    Everybody who reaches the port can read everything that is served: keep it on loopback behind a proxy with TLS that
    decides who may.
    """
    if parent is not None:
        die_with(parent)
    flags = {"database_url": database_url, "schema_name": schema, "serve_host": host, "serve_port": port}
    settings = load_settings(flags).settings
    try:
        python = ensure_python(say)
    except EnvironmentMissing as error:
        raise CommandFailed(str(error), code=ExitCode.UNAVAILABLE) from error
    if install:
        say(f"the services are installed in {python.parent.parent.resolve()}")
        return
    from rmhdag.cli.service_processes import run_until_stopped

    with observed(settings, "rmhdag-services"):
        run_until_stopped(settings, python, listener)
    say("stopped")
