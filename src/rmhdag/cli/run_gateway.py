"""`rmhdag gateway`: the gateway for business partners until SIGTERM or Ctrl-C."""

from __future__ import annotations

import json
import os
import socket
from typing import Annotated

import typer

from rmhdag.cli.lifeline import die_with
from rmhdag.cli.observation import observed
from rmhdag.cli.options import SchemaOption
from rmhdag.cli.output import say, warn
from rmhdag.cli.plain_http import warn_of_open_listener
from rmhdag.cli.run_api import address_of, listen
from rmhdag.cli.run_orchestrator import ParentOption
from rmhdag.cli.settings import Settings, load_settings
from rmhdag.embedded.choice import default_folder
from rmhdag.machine.memory import give_memory_back
from rmhdag.models.catalogue import CatalogueKind
from rmhdag.serving.announcement import running_url
from rmhdag.serving.service_kinds import templates_at


def register(app: typer.Typer) -> None:
    app.command(short_help="Serve the gateway for business partners.")(gateway)


def gateway(
    host: Annotated[
        str | None,
        typer.Option("--host", metavar="ADDRESS", help="Address to listen on (default: RMHDAG_GATEWAY_HOST)."),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option("--port", min=0, max=65535, help="Port (default: RMHDAG_GATEWAY_PORT); 0 chooses a free one."),
    ] = None,
    listener: Annotated[
        int | None, typer.Option("--listener", hidden=True, help="A descriptor that listens already.")
    ] = None,
    parent: ParentOption = None,
    schema: SchemaOption = None,
) -> None:
    """Serve the gateway until SIGTERM or Ctrl-C. It reads a few views of the database with a role that cannot write,
    and forwards orders and decisions to the HTTP API with a key of its own.

    \b
    Examples:
      rmhdag db roles
      rmhdag keys create gateway --scope gateway
      RMHDAG_GATEWAY_KEY=rmhdag_… RMHDAG_ORCHESTRATOR_URL=http://127.0.0.1:8700 rmhdag gateway

    To try it, `rmhdag up --gateway` starts one with all that it needs.

    RMHDAG_GATEWAY_DATABASE_URL names the database with the role that `rmhdag db roles` creates. Until database and API
    answer, /readyz says what is missing, and nothing else is served. It does not support TLS: keep it on loopback
    behind a proxy with TLS.
    """
    from rmhdag.gateway.server import serve

    if parent is not None:
        die_with(parent)
    settings = with_service_urls(
        load_settings({"schema_name": schema, "gateway_host": host, "gateway_port": port}).settings
    )
    with observed(settings, "rmhdag-gateway"), opened(settings, listener) as place:
        warn_of_open_listener(place.getsockname()[0])
        for name in settings.missing_variables():
            warn(f"{name} is not set: the gateway serves only /livez and /readyz")
        say(f"gateway (process {os.getpid()}) listens on {address_of(place)}")
        give_memory_back()
        pooled, days = settings.database_pooled, settings.retention_days
        serve(settings, settings.schema_name, place, pooled=pooled, retention_days=days)
    say("stopped")


def opened(settings: Settings, descriptor: int | None) -> socket.socket:
    if descriptor is not None:
        return socket.socket(fileno=descriptor)
    return listen(settings.gateway_host, settings.gateway_port)


def with_service_urls(settings: Settings) -> Settings:
    """Addresses of services lead to `rmhdag serve`, where it runs or is named, unless the settings say otherwise."""
    url = settings.serve_public_url or running_url(settings.home or default_folder())
    if url is None:
        return settings
    templates = templates_at(url.rstrip("/"), stac=settings.catalogue is CatalogueKind.PGSTAC)
    named = settings.service_templates()
    merged = {kind: templates.get(kind, {}) | named.get(kind, {}) for kind in {*templates, *named}}
    return settings.model_copy(update={"service_urls": json.dumps(merged)})
