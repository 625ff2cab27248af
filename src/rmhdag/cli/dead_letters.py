"""`rmhdag dead-letters`: what was given up and why; give it another chance, or lay it aside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.failure import CommandFailed
from rmhdag.cli.options import AsOption, JsonOption, NamespaceOption, SchemaOption, ServerOption, UrlOption
from rmhdag.cli.output import emit, emit_json, say

if TYPE_CHECKING:
    from rmhdag.cli.platform import Platform
    from rmhdag.models.api.queues import DeadLetterSummary

LettersArgument = Annotated[
    list[str] | None, typer.Argument(metavar="[LETTER]...", help="Ids, or how they begin; see `rmhdag dead-letters`.")
]
AllOption = Annotated[bool, typer.Option("--all", help="All that are open.")]


def register(app: typer.Typer) -> None:
    group = typer.Typer(
        invoke_without_command=True, rich_markup_mode=None, help="Show what was given up; requeue or discard it."
    )
    group.callback()(dead_letters)
    group.command("list", short_help="List dead letters.")(list_letters)
    group.command("requeue", short_help="Give their tasks another chance.")(requeue)
    group.command("discard", short_help="Lay them aside.")(discard)
    app.add_typer(group, name="dead-letters")


def dead_letters(
    context: typer.Context,
    namespace: NamespaceOption = None,
    as_json: JsonOption = False,
    url: ServerOption = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """Show what was given up; requeue or discard it; alone it lists what is open.

    \b
    Examples:
      rmhdag dead-letters
      rmhdag dead-letters requeue --all
      rmhdag dead-letters discard dl-0198f3c2
    """
    if context.invoked_subcommand is None:
        list_letters(False, namespace, as_json, url, database_url, schema)


def list_letters(
    settled_too: Annotated[bool, typer.Option("--all", help="Also those that were settled.")] = False,
    namespace: NamespaceOption = None,
    as_json: JsonOption = False,
    url: ServerOption = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """List dead letters: what was given up, why, and what became of it.

    \b
    Examples:
      rmhdag dead-letters list
      rmhdag dead-letters list --all --json
    """
    from rmhdag.cli.listing import show_listing
    from rmhdag.cli.platform import connected
    from rmhdag.cli.tables import show_age

    with connected(url, database_url, schema, namespace=namespace) as platform:
        lines = platform.dead_letters(settled_too=settled_too, limit=1_000)
    show_listing(
        "dead_letters",
        lines,
        ("LETTER", "QUEUE", "REASON", "JOB", "NODE", "SINCE", "SETTLED", "WHY"),
        lambda line: (
            line.dead_letter_id,
            line.queue or "",
            line.reason,
            line.job_id or "",
            line.node_id or "",
            show_age(line.created_at),
            line.settled_as or "",
            (line.error_message or "")[:80],
        ),
        as_json=as_json,
        nothing="no dead letters",
    )


def requeue(
    letters: LettersArgument = None,
    everything: AllOption = False,
    issued_by: AsOption = None,
    namespace: NamespaceOption = None,
    as_json: JsonOption = False,
    url: ServerOption = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """Give their tasks another chance: in a job that still runs at once, else in a new job that reuses what is
    finished. Several letters of one job make one new job.

    \b
    Examples:
      rmhdag dead-letters requeue dl-0198f3c2
      rmhdag dead-letters requeue --all
    """
    from rmhdag.cli.platform import NotRequeued, connected

    done: list[dict[str, Any]] = []
    refused: list[dict[str, str]] = []
    with connected(url, database_url, schema, namespace=namespace, name=issued_by) as platform:
        for letter in chosen(platform, letters or [], everything=everything):
            try:
                found = platform.requeue(letter)
            except NotRequeued as error:
                refused.append({"dead_letter_id": letter.dead_letter_id, "reason": str(error)})
                say(f"{letter.dead_letter_id} stays: {error}")
                continue
            done.append(found.model_dump())
            say(f"{letter.dead_letter_id}: {'job' if found.is_new_job else 'again in job'} {found.job_id}")
    if as_json:
        emit_json({"requeued": done, "refused": refused})
    else:
        emit("".join(f"{job_id}\n" for job_id in dict.fromkeys(one["job_id"] for one in done)))
    if refused:
        raise typer.Exit(ExitCode.CONFLICT)


def discard(
    letters: LettersArgument = None,
    everything: AllOption = False,
    issued_by: AsOption = None,
    namespace: NamespaceOption = None,
    as_json: JsonOption = False,
    url: ServerOption = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """Lay dead letters aside: they are kept, and no longer shown as open.

    \b
    Examples:
      rmhdag dead-letters discard dl-0198f3c2
    """
    from rmhdag.cli.platform import connected

    with connected(url, database_url, schema, namespace=namespace, name=issued_by) as platform:
        found = chosen(platform, letters or [], everything=everything)
        done = [letter.dead_letter_id for letter in found if platform.discard(letter)]
    emit_json({"discarded": done}) if as_json else emit("".join(f"{letter}\n" for letter in done))


def chosen(platform: Platform, names: list[str], *, everything: bool) -> list[DeadLetterSummary]:
    if bool(names) == everything:
        raise CommandFailed("name dead letters, or all of them by --all", code=ExitCode.USAGE)
    if everything:
        return platform.dead_letters(limit=100_000)
    found = []
    for name in names:
        fitting = platform.find_dead_letters(name)
        if len(fitting) != 1:
            many = "several dead letters begin" if fitting else "no dead letter begins"
            raise CommandFailed(
                f"{many} with {name}", remedy="`rmhdag dead-letters list --all` shows them.", code=ExitCode.NOT_FOUND
            )
        found += fitting
    return found
