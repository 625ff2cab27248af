"""Problems of a workflow: where, what, and what to do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from heapq import nsmallest
from typing import NamedTuple


class Problem(NamedTuple):
    """`line` and `column` count from 1 and are 0 if the workflow did not come from text; `pointer` is RFC 6901."""

    file: str
    line: int
    column: int
    code: str
    message: str
    remedy: str
    pointer: str = ""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.column}" if self.line else f"{self.file}#{self.pointer}"
        return f"{place}: {self.message}. {self.remedy}"


class InvalidWorkflow(Exception):
    """All problems of one workflow, in the order of the file."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = list(problems)


MAX_PROBLEMS = 200

# A comparison takes 0.3 ms per word of this length: only similar words are compared, and only for as many mistakes as
# anyone reads.
MOST_GUESSES = 10
MOST_COMPARED = 50
LONGEST_COMPARED = 40

_guesses_left: ContextVar[list[int] | None] = ContextVar("guesses_left", default=None)


@contextmanager
def few_guesses() -> Iterator[None]:
    """Within one check, only the first unknown words are compared with the known ones, whichever rule finds them."""
    if _guesses_left.get() is not None:
        yield
        return
    token = _guesses_left.set([MOST_GUESSES])
    try:
        yield
    finally:
        _guesses_left.reset(token)


def closest(word: str, candidates: Iterable[str]) -> str | None:
    """The known word most like this one, whatever its case; None if nothing is like it."""
    from difflib import get_close_matches

    start = word[:LONGEST_COMPARED].lower()
    names = list(candidates)
    if len(names) > MOST_COMPARED:
        alike = [name for name in names if name[:1].lower() == start[:1]]
        names = nsmallest(
            MOST_COMPARED, alike, key=lambda name: (name[:3].lower() != start[:3], abs(len(name) - len(word)))
        )
    by_lower = {name[:LONGEST_COMPARED].lower(): name for name in names}
    close = get_close_matches(start, list(by_lower), n=1, cutoff=0.7)
    if not close and len(start) >= 3:
        close = [name for name in by_lower if name.startswith(start)]
    return by_lower[close[0]] if close else None


def did_you_mean(word: str, candidates: Iterable[str], otherwise: str = "") -> str:
    """A remedy: the closest known word, or all of them if they are few."""
    budget = _guesses_left.get()
    if budget is not None:
        if budget[0] == 0:
            return otherwise or "Check the name"
        budget[0] -= 1
    words = list(candidates)
    close = closest(word, words)
    if close is not None:
        return f"Did you mean `{shorten(close, 100)}`?"
    if otherwise:
        return otherwise
    names = [f"`{shorten(name, 100)}`" for name in nsmallest(21, words)]
    return f"Known are {', '.join(names[:20])}" + (" …" if len(names) > 20 else "")


def shorten(text: str, limit: int = 60) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
