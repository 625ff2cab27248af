"""`rmhdag jobs`: jobs, newest first, by status, workflow or submitter."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from rmhdag.cli.completion import complete_status, complete_workflow
from rmhdag.cli.doors import connected
from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.failure import CommandFailed
from rmhdag.cli.label import describe_labels, read_filters
from rmhdag.cli.operations import JobQuery
from rmhdag.cli.options import JsonOption, NamespaceOption, SchemaOption, ServerOption, UrlOption
from rmhdag.cli.output import emit, emit_json, say
from rmhdag.cli.tables import lay_out, show_age, show_duration, show_status
from rmhdag.models.api.jobs import JobSummary
from rmhdag.models.states import JobStatus
from rmhdag.workflow.problems import did_you_mean


def register(app: typer.Typer) -> None:
    app.command(short_help="List jobs, newest first.")(jobs)


def jobs(
    status: Annotated[
        list[str] | None,
        typer.Option(
            "--status",
            "-s",
            metavar="STATUS",
            help="pending, running, completed, failed, cancelled, or active.",
            autocompletion=complete_status,
        ),
    ] = None,
    workflow: Annotated[
        str | None,
        typer.Option("--workflow", metavar="ID", help="Only jobs of this workflow.", autocompletion=complete_workflow),
    ] = None,
    submitted_by: Annotated[
        str | None, typer.Option("--by", metavar="NAME", help="Only jobs of this submitter.")
    ] = None,
    correlation_id: Annotated[str | None, typer.Option("--correlation-id", metavar="ID")] = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="AGE", help="Only jobs created in the last 30m, 12h or 7d.")
    ] = None,
    labels: Annotated[
        list[str] | None,
        typer.Option("--label", metavar="KEY[=VALUE]", help="Only jobs with this label, or this key; may be repeated."),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="Maximum number of entries.")] = 20,
    after: Annotated[
        str | None,
        typer.Option("--after", metavar="CURSOR", help="Cursor of the next page, as printed by the previous one."),
    ] = None,
    ids: Annotated[bool, typer.Option("--ids", help="Print only ids, one per line.")] = False,
    namespace: NamespaceOption = None,
    as_json: JsonOption = False,
    url: ServerOption = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """List jobs, newest first.

    \b
    Examples:
      rmhdag jobs
      rmhdag jobs --status failed --since 24h
      rmhdag jobs --workflow fan_out_test --json
      rmhdag jobs --label aoi=oslo --label team
      rmhdag jobs --status active --ids | xargs -n1 rmhdag cancel
    """
    statuses = read_statuses(status or [])
    query = JobQuery(
        statuses=statuses,
        workflow_id=workflow,
        submitted_by=submitted_by,
        correlation_id=correlation_id,
        since=None if since is None else read_since(since),
        labels=read_filters(labels or []),
        after=after,
        limit=limit,
    )
    with connected(url, database_url, schema, namespace=namespace) as platform:
        page, next_page = platform.jobs(query)
    if as_json:
        emit_json({"jobs": [line.model_dump() for line in page], "next": next_page})
        return
    if ids:
        emit("".join(f"{line.job_id}\n" for line in page))
    elif page:
        emit(describe(page))
    filtered = statuses or workflow or submitted_by or correlation_id or since or labels or after
    if not page:
        say(
            "no job matches; `rmhdag jobs` lists all"
            if filtered
            else "no jobs yet; `rmhdag submit hello_world --wait` starts one"
        )
    elif next_page:
        say(f"there are more: --after {next_page}")


def describe(lines: list[JobSummary]) -> str:
    rows = [
        (
            line.job_id,
            show_status(line.status),
            f"{line.workflow_id} v{line.workflow_version}",
            show_age(line.created_at),
            show_duration(line.duration_seconds),
            line.submitted_by,
            describe_labels(line.labels),
            " ".join((line.error_message or "").split()),
        )
        for line in lines
    ]
    return lay_out(("JOB", "STATUS", "WORKFLOW", "CREATED", "TOOK", "BY", "LABELS", "ERROR"), rows)


def read_statuses(words: list[str]) -> list[str]:
    statuses = []
    for word in (part.strip().lower() for text in words for part in text.split(",")):
        if word == "active":
            statuses += ["pending", "running"]
        elif word in set(JobStatus):
            statuses.append(word)
        else:
            choices = [*JobStatus, "active"]
            raise CommandFailed(f"there is no status {word!r}", remedy=did_you_mean(word, choices), code=ExitCode.USAGE)
    return statuses


def read_since(text: str) -> datetime:
    units = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
    if not text[:-1].isdecimal() or text[-1:] not in units or len(text) > 8:
        raise CommandFailed(f"{text!r} is not an age", remedy="Write 30m, 12h or 7d.", code=ExitCode.USAGE)
    return datetime.now(UTC) - timedelta(seconds=int(text[:-1]) * units[text[-1]])
