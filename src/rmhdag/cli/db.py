"""`rmhdag db …`: the schema as SQL, its migration, and the embedded PostgreSQL."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from rmhdag.cli.acting_name import who
from rmhdag.cli.db_roles import roles
from rmhdag.cli.db_server import start, status, stop, tools
from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.failure import CommandFailed
from rmhdag.cli.output import emit, emit_json, paint, say
from rmhdag.cli.settings import load_settings

if TYPE_CHECKING:
    from rmhdag.store.migration_steps import MigrationSteps, Step

UrlOption = Annotated[
    str | None, typer.Option("--database-url", metavar="URL", help="Database to use (default: RMHDAG_DATABASE_URL).")
]
SchemaOption = Annotated[
    str | None, typer.Option("--schema", metavar="NAME", help="Database schema to use (default: RMHDAG_SCHEMA).")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def register(app: typer.Typer) -> None:
    group = typer.Typer(
        no_args_is_help=True,
        rich_markup_mode=None,
        help="Manage the database: schema, migration, embedded server.",
    )
    group.command(short_help="Show the whole schema as SQL.")(ddl)
    group.command(short_help="Migrate the database to this version's schema.")(migrate)
    group.command(short_help="Create roles with limited rights, or show the SQL for them.")(roles)
    group.command(short_help="Show whether the database answers and is up to date.")(status)
    group.command(short_help="Keep the embedded PostgreSQL running; show its URL.")(start)
    group.command(short_help="Stop the embedded PostgreSQL.")(stop)
    group.command(short_help="Show the folder with its programs, such as pg_dump.")(tools)
    app.add_typer(group, name="db")


def ddl(schema: SchemaOption = None) -> None:
    """Show the whole schema as SQL. Needs no database.

    \b
    Examples:
      rmhdag db ddl > schema.sql
      rmhdag db ddl --schema staging
    """
    from rmhdag.store.schema import ddl as schema_ddl

    settings = load_settings({"schema_name": schema}).settings
    emit(schema_ddl(settings.schema_name))


def migrate(
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the SQL and change nothing.")] = False,
    as_json: JsonOption = False,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """Migrate the database to this version's schema: show the plan, ask, apply. It only adds and is safe to repeat.

    \b
    Examples:
      rmhdag db migrate
      rmhdag db migrate --dry-run > plan.sql
      RMHDAG_DATABASE_URL=postgresql://… rmhdag db migrate --yes

    Without RMHDAG_DATABASE_URL it migrates the embedded PostgreSQL in the data folder. If processes use another role
    (`rmhdag db roles`), set RMHDAG_OWNER_DATABASE_URL to a URL with the role that owns the schema.
    """
    from rmhdag.cli.schema_owner import migrate_schema
    from rmhdag.cli.server import name_server, opened_server
    from rmhdag.store import migration
    from rmhdag.store.migration_steps import MigrationRefused

    settings = load_settings({"database_url": database_url, "schema_name": schema}).settings
    with opened_server(settings) as server:
        url, name = server.owner_dsn(), name_server(server)
        plan = migration.plan(url, settings.schema_name)
        if plan.refusals:
            refuse(plan, name, as_json=as_json)
        if dry_run or not plan.steps:
            show_plan(plan, name, as_json=as_json)
            return
        if not as_json:
            say(f"{name}, schema {plan.schema}: {len(plan.steps)} steps")
        if not yes:
            if not as_json:
                for step in plan.steps:
                    say(f"  {step.title}")
            ask(plan, name)
        try:
            plan = migrate_schema(server, settings, None if as_json else show_step, actor=who(None))
        except MigrationRefused:
            refuse(migration.plan(url, settings.schema_name), name, as_json=as_json)
        except migration.MigrationFailed as failure:
            raise CommandFailed(str(failure)) from failure
    if as_json:
        emit_json(as_object(plan, name, applied=True))
    else:
        say(f"done: schema {plan.schema} is up to date")


def show_step(step: Step, number: int, total: int) -> None:
    emit(f"{paint(f'[{number}/{total}]', '2', sys.stdout)} {step.title}\n")


def show_plan(plan: MigrationSteps, name: str, *, as_json: bool) -> None:
    if as_json:
        emit_json(as_object(plan, name, applied=False))
    elif plan.steps:
        emit(plan.render())
        say(f"{name}: {len(plan.steps)} steps, nothing was changed (--dry-run)")
    else:
        for notice in plan.notices:
            say(f"left alone: {notice}")
        say(f"nothing to do: schema {plan.schema} in {name} is up to date")


def refuse(plan: MigrationSteps, name: str, *, as_json: bool) -> NoReturn:
    if as_json:
        emit_json(as_object(plan, name, applied=False))
    raise CommandFailed(
        f"{name} cannot be migrated safely, so nothing was changed:\n"
        + "\n".join(f"  {refusal}" for refusal in plan.refusals),
        code=ExitCode.CONFLICT,
    )


def ask(plan: MigrationSteps, name: str) -> None:
    if not sys.stdin.isatty():
        raise CommandFailed(
            f"{len(plan.steps)} steps wait for confirmation, and there is no terminal to ask",
            remedy="Run it again with --yes, or with --dry-run to see them.",
            code=ExitCode.USAGE,
        )
    if not typer.confirm(f"Apply {len(plan.steps)} steps to {name}?", err=True):
        raise CommandFailed("not confirmed, nothing was changed", code=ExitCode.CANCELLED)


def as_object(plan: MigrationSteps, name: str, *, applied: bool) -> dict[str, Any]:
    return {
        "database": name,
        "schema": plan.schema,
        "applied": applied,
        "up_to_date": applied or plan.is_empty,
        "steps": [
            {"kind": type(step).__name__, "title": step.title, "statements": list(step.statements)}
            for step in plan.steps
        ],
        "refusals": [
            {"what": refusal.what, "where": refusal.where, "why": refusal.why, "remedy": refusal.remedy}
            for refusal in plan.refusals
        ],
        "notices": list(plan.notices),
    }
