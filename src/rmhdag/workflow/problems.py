"""What is wrong with a workflow, said so that it can be fixed: where, what, and what to do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import nsmallest
from typing import NamedTuple


class Problem(NamedTuple):
    """`line` and `column` count from 1 and are 0 where the workflow did not come from a text; `pointer` is RFC 6901."""

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


# Comparing takes 20 µs per word: of very many, only those that begin alike are compared, and not all of them.
MOST_COMPARED = 200


def closest(word: str, known: Iterable[str]) -> str | None:
    """The known word most like this one, whatever its case; None if nothing is like it."""
    from difflib import get_close_matches

    wanted = word[:100].lower()
    names = list(known)
    if len(names) > MOST_COMPARED:
        alike = [name for name in names if name[:3].lower() == wanted[:3]]
        names = sorted(alike, key=lambda name: abs(len(name) - len(wanted)))[:MOST_COMPARED]
    by_lower = {name.lower(): name for name in names}
    close = get_close_matches(wanted, list(by_lower), n=1, cutoff=0.7)
    if not close and len(wanted) >= 3:
        close = [name for name in by_lower if name.startswith(wanted)]
    return by_lower[close[0]] if close else None


def did_you_mean(word: str, known: Iterable[str], otherwise: str = "") -> str:
    """A remedy: the closest known word, or all of them if they are few."""
    words = list(known)
    close = closest(word, words)
    if close is not None:
        return f"Did you mean `{close}`?"
    if otherwise:
        return otherwise
    names = nsmallest(21, words)
    return f"Known are {', '.join(f'`{name}`' for name in names[:20])}" + (" …" if len(names) > 20 else "")
