"""Collects the problems of one workflow and finds the place of each path in its text."""

from __future__ import annotations

from rmhdag.models.json_values import json_pointer
from rmhdag.workflow.problems import MAX_PROBLEMS, Problem
from rmhdag.workflow.source_map import Mark, Path, SourceMap


class Report:
    """One problem per place and code, so that a mistake found by two rules is reported once."""

    def __init__(self, file: str, source_map: SourceMap) -> None:
        self.file = file
        self.source_map = source_map
        self._problems: dict[tuple[Mark, str, str], Problem] = {}
        self._unreadable: set[str] = set()
        self._untold = 0

    @property
    def is_full(self) -> bool:
        """Whether there are more problems than anyone reads; long-running rules then stop."""
        return len(self._problems) > 2 * MAX_PROBLEMS

    @property
    def count(self) -> int:
        return len(self._problems)

    def add(self, path: Path, code: str, message: str, remedy: str) -> None:
        """A problem with the value at the path."""
        self.add_at(self.source_map.value_at(path), path, code, message, remedy)

    def add_key(self, path: Path, code: str, message: str, remedy: str) -> None:
        """A problem with the key itself, or with what is missing beneath it."""
        self.add_at(self.source_map.key_at(path), path, code, message, remedy)

    def add_inside(self, path: Path, value: str, line: int, column: int, code: str, message: str, remedy: str) -> None:
        """A problem with one character of a text."""
        self.add_at(self.source_map.inside_scalar(path, value, line, column), path, code, message, remedy)

    def add_at(self, mark: Mark, path: Path, code: str, message: str, remedy: str) -> None:
        if self.is_full:
            self._untold += 1
            return
        pointer = json_pointer(*path)
        if pointer in self._unreadable:
            return
        problem = Problem(self.file, *mark, code, message, remedy, pointer)
        self._problems.setdefault((mark, pointer, code), problem)

    def include(self, problems: list[Problem]) -> None:
        """Add the reader's problems; rules report nothing more about these places."""
        for problem in problems:
            if problem.pointer:
                self._unreadable.add(problem.pointer)
            self._problems.setdefault(((problem.line, problem.column), problem.pointer, problem.code), problem)

    def sorted(self) -> list[Problem]:
        """The problems in the order of the file; a long list is cut off."""
        problems = sorted(self._problems.values(), key=lambda problem: (problem.line, problem.column))
        if len(problems) <= MAX_PROBLEMS:
            return problems
        last = problems[MAX_PROBLEMS - 1]
        more = Problem(
            self.file,
            last.line,
            last.column,
            "too-many-problems",
            f"{len(problems) + self._untold - MAX_PROBLEMS + 1} more problems follow",
            "Fix those above first",
        )
        return [*problems[: MAX_PROBLEMS - 1], more]
