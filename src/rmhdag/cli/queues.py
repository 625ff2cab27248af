"""`rmhdag queues`: what waits in each queue, and whether anybody serves it."""

from __future__ import annotations

import typer

from rmhdag.cli.doors import connected
from rmhdag.cli.listing import show_listing
from rmhdag.cli.options import JsonOption, NamespaceOption, SchemaOption, ServerOption, UrlOption
from rmhdag.cli.output import say
from rmhdag.cli.tables import show_duration


def register(app: typer.Typer) -> None:
    app.command(short_help="Show the tasks and workers of each queue.")(queues)


def queues(
    namespace: NamespaceOption = None,
    as_json: JsonOption = False,
    url: ServerOption = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """Show each queue: waiting, delayed and running tasks, how long the oldest has been waiting, and the workers.

    \b
    Examples:
      rmhdag queues
      rmhdag queues --json
    """
    with connected(url, database_url, schema, namespace=namespace) as platform:
        lines = platform.client.queues()
    headers = ("QUEUE", "WAITING", "DELAYED", "RUNNING", "OLDEST", "WORKERS", "SLOTS", "DEAD LETTERS")
    show_listing(
        "queues",
        lines,
        headers,
        lambda line: (
            line.queue,
            line.waiting,
            line.delayed,
            line.running,
            show_duration(line.oldest_seconds),
            line.workers,
            line.slots,
            line.dead_letters,
        ),
        as_json=as_json,
        nothing="no queues: none is configured and none has tasks; `rmhdag up` configures some",
        right=headers[1:],
    )
    if as_json:
        return
    for line in lines:
        if line.waiting and not line.workers:
            say(f"no worker serves {line.queue}: start one with `rmhdag worker --queue {line.queue}`")
