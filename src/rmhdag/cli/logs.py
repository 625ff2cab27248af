"""`rmhdag logs`: what the tasks of a job wrote."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Annotated

import typer

from rmhdag.cli.doors import connected
from rmhdag.cli.operations import Operations
from rmhdag.cli.options import JobArgument, NamespaceOption, SchemaOption, ServerOption, UrlOption
from rmhdag.cli.output import emit, say, show_json
from rmhdag.models.api.log_reading import UnseenChunks, lines_of
from rmhdag.models.api.nodes import LogChunk
from rmhdag.picture.text_width import visible

LOOK_SECONDS = 0.5


def register(app: typer.Typer) -> None:
    app.command(short_help="Show the logs of tasks; -f follows them.")(logs)


def logs(
    job_id: JobArgument,
    node: Annotated[
        str | None, typer.Option("--node", metavar="NODE", help="Only this node, or the children of this fan-out.")
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Follow the log until the job ends, or Ctrl-C.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per log line.")] = False,
    namespace: NamespaceOption = None,
    url: ServerOption = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """Show the logs of a job's tasks, including all attempts; each line has its node.

    \b
    Examples:
      rmhdag logs 0198f3c2
      rmhdag logs 0198f3c2 --node reproject -f
      rmhdag logs 0198f3c2 --json | grep ERROR
    """
    with connected(url, database_url, schema, namespace=namespace) as platform:
        full_id = platform.find_job(job_id)
        count = 0
        try:
            for chunk in read(platform, full_id, node, follow=follow):
                count += 1
                write(chunk, as_json=as_json)
        except KeyboardInterrupt:
            return
        if not count:
            say("nothing was written" + (f" by {node}" if node else "") + f"; `rmhdag job {full_id}` shows the job")


def read(platform: Operations, job_id: str, node: str | None, *, follow: bool) -> Iterator[LogChunk]:
    """Chunks that were not seen before, until the job has ended and one more look found nothing."""
    unseen = UnseenChunks()
    while True:
        last_look = not follow or platform.overview(job_id).has_ended
        yield from unseen.of(platform.log_chunks(job_id, node, unseen.since))
        if last_look:
            return
        time.sleep(LOOK_SECONDS)


def write(chunk: LogChunk, *, as_json: bool) -> None:
    lines = lines_of(chunk)
    if as_json:
        emit("".join(show_json(line._asdict()) + "\n" for line in lines))
    else:
        emit("".join(f"{line.node_id} | {visible(line.line)}\n" for line in lines))
    if chunk.truncated:
        say(f"{chunk.node_id}: the rest was cut; 1 MB is kept per attempt")
