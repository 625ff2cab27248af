"""`rmhdag db roles`: roles with no more rights than their processes need, made or shown as SQL."""

from __future__ import annotations

from typing import Annotated

import typer

from rmhdag.cli.acting_name import who
from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.failure import CommandFailed
from rmhdag.cli.options import JsonOption, SchemaOption, UrlOption
from rmhdag.cli.output import emit, emit_json, say
from rmhdag.cli.settings import load_settings

MEANINGS = {
    "app": "orchestrators, workers, API and commands (RMHDAG_DATABASE_URL): reads and writes rows",
    "reader": "reports and dashboards: reads every table",
    "gateway": "a gateway in front of the API: reads the views dag_gateway_*, nothing else",
}


def roles(
    print_only: Annotated[bool, typer.Option("--print", help="Show the SQL and change nothing.")] = False,
    prefix: Annotated[
        str,
        typer.Option("--prefix", metavar="NAME", help="Prefix of the role names: NAME_app, NAME_reader, NAME_gateway."),
    ] = "rmhdag",
    services: Annotated[
        bool, typer.Option("--services", help="Create the roles of `rmhdag serve` instead: NAME_stac, NAME_features.")
    ] = False,
    as_json: JsonOption = False,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """Create the database roles app, reader and gateway, and grant their rights. It is safe to repeat.

    \b
    Examples:
      rmhdag db roles
      rmhdag db roles --print > roles.sql
      rmhdag db roles --services
      RMHDAG_OWNER_DATABASE_URL=postgresql://rmhdag_owner@… rmhdag db roles

    Run it as the owner of the schema, who also runs `rmhdag db migrate`; the owner needs CREATEROLE, or an
    administrator runs what --print shows. New roles may log in but have no password: give each one with
    `\\password ROLE` in psql. None of them can create, change or drop tables, and app cannot change the audit
    trail. The roles of --services read one schema each and can write nothing; one whose schema does not exist yet is
    left out.
    """
    from rmhdag.store.roles import role_names, script

    settings = load_settings({"database_url": database_url, "schema_name": schema}).settings
    if services:
        from rmhdag.cli.service_roles import create_service_roles

        create_service_roles(settings, prefix, print_only=print_only, as_json=as_json)
        return
    try:
        names = role_names(prefix)
    except ValueError as error:
        raise CommandFailed(str(error), code=ExitCode.USAGE) from None
    if print_only:
        emit(script(settings.schema_name, names))
        return
    from rmhdag.cli.schema_owner import grant_roles
    from rmhdag.cli.server import name_server, opened_server

    with opened_server(settings) as server:
        created = grant_roles(server, settings.schema_name, names, actor=who(None))
        where = name_server(server)
    if as_json:
        emit_json({"database": where, "schema": settings.schema_name, "roles": names._asdict(), "created": created})
        return
    for kind, role in names._asdict().items():
        emit(f"{role}{' (new)' if role in created else ''}: {MEANINGS[kind]}\n")
    if created:
        say("New roles have no password yet: give each one with `\\password ROLE` in psql.")
