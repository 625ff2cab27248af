"""Options that many commands share."""

from __future__ import annotations

from typing import Annotated

import typer

from rmhdag.cli.completion import complete_job

DEFAULT_NAMESPACE = "default"
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
ServerOption = Annotated[
    str | None,
    typer.Option("--url", metavar="URL", help="Server to use (default: RMHDAG_URL); its key is in RMHDAG_KEY."),
]
UrlOption = Annotated[
    str | None, typer.Option("--database-url", metavar="URL", help="Database to use (default: RMHDAG_DATABASE_URL).")
]
SchemaOption = Annotated[
    str | None, typer.Option("--schema", metavar="NAME", help="Database schema to use (default: RMHDAG_SCHEMA).")
]
NamespaceOption = Annotated[
    str | None,
    typer.Option("--namespace", metavar="NAME", help="Namespace to use (default: `default`, or the key's namespace)."),
]
StorageNamespaceOption = Annotated[str, typer.Option("--namespace", metavar="NAME", help="Namespace of the files.")]
AsOption = Annotated[
    str | None,
    typer.Option("--as", metavar="NAME", help="Act on behalf of NAME (default: your user name or the key's owner)."),
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Show what would be done and change nothing.")]
JobArgument = Annotated[
    str,
    typer.Argument(metavar="JOB", help="Job id, or its first 8 or more characters.", autocompletion=complete_job),
]
LabelOption = Annotated[
    list[str] | None,
    typer.Option("--label", metavar="KEY=VALUE", help="Label to find the job by; may be repeated."),
]
