"""`rmhdag attention`: what needs a person now."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from rmhdag.cli.doors import connected
from rmhdag.cli.options import JsonOption, NamespaceOption, SchemaOption, ServerOption, UrlOption
from rmhdag.cli.output import emit, emit_json, say
from rmhdag.cli.tables import lay_out, show_age, show_duration
from rmhdag.models.api.attention import Attention

MOST_CHARACTERS = 100


def register(app: typer.Typer) -> None:
    app.command(short_help="Show what needs a person: failures, queues, decisions.")(attention)


def attention(
    hours: Annotated[int, typer.Option("--hours", min=1, max=168, help="Failures of the last so many hours.")] = 24,
    namespace: NamespaceOption = None,
    as_json: JsonOption = False,
    url: ServerOption = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """Show what needs a person: failed jobs by their error, jobs that run longer than usual, queues that no worker
    serves, dead letters, callbacks that fail, and decisions that wait.

    \b
    Examples:
      rmhdag attention
      rmhdag attention --hours 1 --json
    """
    with connected(url, database_url, schema, namespace=namespace) as platform:
        attention = platform.client.attention(hours=hours)
    if as_json:
        emit_json(attention.model_dump())
        return
    lines = list(_lines(attention))
    if lines:
        emit(lay_out(("WHAT", "HOW MANY", "WHICH", "WHEN", "NEXT"), lines))
    else:
        say(f"nothing needs you: no failures in {hours} h, every queue has a worker, no decision waits")


def _lines(attention: Attention) -> Iterator[tuple[str, ...]]:
    waiting = attention.approvals + attention.reviews
    if waiting:
        yield "decisions", str(waiting), "", "", "rmhdag approvals"
    for queue in attention.queues:
        age = show_duration(queue.oldest_seconds)
        yield "queue without workers", str(queue.waiting), queue.queue, age, f"rmhdag worker --queue {queue.queue}"
    for group in attention.failures:
        which = f"{group.workflow_id}: {' '.join(group.error.split())}"[:MOST_CHARACTERS]
        age = show_age(group.last_seen_at)
        yield "failed jobs", str(group.count), which, age, f"rmhdag job {group.newest_job_id}"
    for job in attention.slow_jobs:
        which = f"{job.workflow_id}, usually {show_duration(job.usual_seconds)}"
        yield "slow job", "1", which, show_duration(job.running_seconds), f"rmhdag job {job.job_id}"
    if attention.dead_letters:
        yield "dead letters", str(attention.dead_letters), "", "", "rmhdag dead-letters"
    if attention.callbacks:
        yield "failing callbacks", str(attention.callbacks), "", "", "rmhdag callbacks"
