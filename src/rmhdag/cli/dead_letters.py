"""`rmhdag dead-letters`: show tasks that were given up, and why; requeue or discard them."""

from __future__ import annotations

from itertools import islice
from typing import Annotated, Any

import typer

from rmhdag.cli.doors import connected
from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.failure import CommandFailed
from rmhdag.cli.listing import show_listing
from rmhdag.cli.operations import Operations
from rmhdag.cli.options import AsOption, JsonOption, NamespaceOption, SchemaOption, ServerOption, UrlOption
from rmhdag.cli.output import emit, emit_json, say
from rmhdag.cli.tables import show_age
from rmhdag.client import Conflict
from rmhdag.models.api.queues import DeadLetterSummary

LettersArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="[LETTER]...", help="Ids, or their first characters, as shown by `rmhdag dead-letters`."),
]
AllOption = Annotated[bool, typer.Option("--all", help="All open dead letters.")]


def register(app: typer.Typer) -> None:
    group = typer.Typer(
        invoke_without_command=True,
        rich_markup_mode=None,
        help="Show tasks that were given up; requeue or discard them.",
    )
    group.callback()(dead_letters)
    group.command("list", short_help="List dead letters.")(list_letters)
    group.command("requeue", short_help="Run their tasks again.")(requeue)
    group.command("discard", short_help="Mark them as discarded.")(discard)
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
    settled_too: Annotated[bool, typer.Option("--all", help="Include settled ones.")] = False,
    namespace: NamespaceOption = None,
    as_json: JsonOption = False,
    url: ServerOption = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """List dead letters: tasks that were given up, why, and their current state.

    \b
    Examples:
      rmhdag dead-letters list
      rmhdag dead-letters list --all --json
    """
    with connected(url, database_url, schema, namespace=namespace) as platform:
        lines = list(islice(platform.client.dead_letters(settled_too=settled_too), 1_000))
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
    """Run the tasks of dead letters again: immediately if their job is still running, otherwise in a new job that
    reuses finished results. Several letters of one job lead to one new job.

    \b
    Examples:
      rmhdag dead-letters requeue dl-0198f3c2
      rmhdag dead-letters requeue --all
    """
    done: list[dict[str, Any]] = []
    refused: list[dict[str, str]] = []
    with connected(url, database_url, schema, namespace=namespace, name=issued_by) as platform:
        for letter in chosen(platform, letters or [], everything=everything):
            try:
                answer = platform.client.requeue(letter.dead_letter_id)
            except Conflict as error:
                refused.append({"dead_letter_id": letter.dead_letter_id, "reason": error.detail})
                say(f"{letter.dead_letter_id} stays: {error.detail}")
                continue
            done.append(answer.model_dump())
            say(f"{letter.dead_letter_id}: {'job' if answer.is_new_job else 'again in job'} {answer.job_id}")
    if as_json:
        emit_json({"requeued": done, "refused": refused})
    else:
        emit("".join(f"{job_id}\n" for job_id in dict.fromkeys(outcome["job_id"] for outcome in done)))
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
    """Discard dead letters: they are kept, but no longer shown as open.

    \b
    Examples:
      rmhdag dead-letters discard dl-0198f3c2
    """
    with connected(url, database_url, schema, namespace=namespace, name=issued_by) as platform:
        chosen_letters = chosen(platform, letters or [], everything=everything)
        done = [letter.dead_letter_id for letter in chosen_letters if discard_open(platform, letter)]
    for letter in chosen_letters:
        if letter.dead_letter_id not in done:
            settled = (
                f"was {letter.settled_as} by {letter.settled_by}" if letter.settled_as else "was settled meanwhile"
            )
            say(f"{letter.dead_letter_id} {settled}; nothing is left to discard")
    emit_json({"discarded": done}) if as_json else emit("".join(f"{letter}\n" for letter in done))


def discard_open(platform: Operations, letter: DeadLetterSummary) -> bool:
    """False if it was settled before."""
    if letter.settled_as is not None:
        return False
    try:
        platform.client.discard(letter.dead_letter_id)
    except Conflict:
        return False
    return True


def chosen(platform: Operations, names: list[str], *, everything: bool) -> list[DeadLetterSummary]:
    if bool(names) == everything:
        raise CommandFailed("name dead letters, or pass --all", code=ExitCode.USAGE)
    if everything:
        return list(platform.client.dead_letters())
    everyone = list(platform.client.dead_letters(settled_too=True))
    letters = []
    for name in names:
        fitting = [letter for letter in everyone if letter.dead_letter_id.startswith(name)]
        fitting = [letter for letter in fitting if letter.dead_letter_id == name] or fitting
        if len(fitting) != 1:
            many = "several dead letters begin" if fitting else "no dead letter begins"
            raise CommandFailed(
                f"{many} with {name}", remedy="`rmhdag dead-letters list --all` shows them.", code=ExitCode.NOT_FOUND
            )
        letters += fitting
    return letters
