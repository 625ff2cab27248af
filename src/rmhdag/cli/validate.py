"""`rmhdag validate`: all problems of workflow files at once, each with its place and its remedy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rmhdag.cli.options import NamespaceOption, SchemaOption, ServerOption, UrlOption
from rmhdag.cli.validation import validate_files, validate_live


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
        str | None,
        typer.Option("--handlers", metavar="MODULES", help="Modules with handlers, instead of RMHDAG_HANDLERS."),
    ] = None,
    manifest: Annotated[
        Path | None,
        typer.Option("--manifest", metavar="FILE", help="Handlers as JSON, for machines without their modules."),
    ] = None,
    live: Annotated[
        bool, typer.Option("--live", help="Check against the running platform: its handlers and queues.")
    ] = False,
    namespace: NamespaceOption = None,
    url: ServerOption = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """Check workflow files; show every problem with its line and a remedy. Exit code 3 if there is one.

    DAG_WORKER_QUEUE, if it is set, is the queue of tasks that name none; RMHDAG_TEMPLATE_ENV names more variables
    that templates may read.

    \b
    Examples:
      rmhdag validate flow.yaml
      rmhdag validate workflows/ --queue light --queue heavy
      rmhdag validate flow.yaml --handlers my_company.handlers
      rmhdag validate flow.yaml --live
      generate-flow | rmhdag validate - --json

    Known are the handlers of rmhdag and those of the modules in --handlers or RMHDAG_HANDLERS, which a process of its
    own imports; no platform is asked, and queues are checked only where --queue names them. With --live (or --url,
    --database-url …) the platform answers, with the handlers and queues that it has now, as `workflows register` would.
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
