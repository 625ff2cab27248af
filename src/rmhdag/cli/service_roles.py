"""`rmhdag db roles --services`: the roles of `rmhdag serve`, made or shown as SQL."""

from __future__ import annotations

import psycopg

from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.failure import CommandFailed
from rmhdag.cli.output import emit, emit_json, say
from rmhdag.cli.schema_owner import Server
from rmhdag.cli.server import name_server, opened_server
from rmhdag.cli.settings import Settings
from rmhdag.serving.roles import SCHEMAS, RoleRefused, ServiceRoles, make_role, missing_parts, script, service_roles
from rmhdag.store.connection import connect
from rmhdag.store.roles import role_names

MEANINGS = {
    "stac": "the STAC API of `rmhdag serve` (RMHDAG_STAC_DATABASE_URL): reads schema pgstac, nothing else",
    "features": "OGC features of `rmhdag serve` (RMHDAG_FEATURES_DATABASE_URL): reads schema geo, nothing else",
}


def create_service_roles(settings: Settings, prefix: str, *, print_only: bool, as_json: bool) -> None:
    try:
        role_names(prefix)
    except ValueError as error:
        raise CommandFailed(str(error), code=ExitCode.USAGE) from None
    names = service_roles(prefix)
    if print_only:
        emit(script(names))
        return
    with opened_server(settings) as server:
        created, reasons = make_roles(server, names)
        where = name_server(server)
    if as_json:
        emit_json({"database": where, "roles": names._asdict(), "created": created, "left_out": reasons})
        return
    for kind, role in names._asdict().items():
        if kind not in reasons:
            emit(f"{role}{' (new)' if role in created else ''}: {MEANINGS[kind]}\n")
    for kind, reason in reasons.items():
        say(f"{prefix}_{kind} is left out: {reason}")
    if created:
        say("New roles have no password yet: give each one with `\\password ROLE` in psql.")


def make_roles(server: Server, names: ServiceRoles) -> tuple[list[str], dict[str, str]]:
    """The roles that were created, and why others were left out."""
    try:
        with connect(server.owner_dsn(), "rmhdag:roles", autocommit=True) as conn:
            reasons = missing_parts(conn)
            services = [service for service in SCHEMAS if service not in reasons]
            created = [names.of(service) for service in services if make_role(conn, service, names)]
    except RoleRefused as error:
        raise CommandFailed(str(error), code=ExitCode.CONFLICT) from error
    except psycopg.errors.InsufficientPrivilege as error:
        raise CommandFailed(
            f"this role may not do it: {error.diag.message_primary}",
            remedy="Let an administrator run what `rmhdag db roles --services --print` shows.",
            code=ExitCode.CONFLICT,
        ) from error
    return created, {service.value: reason for service, reason in reasons.items()}
