"""Options that many commands share."""

from __future__ import annotations

from typing import Annotated

import typer

JsonOption = Annotated[bool, typer.Option("--json", help="One JSON object.")]
UrlOption = Annotated[str | None, typer.Option("--database-url", metavar="URL", help="Instead of RMHDAG_DATABASE_URL.")]
SchemaOption = Annotated[str | None, typer.Option("--schema", metavar="NAME", help="Instead of RMHDAG_SCHEMA.")]
NamespaceOption = Annotated[str, typer.Option("--namespace", metavar="NAME", help="Whose jobs and workflows.")]
AsOption = Annotated[str | None, typer.Option("--as", metavar="NAME", help="In whose name; else your user name.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Show what would be done and change nothing.")]
JobArgument = Annotated[str, typer.Argument(metavar="JOB", help="A job's id, or how it begins (8 characters or more).")]
