"""The gateway as a process of `rmhdag up --gateway`: its role, its keys and its address, all for development."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from rmhdag.cli.acting_name import who
from rmhdag.cli.api_process import NAMESPACE, PORTS_TRIED, listen_nearby, near_url
from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.failure import CommandFailed
from rmhdag.cli.run_api import address_of
from rmhdag.cli.settings import Settings, load_settings
from rmhdag.embedded import EmbeddedPostgres, ExternalServer
from rmhdag.machine.python import python_command
from rmhdag.models.scopes import Scope

# Keys of a gateway that was killed are of no use after this.
KEY_DAYS = 30.0
SANDBOX_CLIENT = "sandbox"


class GatewayPlace(NamedTuple):
    """Where the gateway listens, what its process is given, and a key with which partners can try it."""

    listener: socket.socket
    environment: Mapping[str, str]
    sandbox_key: str

    @property
    def url(self) -> str:
        return near_url(self.listener) or address_of(self.listener)

    def command(self, parent: int) -> list[str]:
        words = ["--parent", str(parent), "--listener", str(self.listener.fileno())]
        return python_command("rmhdag.cli", "gateway", *words)


@contextmanager
def gateway_place(
    server: ExternalServer | EmbeddedPostgres, settings: Settings, flags: Mapping[str, Any], api_url: str
) -> Iterator[GatewayPlace]:
    """What is set already is used as it is; the rest is made for this start, and its keys end with it."""
    import psycopg

    from rmhdag.cli.database import open_connection
    from rmhdag.store import api_keys

    database_url = settings.gateway_database_url or make_role(server, settings)
    is_default = load_settings(flags).origins["gateway_port"] == "default"
    maker = who(None)
    with listen_nearby(settings.gateway_host, settings.gateway_port, PORTS_TRIED if is_default else 1) as listener:
        with open_connection(server.app_dsn(), settings) as conn:
            keys = [
                api_keys.create_key(conn, name, scopes, created_by=maker, namespace=NAMESPACE, days=KEY_DAYS)
                for name, scopes in (("gateway", [Scope.GATEWAY]), (SANDBOX_CLIENT, [Scope.B2B, Scope.SANDBOX]))
            ]
        environment = {
            "RMHDAG_GATEWAY_DATABASE_URL": database_url,
            "RMHDAG_GATEWAY_KEY": keys[0].key
            if settings.gateway_key is None
            else settings.gateway_key.get_secret_value(),
            "RMHDAG_ORCHESTRATOR_URL": settings.orchestrator_url or api_url,
        }
        try:
            yield GatewayPlace(listener, environment, keys[1].key)
        finally:
            # A database that is gone lets nobody in either.
            with suppress(psycopg.Error), open_connection(server.app_dsn(), settings) as conn:
                for key in keys:
                    api_keys.revoke_key(conn, NAMESPACE, key.key_id, revoked_by=maker)


def make_role(server: ExternalServer | EmbeddedPostgres, settings: Settings) -> str:
    """The database as the gateway's role sees it: its views are made anew, and its password is known to nobody else."""
    from psycopg.conninfo import make_conninfo

    from rmhdag.cli.schema_owner import grant_roles
    from rmhdag.store.connection import connect
    from rmhdag.store.roles import role_names, set_password

    if not isinstance(server, EmbeddedPostgres):
        raise CommandFailed(
            "with a database of your own, `--gateway` needs RMHDAG_GATEWAY_DATABASE_URL",
            remedy="Create its role with `rmhdag db roles`, give it a password, and name the database with that role.",
            code=ExitCode.INVALID,
        )
    role, password = role_names().gateway, secrets.token_urlsafe(24)
    grant_roles(server, settings.schema_name, role_names(), actor=who(None))
    with connect(server.owner_dsn(), "rmhdag:roles", autocommit=True) as conn:
        set_password(conn, role, password)
    return make_conninfo(server.app_dsn(), user=role, password=password)
