"""`rmhdag logs`: what the tasks of a job wrote."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from rmhdag.cli.options import JobArgument, NamespaceOption, SchemaOption, UrlOption
from rmhdag.cli.output import emit, say

if TYPE_CHECKING:
    from rmhdag.cli.platform import Platform
    from rmhdag.store.views import LogChunk

PAGE = 500
LOOK_SECONDS = 0.5
# A chunk is stamped before it is committed; one that comes later than this after its stamp is not followed.
LATE = timedelta(seconds=30)
Place = tuple[str, int, int]


def register(app: typer.Typer) -> None:
    app.command(short_help="Show what tasks wrote; -f follows.")(logs)


def logs(
    job_id: JobArgument,
    node: Annotated[
        str | None, typer.Option("--node", metavar="NODE", help="One node, or the children of a fan-out.")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Until the job ends, or Ctrl-C.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per line of log.")] = False,
    namespace: NamespaceOption = "default",
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """Show what the tasks of a job wrote, every attempt of them, each line with its node.

    \b
    Examples:
      rmhdag logs 0198f3c2
      rmhdag logs 0198f3c2 --node reproject -f
      rmhdag logs 0198f3c2 --json | grep ERROR
    """
    from rmhdag.cli.platform import connected, find_job

    with connected(database_url, schema) as platform:
        full_id = find_job(platform.conn, namespace, job_id)
        shown = 0
        try:
            for chunk in read(platform, namespace, full_id, node, follow=follow):
                shown += 1
                write(chunk, as_json=as_json)
        except KeyboardInterrupt:
            return
        if not shown:
            say("nothing was written" + (f" by {node}" if node else "") + f"; `rmhdag job {full_id}` shows the job")


def read(platform: Platform, namespace: str, job_id: str, node: str | None, *, follow: bool) -> Iterator[LogChunk]:
    """Chunks that were not seen before, until the job has ended and one more look found nothing."""
    from rmhdag.api.views.pictures import ENDED
    from rmhdag.cli.exit_codes import ExitCode
    from rmhdag.cli.failure import CommandFailed
    from rmhdag.store import views

    if node is not None and views.node(platform.conn, job_id, node) is None:
        raise CommandFailed(
            f"job {job_id} has no node {node!r}",
            remedy=f"`rmhdag job {job_id}` lists its nodes.",
            code=ExitCode.NOT_FOUND,
        )
    seen: set[Place] = set()
    since: datetime | None = None
    while True:
        job = views.job(platform.conn, namespace, job_id)
        last_look = not follow or job is None or job["status"] in ENDED
        for chunk in read_once(platform, job_id, node, since):
            place = (chunk.task_id, chunk.lease_epoch, chunk.chunk_index)
            if place not in seen:
                seen.add(place)
                since = max(since or chunk.created_at - LATE, chunk.created_at - LATE)
                yield chunk
        if last_look:
            return
        time.sleep(LOOK_SECONDS)


def read_once(platform: Platform, job_id: str, node: str | None, since: datetime | None) -> Iterator[LogChunk]:
    from rmhdag.api.views.logs import task_ids_of
    from rmhdag.store import views

    if node is None:
        after = None if since is None else views.LogPlace(since, "", 0, 0)
        while page := views.logs_of_job(platform.conn, job_id, after):
            yield from page
            last = page[-1]
            after = views.LogPlace(last.created_at, last.task_id, last.lease_epoch, last.chunk_index)
        return
    tasks = task_ids_of(platform.conn, job_id, node)
    for start in range(0, len(tasks), PAGE):
        yield from views.logs(platform.conn, tasks[start : start + PAGE])


def write(chunk: LogChunk, *, as_json: bool) -> None:
    from rmhdag.workflow.text_width import visible

    lines = chunk.content.splitlines()
    if as_json:
        import json

        facts = {"node_id": chunk.node_id, "task_id": chunk.task_id, "lease_epoch": chunk.lease_epoch}
        emit("".join(json.dumps({**facts, "line": line}, ensure_ascii=False) + "\n" for line in lines))
    else:
        emit("".join(f"{chunk.node_id} | {visible(line)}\n" for line in lines))
    if chunk.truncated:
        say(f"{chunk.node_id}: the rest was cut; 1 MB is kept per attempt")
