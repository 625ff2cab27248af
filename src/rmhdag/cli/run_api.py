"""`rmhdag api`: the HTTP API until SIGTERM or Ctrl-C; any number may run beside any number of orchestrators."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

import typer

from rmhdag.assets.identity import Platforms, read_platforms
from rmhdag.cli.callback_settings import callback_settings
from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.failure import CommandFailed
from rmhdag.cli.lifeline import die_with
from rmhdag.cli.local_door import read_secret
from rmhdag.cli.observation import observed
from rmhdag.cli.options import SchemaOption, UrlOption
from rmhdag.cli.output import say
from rmhdag.cli.plain_http import warn_of_open_listener
from rmhdag.cli.run_orchestrator import ParentOption
from rmhdag.cli.settings import Settings, load_settings
from rmhdag.machine.memory import give_memory_back

if TYPE_CHECKING:
    from rmhdag.api.context import ApiSettings
    from rmhdag.api.oidc import OidcSettings

BACKLOG = 2048


def register(app: typer.Typer) -> None:
    app.command(short_help="Serve the HTTP API.")(api)


def api(
    host: Annotated[
        str | None, typer.Option("--host", metavar="ADDRESS", help="Address to listen on (default: RMHDAG_API_HOST).")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option("--port", min=0, max=65535, help="Port (default: RMHDAG_API_PORT); 0 chooses a free one."),
    ] = None,
    parent: ParentOption = None,
    listener: Annotated[
        int | None, typer.Option("--listener", hidden=True, help="A descriptor that listens already.")
    ] = None,
    door: Annotated[
        Path | None, typer.Option("--door", hidden=True, help="The file by which local commands are let in.")
    ] = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """Serve the HTTP API until SIGTERM or Ctrl-C. It makes no decisions: you can start and stop orchestrators
    independently.

    \b
    Examples:
      rmhdag api
      rmhdag api --host 127.0.0.1 --port 8701

    It does not support TLS: keep it on loopback behind a proxy with TLS.
    """
    from rmhdag.cli.database import migrated
    from rmhdag.cli.server import explained, name_server, opened_server, postgis_dsn

    if parent is not None:
        die_with(parent)
    flags = {"database_url": database_url, "schema_name": schema, "api_host": host, "api_port": port}
    settings = load_settings(flags).settings
    with (
        observed(settings, "rmhdag-api"),
        opened_server(settings) as server,
        explained(settings),
        migrated(settings, name_server(server)),
    ):
        dsn, name = server.app_dsn(), name_server(server)
        prepare_if_reachable(dsn, settings, name)
        secret = None if door is None else read_secret(door)
        configuration = replace(api_settings(dsn, settings), owner_dsn=server.owner_dsn(), local_secret=secret)
        configuration = replace(configuration, has_postgis=postgis_dsn(settings, server) is not None)
        open_socket = (
            listen(settings.api_host, settings.api_port) if listener is None else socket.socket(fileno=listener)
        )
        warn_of_open_listener(open_socket.getsockname()[0])
        say(f"api (process {os.getpid()}) listens on {address_of(open_socket)} and works on {name}")
        serve(configuration, open_socket, settings, name)
    say("stopped")


def prepare_if_reachable(dsn: str, settings: Settings, name: str) -> None:
    """An API may start before its database: it answers 503 until that is there."""
    import psycopg

    from rmhdag.cli.database import open_connection
    from rmhdag.cli.schema_version import prepare_database

    with suppress(psycopg.OperationalError), open_connection(dsn, settings) as conn:
        prepare_database(conn, settings, name)


def api_settings(dsn: str, settings: Settings) -> ApiSettings:
    from rmhdag.api.context import ApiSettings

    return ApiSettings(
        dsn=dsn,
        schema_name=settings.schema_name,
        pooled=settings.database_pooled,
        notify=settings.notify,
        orphan_seconds=settings.orphan_seconds,
        development=settings.development,
        queues=frozenset(queue for queue in (settings.dag_worker_queue, settings.worker_queue) if queue),
        fallback_queue=settings.dag_worker_queue,
        template_names=frozenset(settings.template_names()),
        job_queue_name=settings.job_queue_name,
        callbacks=callback_settings(settings),
        platforms=Platforms(read_platforms(settings.platforms)),
        storage=settings.storage_settings(),
        retention=settings.retention(),
        quotas=settings.quota_defaults(),
        client_quotas=settings.client_quota_defaults(),
        submits_per_second=settings.submits_per_second,
        requests_per_second=settings.requests_per_second,
        check_processes=settings.check_processes,
        checks_ready=True,
        header_seconds=settings.api_header_seconds,
        body_seconds=settings.api_body_seconds,
        oidc=oidc_settings(settings),
        partner_issuers=partner_issuers(settings),
        max_listeners=settings.api_listeners,
        max_listeners_per_key=settings.api_listeners_per_key,
        origins=frozenset(settings.api_origins.split()),
        hosts=known_hosts(settings),
        public_url=settings.public_url,
        environment=settings.environment or ("development" if settings.development else ""),
    )


def known_hosts(settings: Settings) -> frozenset[str]:
    """Under which browsers may reach us, besides loopback."""
    named = [host.strip().lower() for host in settings.api_hosts.split(",") if host.strip()]
    public = urlsplit(settings.public_url or "").netloc.lower()
    return frozenset([*named, public] if public else named)


def oidc_settings(settings: Settings) -> OidcSettings | None:
    """None if no issuer is named; what is half configured would let nobody in, or everybody."""
    if settings.oidc_issuer is None:
        return None
    if not settings.oidc_audience or not settings.oidc_role_scopes:
        raise CommandFailed(
            "an OIDC issuer is configured, but not its audience or the scopes of its roles",
            remedy="Set RMHDAG_OIDC_AUDIENCE and RMHDAG_OIDC_ROLE_SCOPES too, or unset RMHDAG_OIDC_ISSUER.",
            code=ExitCode.INVALID,
        )
    return issuer_settings(
        settings,
        settings.oidc_issuer,
        settings.oidc_audience,
        jwks_url=settings.oidc_jwks_url,
        role_claim=settings.oidc_role_claim,
        role_scopes={role: frozenset(scopes) for role, scopes in settings.oidc_role_scopes.items()},
        name_claim=settings.oidc_name_claim,
        namespace=settings.oidc_namespace,
        namespace_claim=settings.oidc_namespace_claim,
        client_id=settings.oidc_client_id,
        client_secret=None if settings.oidc_client_secret is None else settings.oidc_client_secret.get_secret_value(),
        sign_in_scopes=settings.oidc_sign_in_scopes,
        sign_in_label=settings.oidc_sign_in_label,
        session_hours=settings.oidc_session_hours,
    )


def partner_issuers(settings: Settings) -> tuple[OidcSettings, ...]:
    """What their tokens are worth, the clients of the gateway say and not their roles."""
    return tuple(
        issuer_settings(settings, issuer, audience, role_scopes={})
        for issuer, audience in settings.partner_issuers.items()
    )


def issuer_settings(settings: Settings, issuer: str, audience: str, **more: Any) -> OidcSettings:
    from rmhdag.api.oidc import OidcSettings

    return OidcSettings(
        issuer=issuer,
        audience=audience,
        algorithms=tuple(settings.oidc_algorithms),
        token_types=tuple(settings.oidc_token_types),
        **more,
    )


def listen(host: str, port: int) -> socket.socket:
    """Before anything else is loaded, so that a port that is taken is told at once."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(BACKLOG)
        except OSError:
            listener.close()
            raise
    except OSError as error:
        raise CommandFailed(
            f"cannot listen on {host}:{port}: {error.strerror or error}",
            remedy="Choose another one with --host and --port, or with RMHDAG_API_HOST and RMHDAG_API_PORT.",
            code=ExitCode.UNAVAILABLE,
        ) from error
    return listener


def address_of(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def serve(configuration: ApiSettings, listener: socket.socket, settings: Settings, name: str) -> None:
    from rmhdag.api.application import build
    from rmhdag.api.server import ApiServer
    from rmhdag.cli.schema_version import version_watched

    give_memory_back()
    server = ApiServer(build(configuration))

    def stop() -> None:
        server.should_exit = True

    with version_watched(configuration.dsn, settings, name, stop):
        server.run(sockets=[listener])
