"""Workflow files from the command line: found, read, checked, and their problems shown with the lines concerned."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.failure import CommandFailed
from rmhdag.cli.output import paint, say
from rmhdag.models.limits import FILE_BYTES
from rmhdag.picture.text_width import columns, visible
from rmhdag.workflow.known_handlers import KnownHandlers
from rmhdag.workflow.problems import Problem

if TYPE_CHECKING:
    from rmhdag.workflow.checker import CheckedWorkflow
    from rmhdag.workflow.definition import WorkflowDefinition

STDIN = "-"
MAX_READ_BYTES = FILE_BYTES + 1  # above the language's own limit, which then says so; a device never ends


class CheckedHead(NamedTuple):
    """What a platform tells of a workflow that it has checked."""

    workflow_id: str
    version: int
    node_count: int


class CheckedFile:
    """`checked` is None where there are problems; the definition is made when somebody asks for it.

    Of what a platform has checked there is only the `head`.
    """

    def __init__(
        self,
        file: str,
        source: bytes,
        checked: CheckedWorkflow | None,
        problems: list[Problem],
        head: CheckedHead | None = None,
    ) -> None:
        self.file = file
        self.source = source
        self.checked = checked
        self.head = head or checked
        self.problems = problems

    @property
    def definition(self) -> WorkflowDefinition | None:
        from rmhdag.workflow.loader import make_definition

        return None if self.checked is None else make_definition(self.checked).definition

    def as_json(self) -> dict[str, Any]:
        head = self.head
        return {
            "file": self.file,
            "valid": not self.problems,
            "workflow_id": head.workflow_id if head else None,
            "version": head.version if head else None,
            "node_count": head.node_count if head else None,
            "problems": [problem._asdict() for problem in self.problems],
        }


def find_files(names: Sequence[str]) -> list[str]:
    """Files as they are, folders with all that lies in them; each once, in the order given."""
    files: dict[str, None] = {}
    for name in names:
        path = Path(name)
        if name == STDIN or (path.exists() and not path.is_dir()):
            files.setdefault(name)
        elif path.is_dir():
            from rmhdag.workflow import workflow_files

            inside = list(map(str, workflow_files(path)))
            if not inside:
                raise CommandFailed(
                    f"{name} contains no workflow files",
                    remedy="Workflow files end in .yaml or .yml.",
                    code=ExitCode.NOT_FOUND,
                )
            files.update(dict.fromkeys(inside))
        else:
            raise CommandFailed(
                f"{name} does not exist", remedy="Name a file, a folder, or - for stdin.", code=ExitCode.NOT_FOUND
            )
    return list(files)


def read_source(name: str) -> bytes:
    try:
        if name == STDIN:
            return sys.stdin.buffer.read(MAX_READ_BYTES)
        with open(name, "rb") as stream:
            return stream.read(MAX_READ_BYTES)
    except OSError as error:
        raise CommandFailed(
            f"{name} cannot be read: {error.strerror}", remedy="Check its permissions.", code=ExitCode.FAILED
        ) from None


class EveryName(Collection[str]):
    """For commands that do not care which variables a workflow may read."""

    def __contains__(self, name: object) -> bool:
        return True

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


def check_file(
    name: str,
    *,
    queues: Collection[str] | None = None,
    handlers: KnownHandlers | None = None,
    env_names: Collection[str] | None = None,
    fallback_queue: str | None = None,
) -> CheckedFile:
    """What is None is not known and not checked."""
    from rmhdag.workflow.checker import Surroundings, find_problems

    file = "<stdin>" if name == STDIN else name
    source = read_source(name)
    names = EveryName() if env_names is None else env_names
    around = Surroundings(handlers, queues, names, fallback_queue)
    return CheckedFile(file, source, *find_problems(source, around, file=file))


def show_problem(problem: Problem, source: bytes, stream: TextIO | None = None) -> str:
    """Where and what, the line with a caret under the place, and what to do; coloured for `stream` (stdout)."""
    stream = stream or sys.stdout
    place = f"{problem.file}:{problem.line}:{problem.column}" if problem.line else problem.file
    lines = [f"{paint(place + ':', '1', stream)} {visible(problem.message)}", *quote_line(problem, source, stream)]
    if problem.remedy:
        lines.append(f"  {paint(visible(problem.remedy), '36', stream)}")
    return "\n".join(lines) + "\n"


def refuse_problems(files: Sequence[CheckedFile], consequence: str) -> None:
    """Show the problems, each with its line of the source, and end the command; nothing if there are none.

    They go to stderr with the error: stdout is for the id of a job, and is often read by a program.
    """
    invalid = [file for file in files if file.problems]
    if not invalid:
        return
    for file in invalid:
        for problem in file.problems:
            say(show_problem(problem, file.source, sys.stderr).rstrip("\n"))
    count = sum(len(file.problems) for file in invalid)
    problems = "1 problem" if count == 1 else f"{count} problems"
    name = invalid[0].file if len(invalid) == 1 else f"{len(invalid)} of {len(files)} files"
    raise CommandFailed(f"{problems} in {name}: {consequence}", code=ExitCode.INVALID)


def quote_line(problem: Problem, source: bytes, stream: TextIO | None = None) -> list[str]:
    stream = stream or sys.stdout
    lines = source.decode("utf-8-sig", "replace").splitlines()
    if not 0 < problem.line <= len(lines):
        return []
    line = lines[problem.line - 1].rstrip()
    column = problem.column - 1
    start = max(0, column - 60)
    before = visible(line[start:column].replace("\t", " "))
    after = visible(line[column : start + 100].replace("\t", " "))
    mark = "…" if start else ""
    margin = f"{problem.line:>5} | "
    caret = " " * (len(margin) + len(mark) + columns(before)) + paint("^", "31", stream)
    return [paint(margin, "2", stream) + mark + before + after, caret]


def as_github_annotation(problem: Problem) -> str:
    """https://docs.github.com/actions/reference/workflow-commands-for-github-actions"""

    def data(text: str) -> str:
        return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")

    def value(text: str) -> str:
        return data(text).replace(":", "%3A").replace(",", "%2C")

    place = f"file={value(problem.file)},line={max(problem.line, 1)},col={max(problem.column, 1)}"
    return f"::error {place},title={value(problem.code)}::{data(f'{problem.message}. {problem.remedy}')}\n"
