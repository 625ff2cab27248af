"""How large a resolved object becomes as JSON, counted while it is made.

Looked-up values are shared, not copied: a list that is named twenty times costs nothing in memory and twenty times its
size in a row. So it is measured once and charged twenty times.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import orjson

from rmhdag.workflow.expressions.budget import MAX_WORK, Path, Run, Scope
from rmhdag.workflow.expressions.errors import ExpressionError

# What stays the same while a job is in memory; an item of a fan-out is seen by one child only.
_LASTING_ROOTS = ("inputs", "nodes")
_MOST_KEPT_SIZES = 1_000
_WORTH_KEEPING_BYTES = 4_096


class SizedScope(Scope, Protocol):
    """A scope that remembers the sizes of large values: by identity, each with the value, which so stays alive."""

    sizes: dict[int, tuple[Any, int]]


class Resolved(NamedTuple):
    """`fresh_bytes` is the part that is not shared with other nodes of the job."""

    value: dict[str, Any]
    size_bytes: int
    fresh_bytes: int


class SizedRun(Run):
    """An evaluation with a limit on the size of what it makes, member by member."""

    __slots__ = ("_limit", "_looked_up", "_scope", "fresh_bytes", "size_bytes")

    def __init__(self, scope: SizedScope, limit_bytes: int) -> None:
        self._scope = scope
        self.lookup = self._look_up
        self.work_left = MAX_WORK
        self._limit = limit_bytes
        self._looked_up: dict[int, str] = {}
        self.size_bytes = 0
        self.fresh_bytes = 0

    def _look_up(self, root: str, path: Path) -> Any:
        value = self._scope.lookup(root, path)
        if type(value) is dict or type(value) is list:
            self._looked_up[id(value)] = root
        return value

    def begin(self, fixed_bytes: int) -> None:
        self.size_bytes = self.fresh_bytes = fixed_bytes

    def admit(self, name: str, value: Any) -> None:
        try:
            self._charge(len(name) + 4)
            self._measure(value)
        except _TooLarge:
            raise ExpressionError(
                f"with {name!r} the object becomes larger than {self._limit // 1024**2} MB. "
                "Pass less, or write a file and pass its address"
            ) from None

    def _measure(self, value: Any) -> None:
        kind = type(value)
        if kind is str:
            self._charge(2 + (len(value) if value.isascii() else len(value.encode("utf-8", "surrogatepass"))))
        elif kind is dict or kind is list or kind is tuple:
            root = self._looked_up.get(id(value))
            if root is not None:
                self._charge_document(value, root)
                return
            # Made by an expression: as many members as were written there, or as a filter may give.
            self._charge(2 + len(value))
            for member in value.values() if kind is dict else value:
                self._measure(member)
            if kind is dict:
                self._charge(sum(map(len, value)) + 3 * len(value))
        else:
            self._charge(5 if value is None or kind is bool else len(repr(value)))

    def _charge_document(self, value: Any, root: str) -> None:
        if root not in _LASTING_ROOTS:
            self._charge(len(orjson.dumps(value)))
            return
        sizes = self._scope.sizes
        known = sizes.get(id(value))
        if known is None:
            known = (value, len(orjson.dumps(value)))
            if known[1] >= _WORTH_KEEPING_BYTES:
                if len(sizes) >= _MOST_KEPT_SIZES:
                    sizes.clear()
                sizes[id(value)] = known
        self._charge(known[1])
        self.fresh_bytes -= known[1]

    def _charge(self, size_bytes: int) -> None:
        self.size_bytes += size_bytes
        self.fresh_bytes += size_bytes
        if self.size_bytes > self._limit:
            raise _TooLarge


class _TooLarge(Exception):
    pass


def measured(scope: SizedScope, members: dict[str, Any], limit_bytes: int) -> Resolved:
    """An object that needs no evaluation, as if it had been one."""
    run = SizedRun(scope, limit_bytes)
    for name, value in members.items():
        run._looked_up[id(value)] = "nodes"
        run.admit(name, value)
    return Resolved(members, run.size_bytes, run.fresh_bytes)
