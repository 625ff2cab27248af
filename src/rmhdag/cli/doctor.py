"""`rmhdag doctor`: what this machine and the database lack, each with a remedy."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.output import emit, emit_json, paint, say
from rmhdag.cli.settings import load_settings

if TYPE_CHECKING:
    from rmhdag.cli.checks import Finding

STYLES = {"ok": "32", "warning": "33", "failed": "31"}


def register(app: typer.Typer) -> None:
    app.command(short_help="Check this machine and the database.")(doctor)


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    database_url: Annotated[
        str | None,
        typer.Option("--database-url", metavar="URL", help="Database to use (default: RMHDAG_DATABASE_URL)."),
    ] = None,
) -> None:
    """Check this machine, the database and blob storage: versions, settings, clock, disk, rights. Makes no lasting
    changes; exit code 1 if a check fails.

    \b
    Examples:
      rmhdag doctor
      RMHDAG_DATABASE_URL=postgresql://… rmhdag doctor --json
    """
    from rmhdag.cli.checks import examine

    findings = examine(load_settings({"database_url": database_url}))
    failed = [finding for finding in findings if finding.status == "failed"]
    if as_json:
        emit_json({"ok": not failed, "checks": [finding._asdict() for finding in findings]})
    else:
        width = max(len(finding.name) for finding in findings)
        emit("".join(describe(finding, width) for finding in findings))
        say(f"{len(failed)} of {len(findings)} checks failed" if failed else "all is well")
    if failed:
        raise typer.Exit(ExitCode.FAILED)


def describe(finding: Finding, width: int) -> str:
    status = paint(f"{finding.status:<7}", STYLES[finding.status], sys.stdout)
    threshold = f"  (wanted: {finding.threshold})" if finding.threshold else ""
    lines = [f"{status}  {finding.name:<{width}}  {finding.value}{paint(threshold, '2', sys.stdout)}"]
    if finding.remedy and finding.status != "ok":
        lines.append(f"{'':<{width + 11}}{paint(finding.remedy, '36', sys.stdout)}")
    return "\n".join(lines) + "\n"
