"""What `rmhdag validate` does; the command line is in validate.py, so that plain calls need no Typer."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.failure import CommandFailed
from rmhdag.cli.output import emit, emit_json, paint, say
from rmhdag.cli.workflow_files import (
    CheckedFile,
    as_github_annotation,
    check_file,
    find_files,
    show_problem,
)

if TYPE_CHECKING:
    from rmhdag.workflow.catalogue import HandlerCatalogue


def validate_files(
    paths: Sequence[str],
    *,
    as_json: bool = False,
    github: bool = False,
    queues: Sequence[str] | None = None,
    env_names: Sequence[str] = (),
    manifest: Path | None = None,
) -> ExitCode:
    """Show every problem of these files and folders. Of the settings only those of the environment count: reading the
    files of settings would take longer than all the rest."""
    if as_json and github:
        raise CommandFailed("--json and --github exclude each other", code=ExitCode.USAGE)
    known = find_handlers(manifest)
    files = [
        check_file(
            name,
            queues=queues,
            handlers=known,
            env_names={*env_names, *os.environ.get("RMHDAG_TEMPLATE_ENV", "").replace(",", " ").split()},
            fallback_queue=os.environ.get("RMHDAG_DAG_WORKER_QUEUE") or os.environ.get("DAG_WORKER_QUEUE"),
        )
        for name in find_files(paths)
    ]
    report_twins(files)
    count = sum(len(file.problems) for file in files)
    if as_json:
        emit_json({"valid": not count, "problem_count": count, "files": [file.as_json() for file in files]})
    else:
        for file in files:
            emit("".join(map(as_github_annotation, file.problems)) if github else describe(file))
        say(summarise(files, count))
    return ExitCode.INVALID if count else ExitCode.OK


def describe(file: CheckedFile) -> str:
    if file.problems:
        return "".join(show_problem(problem, file.source) for problem in file.problems)
    found = file.checked
    assert found is not None
    what = f"{found.workflow_id} v{found.version}, {plural(found.node_count, 'node')}"
    return f"{file.file}: {paint('valid', '32', sys.stdout)} ({what})\n"


def summarise(files: list[CheckedFile], count: int) -> str:
    if not count:
        return f"{plural(len(files), 'file')}, no problems"
    bad = sum(bool(file.problems) for file in files)
    return f"{plural(count, 'problem')} in {bad} of {plural(len(files), 'file')}"


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def report_twins(files: list[CheckedFile]) -> None:
    """Two files with one id and version: each is fine alone, but only one of them could be registered."""
    from rmhdag.workflow.problems import Problem

    first: dict[tuple[str, int], str] = {}
    for file in files:
        if file.checked is None:
            continue
        key = (file.checked.workflow_id, file.checked.version)
        if key in first:
            lines = file.source.decode("utf-8", "replace").splitlines()
            line = next((number for number, text in enumerate(lines, 1) if text.startswith("workflow_id")), 1)
            file.problems.append(
                Problem(
                    file.file,
                    line,
                    1,
                    "duplicate-workflow",
                    f"`{key[0]}` version {key[1]} is also in {first[key]}",
                    "Give this one another `workflow_id` or `version`",
                    "/workflow_id",
                )
            )
        first.setdefault(key, file.file)


def find_handlers(manifest: Path | None) -> HandlerCatalogue:
    """Those that come with rmhdag, and those of the manifest: a list of `{name, aliases, queue}`."""
    from rmhdag.workflow.catalogue import shipped_handlers

    if manifest is None:
        return shipped_handlers()
    from rmhdag.workflow.handler_manifest import handlers_from_file

    try:
        return shipped_handlers().with_entries(handlers_from_file(manifest))
    except FileNotFoundError:
        raise CommandFailed(f"{manifest} does not exist", code=ExitCode.NOT_FOUND) from None
    except (OSError, ValueError) as error:
        raise CommandFailed(
            f"{manifest} is not a manifest of handlers: {error}",
            remedy='It should look like [{"name": "mine.clip", "aliases": [], "queue": "light"}].',
            code=ExitCode.INVALID,
        ) from None
