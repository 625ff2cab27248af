"""What `rmhdag validate` does; the command line is in validate.py, so that plain calls need no Typer."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.failure import CommandFailed
from rmhdag.cli.handler_modules import configured_modules, describe_handlers
from rmhdag.cli.output import emit, emit_json, paint, say
from rmhdag.cli.tables import plural
from rmhdag.cli.workflow_files import (
    CheckedFile,
    as_github_annotation,
    check_file,
    find_files,
    show_problem,
)
from rmhdag.workflow.known_handlers import HandlerEntry, KnownHandlers, shipped_handlers
from rmhdag.workflow.problems import Problem


def validate_files(
    paths: Sequence[str],
    *,
    as_json: bool = False,
    github: bool = False,
    queues: Sequence[str] | None = None,
    env_names: Sequence[str] = (),
    modules: str | None = None,
    manifest: Path | None = None,
) -> ExitCode:
    """Show every problem of these files and folders. Of the settings only those of the environment count: reading the
    files of settings would take longer than all the rest."""
    refuse_two_forms(as_json=as_json, github=github)
    handlers = find_handlers(modules, manifest)
    files = [
        check_file(
            name,
            queues=queues,
            handlers=handlers,
            env_names={*env_names, *os.environ.get("RMHDAG_TEMPLATE_ENV", "").replace(",", " ").split()},
            fallback_queue=os.environ.get("RMHDAG_DAG_WORKER_QUEUE") or os.environ.get("DAG_WORKER_QUEUE"),
        )
        for name in find_files(paths)
    ]
    return show_files(files, as_json=as_json, github=github)


def validate_live(
    paths: Sequence[str],
    *,
    as_json: bool,
    github: bool,
    offline: Mapping[str, object],
    where: tuple[str | None, str | None, str | None, str | None],
) -> ExitCode:
    """The same, as the platform sees them. `where` is its URL, its database, its schema, and the namespace."""
    from rmhdag.cli.doors import connected
    from rmhdag.cli.registering import check_files

    refuse_two_forms(as_json=as_json, github=github)
    useless = [name for name, value in offline.items() if value]
    if useless:
        raise CommandFailed(
            f"{' and '.join(useless)} cannot be combined with --live, --url or --database-url",
            remedy="The platform knows its own handlers and queues: leave out one of the two.",
            code=ExitCode.USAGE,
        )
    url, database_url, schema, namespace = where
    with connected(url, database_url, schema, namespace=namespace) as platform:
        files = check_files(platform, paths)
    return show_files(files, as_json=as_json, github=github)


def refuse_two_forms(*, as_json: bool, github: bool) -> None:
    if as_json and github:
        raise CommandFailed("--json and --github exclude each other", code=ExitCode.USAGE)


def show_files(files: list[CheckedFile], *, as_json: bool, github: bool) -> ExitCode:
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
    head = file.head
    assert head is not None
    what = f"{head.workflow_id} v{head.version}, {plural(head.node_count, 'node')}"
    return f"{file.file}: {paint('valid', '32', sys.stdout)} ({what})\n"


def summarise(files: list[CheckedFile], count: int) -> str:
    if not count:
        return f"{plural(len(files), 'file')}, no problems"
    bad = sum(bool(file.problems) for file in files)
    return f"{plural(count, 'problem')} in {bad} of {plural(len(files), 'file')}"


def report_twins(files: list[CheckedFile]) -> None:
    """Two files with one id and version: each is fine alone, but only one of them could be registered."""
    first: dict[tuple[str, int], str] = {}
    for file in files:
        if file.head is None:
            continue
        key = (file.head.workflow_id, file.head.version)
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


def find_handlers(modules: str | None, manifest: Path | None) -> KnownHandlers:
    """Those that come with rmhdag, those of the manifest, and those of the modules, else of RMHDAG_HANDLERS."""
    if modules is not None and modules.endswith(".json"):
        raise CommandFailed(
            f"--handlers takes modules, as `rmhdag worker` does, and {modules} is a file",
            remedy=f"Write --manifest {modules}.",
            code=ExitCode.USAGE,
        )
    handlers = shipped_handlers()
    if manifest is not None:
        handlers = handlers.with_entries(read_manifest(manifest))
    named = configured_modules() if modules is None else modules
    return handlers.with_entries(describe_handlers(named)) if named else handlers


def read_manifest(manifest: Path) -> list[HandlerEntry]:
    from rmhdag.workflow.handler_manifest import handlers_from_file

    try:
        return handlers_from_file(manifest)
    except FileNotFoundError:
        raise CommandFailed(f"{manifest} does not exist", code=ExitCode.NOT_FOUND) from None
    except (OSError, ValueError) as error:
        raise CommandFailed(
            f"{manifest} is not a manifest of handlers: {error}",
            remedy='It should look like [{"name": "mine.clip", "aliases": [], "queue": "light", "params_schema": {}}].',
            code=ExitCode.INVALID,
        ) from None
