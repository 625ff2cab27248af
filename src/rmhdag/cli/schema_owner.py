"""What only the owner of the schema does: bringing it up to date, and granting others what they need."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg

from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.failure import CommandFailed
from rmhdag.embedded import EmbeddedPostgres, ExternalServer

if TYPE_CHECKING:
    from rmhdag.store.migration import OnStep
    from rmhdag.store.plan import Plan
    from rmhdag.store.roles import Roles

Server = ExternalServer | EmbeddedPostgres


def migrate_schema(server: Server, schema: str, on_step: OnStep | None = None, *, actor: str) -> Plan:
    """Apply what is missing. On the embedded server the role of processes is given its rights as well: there is no
    administrator who would do it.
    """
    from rmhdag.store import migration
    from rmhdag.store.connection import connect
    from rmhdag.store.roles import are_granted, role_names

    made = migration.apply(server.owner_dsn(), schema, on_step, actor=actor)
    if isinstance(server, EmbeddedPostgres):
        with connect(server.owner_dsn(), "rmhdag:roles", autocommit=True) as conn:
            granted = are_granted(conn, schema, role_names())
        if not granted:
            grant_roles(server, schema, role_names(), actor=actor)
    return made


def grant_roles(server: Server, schema: str, names: Roles, *, actor: str) -> list[str]:
    """Returns the roles that were created."""
    from rmhdag.store.connection import connect
    from rmhdag.store.roles import RolesRefused, make_roles

    try:
        with connect(server.owner_dsn(), "rmhdag:roles", autocommit=True) as conn:
            return make_roles(conn, schema, names, actor=actor)
    except RolesRefused as error:
        raise CommandFailed(str(error), remedy=error.remedy, code=ExitCode.CONFLICT) from error
    except psycopg.errors.InsufficientPrivilege as error:
        raise CommandFailed(
            f"the owner of schema {schema} may not do this: {error.diag.message_primary}",
            remedy="Grant it CREATEROLE, or let an administrator run what `rmhdag db roles --print` shows.",
            code=ExitCode.CONFLICT,
        ) from error
