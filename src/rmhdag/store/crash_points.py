"""Named places before and after every commit, where a test lets the process die.

`arm` is called by the command line for RMHDAG_CRASH_AT, and by tests; nothing is armed otherwise.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

SITES: set[str] = set()
_armed: tuple[str, Callable[[], None]] | None = None


def die() -> None:
    """Like kill −9: no handler, no flush, no goodbye."""
    os._exit(137)


def arm(name: str, action: Callable[[], None] = die) -> None:
    """Act once, when the process next reaches this point: `settle.before_commit`."""
    global _armed
    _armed = (name, action)


def disarm() -> None:
    global _armed
    _armed = None


def reach(name: str) -> None:
    if _armed is not None and _armed[0] == name:
        _, action = _armed
        disarm()
        action()


def commit_site(function: Callable[P, R]) -> Callable[P, R]:
    """A function that commits once. Before it, nothing has happened; after it, everything has but nobody knows."""
    name = function.__name__
    SITES.add(name)
    before, after = f"{name}.before_commit", f"{name}.after_commit"

    @wraps(function)
    def reached(*arguments: P.args, **named: P.kwargs) -> R:
        reach(before)
        answer = function(*arguments, **named)
        reach(after)
        return answer

    return reached
