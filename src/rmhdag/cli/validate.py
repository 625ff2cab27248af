"""`rmhdag validate`: all problems of workflow files at once, each with its place and its remedy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rmhdag.cli.options import NamespaceOption, SchemaOption, ServerOption, UrlOption
from rmhdag.cli.validation import validate_files, validate_live


def register(app: typer.Typer) -> None:
    app.command(short_help="Check workflow files and report all problems at once.")(validate)


def validate(
    paths: Annotated[list[str], typer.Argument(metavar="PATH", help="Workflow files or folders; - reads stdin.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object with all problems.")] = False,
    github: Annotated[bool, typer.Option("--github", help="Print annotations for GitHub Actions.")] = False,
    queue: Annotated[
        list[str] | None,
        typer.Option(
            "--queue",
            metavar="NAME",
            help="A queue that exists; may be repeated. Other queues are reported as problems.",
        ),
    ] = None,
    env: Annotated[
        list[str] | None,
        typer.Option("--env", metavar="NAME", help="A variable that templates may read; may be repeated."),
    ] = None,
    handlers: Annotated[
        str | None,
        typer.Option("--handlers", metavar="MODULES", help="Modules with handlers (default: RMHDAG_HANDLERS)."),
    ] = None,
    manifest: Annotated[
        Path | None,
        typer.Option("--manifest", metavar="FILE", help="Handlers as a JSON file, for machines without their modules."),
    ] = None,
    live: Annotated[
        bool, typer.Option("--live", help="Check against the handlers and queues of the running platform.")
    ] = False,
    namespace: NamespaceOption = None,
    url: ServerOption = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """Check workflow files and report every problem with its line and a remedy. Exit code 3 if there are problems.

    If DAG_WORKER_QUEUE is set, it is the queue of tasks that name none. RMHDAG_TEMPLATE_ENV names additional variables
    that templates may read.

    \b
    Examples:
      rmhdag validate flow.yaml
      rmhdag validate workflows/ --queue light --queue heavy
      rmhdag validate flow.yaml --handlers my_company.handlers
      rmhdag validate flow.yaml --live
      generate-flow | rmhdag validate - --json

    The check knows rmhdag's own handlers and those of the modules in --handlers or RMHDAG_HANDLERS, which are imported
    in a separate process. It does not contact the platform, and checks queues only if --queue names them. With --live
    (or --url, --database-url …) it uses the handlers and queues of the running platform, as `workflows register` does.
    """
    where = (url, database_url, schema, namespace)
    if live or any(name is not None for name in where):
        code = validate_live(
            paths,
            as_json=as_json,
            github=github,
            offline={"--queue": queue, "--env": env, "--handlers": handlers, "--manifest": manifest},
            where=where,
        )
    else:
        code = validate_files(
            paths,
            as_json=as_json,
            github=github,
            queues=queue,
            env_names=env or (),
            modules=handlers,
            manifest=manifest,
        )
    raise typer.Exit(code)
