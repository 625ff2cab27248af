"""`rmhdag validate`: all problems of workflow files at once, each with its place and its remedy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rmhdag.cli.validation import validate_files


def register(app: typer.Typer) -> None:
    app.command(short_help="Check workflow files, all problems at once.")(validate)


def validate(
    paths: Annotated[list[str], typer.Argument(metavar="PATH", help="Workflow files or folders; - reads stdin.")],
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object with all problems.")] = False,
    github: Annotated[bool, typer.Option("--github", help="Annotations for GitHub Actions.")] = False,
    queue: Annotated[
        list[str] | None, typer.Option("--queue", metavar="NAME", help="A queue that exists; others are problems.")
    ] = None,
    env: Annotated[
        list[str] | None, typer.Option("--env", metavar="NAME", help="A variable that templates may read.")
    ] = None,
    handlers: Annotated[
        Path | None, typer.Option("--handlers", metavar="FILE", help="Handlers besides those of rmhdag.")
    ] = None,
) -> None:
    """Check workflow files; show every problem with its line and a remedy. Exit code 3 if there is one.

    DAG_WORKER_QUEUE, if it is set, is the queue of tasks that name none; RMHDAG_TEMPLATE_ENV names more variables
    that templates may read.

    \b
    Examples:
      rmhdag validate flow.yaml
      rmhdag validate workflows/ --queue light --queue heavy
      generate-flow | rmhdag validate - --json
    """
    raise typer.Exit(
        validate_files(paths, as_json=as_json, github=github, queues=queue, env_names=env or (), manifest=handlers)
    )
