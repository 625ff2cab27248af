"""Options that many commands share."""

from __future__ import annotations

from typing import Annotated

import typer

from rmhdag.cli.completion import complete_job

DEFAULT_NAMESPACE = "default"
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON object.")]
ServerOption = Annotated[
    str | None, typer.Option("--url", metavar="URL", help="A server, instead of RMHDAG_URL; its key is in RMHDAG_KEY.")
]
UrlOption = Annotated[str | None, typer.Option("--database-url", metavar="URL", help="Instead of RMHDAG_DATABASE_URL.")]
SchemaOption = Annotated[str | None, typer.Option("--schema", metavar="NAME", help="Instead of RMHDAG_SCHEMA.")]
NamespaceOption = Annotated[
    str | None,
    typer.Option("--namespace", metavar="NAME", help="Whose jobs and workflows; else `default`, or that of the key."),
]
StorageNamespaceOption = Annotated[
    str, typer.Option("--namespace", metavar="NAME", help="Whose files; else those of `default`.")
]
AsOption = Annotated[
    str | None,
    typer.Option("--as", metavar="NAME", help="In whose name; else your user name, or the holder of the key."),
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Show what would be done and change nothing.")]
JobArgument = Annotated[
    str,
    typer.Argument(
        metavar="JOB", help="A job's id, or how it begins (8 characters or more).", autocompletion=complete_job
    ),
]
