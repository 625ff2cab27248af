"""One evaluation: where names are looked up, and how much work is left before it is stopped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from rmhdag.workflow.expressions.errors import ExpressionError
from rmhdag.workflow.expressions.values import MAX_TEXT_CHARACTERS

MAX_WORK = 8 * MAX_TEXT_CHARACTERS

Path = tuple[str | int, ...]


class Scope(Protocol):
    """Where an expression's names get their values; raises Missing for what has none."""

    def lookup(self, root: str, path: Path) -> Any: ...


class Run:
    """Work is counted in characters and list elements touched, so that a limit in it is a limit in time and memory."""

    __slots__ = ("_scope", "work_left")

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self.work_left = MAX_WORK

    def lookup(self, root: str, path: Path) -> Any:
        return self._scope.lookup(root, path)

    def begin(self, fixed_bytes: int) -> None:
        """The outermost object is begun, with that much of it being constant."""

    def admit(self, name: str, value: Any) -> None:
        """A member of the outermost object is there; a run with a limit on sizes measures it."""

    def charge(self, work: int) -> None:
        self.work_left -= work
        if self.work_left < 0:
            raise ExpressionError(
                f"evaluating takes more than {MAX_WORK:,} steps. Do this in a handler instead of a template"
            )


def refuse_long_text(length: int) -> None:
    if length > MAX_TEXT_CHARACTERS:
        raise ExpressionError(
            f"the text would have {length:,} characters, the limit is {MAX_TEXT_CHARACTERS:,}. "
            "Pass a reference to a blob instead of the text itself"
        )


Evaluator = Callable[[Run], Any]
