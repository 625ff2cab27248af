"""`rmhdag cancel`: cancel a job; and how the answer to a command is shown."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from rmhdag.cli.doors import connected
from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.failure import CommandFailed
from rmhdag.cli.operations import Operations
from rmhdag.cli.options import (
    AsOption,
    DryRunOption,
    JobArgument,
    JsonOption,
    NamespaceOption,
    SchemaOption,
    ServerOption,
    UrlOption,
)
from rmhdag.cli.output import emit_json, say
from rmhdag.models.api.jobs import CommandAnswerBody

ReasonOption = Annotated[str | None, typer.Option("--reason", metavar="TEXT", help="Reason to record with the job.")]


def register(app: typer.Typer) -> None:
    app.command(short_help="Cancel a job.")(cancel)


def cancel(
    job_id: JobArgument,
    reason: ReasonOption = None,
    issued_by: AsOption = None,
    namespace: NamespaceOption = None,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
    url: ServerOption = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """Cancel a job: running tasks are asked to stop, waiting tasks never start, finished results stay. May be
    repeated. Exit code 6 if the job has already completed or failed.

    \b
    Examples:
      rmhdag cancel 0198f3c2
      rmhdag cancel 0198f3c2 --reason "wrong area"
      rmhdag cancel 0198f3c2 --dry-run
    """
    text = checked_reason(reason)
    with connected(url, database_url, schema, namespace=namespace, name=issued_by) as platform:
        full_id = platform.find_job(job_id)
        if dry_run:
            preview(platform, full_id, as_json=as_json)
            return
        tell_answer(platform, full_id, platform.cancel(full_id, text), as_json=as_json)


def checked_reason(reason: str | None) -> str | None:
    if reason is not None and (len(reason) > 1000 or "\x00" in reason):
        raise CommandFailed("a reason may have at most 1,000 characters", code=ExitCode.USAGE)
    return reason


def preview(platform: Operations, job_id: str, *, as_json: bool) -> None:
    overview = platform.overview(job_id)
    counts = overview.node_counts
    running, finished = counts.dispatched + counts.running, counts.completed
    facts: dict[str, Any] = {"job_id": job_id, "status": overview.status, "under_way": running, "finished": finished}
    if as_json:
        emit_json({**facts, "dry_run": True})
    elif overview.has_ended:
        say(f"job {job_id} is already {overview.status}; there is nothing to cancel")
    else:
        say(f"cancelling job {job_id} would stop {running} running nodes; {finished} finished nodes stay (--dry-run)")


def tell_answer(platform: Operations, job_id: str, answer: CommandAnswerBody, *, as_json: bool) -> None:
    """The outcome, or that it is on its way; exit code 6 if it was refused."""
    outcome = "accepted" if answer.outcome is None else answer.outcome.value
    if as_json:
        facts = {"job_id": job_id, "command_id": answer.command_id or None, "outcome": outcome, "reason": answer.reason}
        emit_json(facts)
    if answer.outcome == "refused":
        raise CommandFailed(f"refused: {answer.reason}", code=ExitCode.CONFLICT)
    if as_json:
        return
    if answer.outcome is None:
        say("accepted; the job's owner has not answered within 2 s")
        if not platform.orchestrators_alive():
            say("no orchestrator is running: the command takes effect when one is started (`rmhdag up`)")
    else:
        say(answer.reason)
    say(f"`rmhdag job {job_id}` shows the job")
