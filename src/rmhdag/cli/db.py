"""`rmhdag db …`: the schema as SQL, its migration, and the embedded PostgreSQL."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.failure import CommandFailed
from rmhdag.cli.output import emit, emit_json, paint, say

if TYPE_CHECKING:
    from rmhdag.store.plan import Plan, Step

UrlOption = Annotated[str | None, typer.Option("--database-url", metavar="URL", help="Instead of RMHDAG_DATABASE_URL.")]
SchemaOption = Annotated[str | None, typer.Option("--schema", metavar="NAME", help="Instead of RMHDAG_SCHEMA.")]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON object.")]


def register(app: typer.Typer) -> None:
    from rmhdag.cli.db_roles import roles
    from rmhdag.cli.db_server import start, status, stop

    group = typer.Typer(
        no_args_is_help=True,
        rich_markup_mode=None,
        help="The database: schema, migration, embedded server.",
    )
    group.command(short_help="Show the whole schema as SQL.")(ddl)
    group.command(short_help="Bring the database to this version's schema.")(migrate)
    group.command(short_help="Create roles with few rights, or show the SQL for them.")(roles)
    group.command(short_help="Show whether the database is there and up to date.")(status)
    group.command(short_help="Keep the embedded PostgreSQL running; show its URL.")(start)
    group.command(short_help="Stop the embedded PostgreSQL.")(stop)
    app.add_typer(group, name="db")


def ddl(schema: SchemaOption = None) -> None:
    """Show the whole schema as SQL. Needs no database.

    \b
    Examples:
      rmhdag db ddl > schema.sql
      rmhdag db ddl --schema staging
    """
    from rmhdag.cli.settings import load_settings
    from rmhdag.store.schema import ddl as schema_ddl

    settings = load_settings({"schema_name": schema}).settings
    emit(schema_ddl(settings.schema_name))


def migrate(
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the SQL and change nothing.")] = False,
    as_json: JsonOption = False,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """Bring the database to this version's schema: show the plan, ask, apply. Only ever adds; safe to run twice.

    \b
    Examples:
      rmhdag db migrate
      rmhdag db migrate --dry-run > plan.sql
      RMHDAG_DATABASE_URL=postgresql://… rmhdag db migrate --yes

    Without RMHDAG_DATABASE_URL it works on the embedded PostgreSQL in the data folder. RMHDAG_OWNER_DATABASE_URL names
    the role that owns the schema, where processes use another one (`rmhdag db roles`).
    """
    from rmhdag.cli.platform import who
    from rmhdag.cli.schema_owner import migrate_schema
    from rmhdag.cli.server import name_server, opened_server
    from rmhdag.cli.settings import load_settings
    from rmhdag.store import migration
    from rmhdag.store.plan import MigrationRefused

    settings = load_settings({"database_url": database_url, "schema_name": schema}).settings
    with opened_server(settings) as server:
        url, name = server.owner_dsn(), name_server(server)
        made = migration.plan(url, settings.schema_name)
        if made.refusals:
            refuse(made, name, as_json=as_json)
        if dry_run or not made.steps:
            show_plan(made, name, as_json=as_json, dry_run=dry_run)
            return
        if not as_json:
            say(f"{name}, schema {made.schema}: {len(made.steps)} steps")
        if not yes:
            if not as_json:
                for step in made.steps:
                    say(f"  {step.title}")
            ask(made, name)
        try:
            made = migrate_schema(server, settings.schema_name, None if as_json else show_step, actor=who(None))
        except MigrationRefused:
            refuse(migration.plan(url, settings.schema_name), name, as_json=as_json)
        except migration.MigrationFailed as failure:
            raise CommandFailed(str(failure)) from failure
    if as_json:
        emit_json(as_object(made, name, applied=True))
    else:
        say(f"done: schema {made.schema} is up to date")


def show_step(step: Step, number: int, total: int) -> None:
    emit(f"{paint(f'[{number}/{total}]', '2', sys.stdout)} {step.title}\n")


def show_plan(made: Plan, name: str, *, as_json: bool, dry_run: bool) -> None:
    if as_json:
        emit_json(as_object(made, name, applied=False))
    elif made.steps:
        emit(made.render())
        say(f"{name}: {len(made.steps)} steps, nothing was changed (--dry-run)")
    else:
        for notice in made.notices:
            say(f"left alone: {notice}")
        say(f"nothing to do: schema {made.schema} in {name} is up to date")


def refuse(made: Plan, name: str, *, as_json: bool) -> NoReturn:
    if as_json:
        emit_json(as_object(made, name, applied=False))
    raise CommandFailed(
        f"{name} cannot be migrated safely, so nothing was changed:\n"
        + "\n".join(f"  {refusal}" for refusal in made.refusals),
        code=ExitCode.CONFLICT,
    )


def ask(made: Plan, name: str) -> None:
    if not sys.stdin.isatty():
        raise CommandFailed(
            f"{len(made.steps)} steps wait for confirmation, and there is nobody to ask",
            remedy="Run it again with --yes, or with --dry-run to see them.",
            code=ExitCode.USAGE,
        )
    if not typer.confirm(f"Apply {len(made.steps)} steps to {name}?", err=True):
        raise CommandFailed("not confirmed, nothing was changed", code=ExitCode.CANCELLED)


def as_object(made: Plan, name: str, *, applied: bool) -> dict[str, Any]:
    return {
        "database": name,
        "schema": made.schema,
        "applied": applied,
        "up_to_date": applied or made.is_empty,
        "steps": [
            {"kind": type(step).__name__, "title": step.title, "statements": list(step.statements)}
            for step in made.steps
        ],
        "refusals": [
            {"what": refusal.what, "where": refusal.where, "why": refusal.why, "remedy": refusal.remedy}
            for refusal in made.refusals
        ],
        "notices": list(made.notices),
    }
