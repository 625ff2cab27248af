"""One evaluation: where names are looked up, and how much work is left before it is stopped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from rmhdag.workflow.expressions.errors import ExpressionError
from rmhdag.workflow.expressions.values import MAX_TEXT_CHARACTERS

# Work is counted in nanoseconds as the slower machines need them: no clock is read, so that a job decides the same
# wherever and however often it is evaluated. One evaluation has 50 ms.
MAX_WORK = 50_000_000
# What depends on no name is computed whenever a workflow is read, and there may be thousands of such.
CONSTANT_WORK = 500_000
# All evaluations that follow from one event of a job, together: half a second.
STEP_WORK = 10 * MAX_WORK

# A character that is read or written, and an element of a list that is looked at.
CHARACTER = 2
ELEMENT = 100
# Python compares short texts with a text that nearly fits at each position, up to this much; longer ones it searches
# without going back.
MOST_OF_A_SEARCH = 400_000

Path = tuple[str | int, ...]
Shared = dict[Any, tuple[Any, ExpressionError | None]]


class Scope(Protocol):
    """Where an expression's names get their values; raises Missing for what has none. `work` is counted up."""

    work: int

    def lookup(self, root: str, path: Path) -> Any: ...


class Run:
    """One evaluation. A limit on its work is a limit in time and memory."""

    __slots__ = ("_limit_of_work", "_scope", "work_left")

    def __init__(self, scope: Scope, limit: int = MAX_WORK) -> None:
        self._scope = scope
        self._limit_of_work = limit
        self.work_left = limit
        if scope.work > STEP_WORK:
            raise _too_much_at_once()

    def lookup(self, root: str, path: Path) -> Any:
        return self._scope.lookup(root, path)

    def begin(self, fixed_bytes: int) -> None:
        """The outermost object is begun, with that much of it being constant."""

    def admit(self, name: str, value: Any) -> None:
        """A member of the outermost object is there; a run with a limit on sizes measures it."""

    def share(self, value: Any) -> None:
        """The value is the same for all who evaluate this with the same names."""

    def shared(self) -> Shared | None:
        """What is kept from one evaluation to the next: values, or errors, by their evaluators."""
        return None

    def charge(self, work: int, what: str = "") -> None:
        self.work_left -= work
        if self.work_left < 0:
            culprit = f"`{what}` of" if what else "evaluating"
            raise ExpressionError(
                f"{culprit} so much takes too long: more than {MAX_WORK // 1_000_000} ms. "
                "Do this in a handler instead of a template"
            )

    def end(self) -> None:
        """However it went, the work was done."""
        self._scope.work += self._limit_of_work - self.work_left


def _too_much_at_once() -> ExpressionError:
    return ExpressionError(
        f"the expressions that were evaluated for one event of this job took more than {STEP_WORK // 1_000_000} ms. "
        "Do this in handlers instead of templates, or let fewer nodes start at once"
    )


def search_work(text: str, part: str) -> int:
    """To look for the part in the text, which takes longest where nearly the whole part fits everywhere."""
    positions = max(len(text) - len(part), 0)
    return CHARACTER * (len(text) + len(part)) + len(text) + min(positions * len(part) // 4, MOST_OF_A_SEARCH)


def refuse_long_text(length: int) -> None:
    if length > MAX_TEXT_CHARACTERS:
        raise ExpressionError(
            f"the text would have {length:,} characters, the limit is {MAX_TEXT_CHARACTERS:,}. "
            "Pass a reference to a blob instead of the text itself"
        )


Evaluator = Callable[[Run], Any]
