"""What only the owner of the schema does: bringing it up to date, and granting others what they need."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg

from rmhdag.cli.database import open_connection
from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.failure import CommandFailed
from rmhdag.cli.schema_check import note_migrated
from rmhdag.cli.seeds import write_seeds
from rmhdag.cli.settings import Settings
from rmhdag.embedded import EmbeddedPostgres, ExternalServer
from rmhdag.store import migration
from rmhdag.store.connection import connect
from rmhdag.store.roles import RolesRefused, are_granted, make_roles, role_names

if TYPE_CHECKING:
    from rmhdag.store.migration import OnStep
    from rmhdag.store.migration_steps import MigrationSteps
    from rmhdag.store.roles import Roles

Server = ExternalServer | EmbeddedPostgres


def migrate_schema(server: Server, settings: Settings, on_step: OnStep | None = None, *, actor: str) -> MigrationSteps:
    """Apply what is missing, and write the platforms of the settings. On the embedded server the role of processes is
    given its rights as well: there is no administrator who would do it.
    """
    schema = settings.schema_name
    steps = migration.apply(server.owner_dsn(), schema, on_step, actor=actor)
    if isinstance(server, EmbeddedPostgres):
        with connect(server.owner_dsn(), "rmhdag:roles", autocommit=True) as conn:
            granted = are_granted(conn, schema, role_names())
        if not granted:
            grant_roles(server, schema, role_names(), actor=actor)
    with open_connection(server.owner_dsn(), settings) as conn:
        write_seeds(conn, settings)
    note_migrated(server.owner_dsn(), settings)
    return steps


def grant_roles(server: Server, schema: str, names: Roles, *, actor: str) -> list[str]:
    """Returns the roles that were created."""
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
