"""How large a resolved object becomes as JSON, counted while it is made.

Looked-up values are shared, not copied: a list that is named twenty times costs nothing in memory and twenty times its
size in a row. So it is measured once and charged twenty times.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import orjson

from rmhdag.workflow.expressions.budget import ELEMENT, Path, Run, Scope, Shared
from rmhdag.workflow.expressions.errors import ExpressionError
from rmhdag.workflow.expressions.values import shown

# What stays the same while a job is in memory; an item of a fan-out is seen by one child only.
_LASTING_ROOTS = ("inputs", "nodes")
_CONTAINERS = frozenset({dict, list, tuple})
_NUMBER_BYTES = 24
_MOST_KEPT_SIZES = 1_000
_WORTH_KEEPING_BYTES = 4_096


class SizedScope(Scope, Protocol):
    """A scope that remembers the sizes of large values: by identity, each with the value, which so stays alive."""

    sizes: dict[int, tuple[Any, int]]
    # For the children of a fan-out: what is computed once for all of them.
    shared: Shared | None


class Resolved(NamedTuple):
    """`fresh_bytes` is the part that is not shared with other nodes of the job."""

    value: dict[str, Any]
    size_bytes: int
    fresh_bytes: int


class SizedRun(Run):
    """An evaluation with a limit on the size of what it makes, member by member. Made for every node that runs."""

    __slots__ = ("_limit", "_looked_up", "_shared", "_sizes", "shared_bytes", "size_bytes")

    def __init__(self, scope: SizedScope, limit_bytes: int) -> None:
        super().__init__(scope)
        self._shared = scope.shared
        self._sizes = scope.sizes
        self._limit = limit_bytes
        self._looked_up: dict[int, str] | None = None
        self.size_bytes = 0
        self.shared_bytes = 0

    def lookup(self, root: str, path: Path) -> Any:
        value = self._scope.lookup(root, path)
        if type(value) in _CONTAINERS:
            self._note(value, root)
        return value

    def shared(self) -> Shared | None:
        return self._shared

    def share(self, value: Any) -> None:
        if type(value) in _CONTAINERS:
            self._note(value, _LASTING_ROOTS[0])

    def begin(self, fixed_bytes: int) -> None:
        self.size_bytes = fixed_bytes

    def admit(self, name: str, value: Any) -> None:
        kind = type(value)
        if kind is str:
            self.size_bytes += len(name) + 6 + (len(value) if value.isascii() else _text_bytes(value))
        elif kind in _CONTAINERS:
            self._charge(name, len(name) + 4)
            self._measure(name, value)
        else:
            self.size_bytes += len(name) + _NUMBER_BYTES
        if self.size_bytes > self._limit:
            self._charge(name, 0)

    def look_up_all(self, members: dict[str, Any]) -> None:
        for name, value in members.items():
            self._note(value, "nodes")
            self.admit(name, value)

    def resolved(self, value: dict[str, Any]) -> Resolved:
        return Resolved(value, self.size_bytes, self.size_bytes - self.shared_bytes)

    def _note(self, value: Any, root: str) -> None:
        if self._looked_up is None:
            self._looked_up = {}
        self._looked_up[id(value)] = root

    def _measure(self, name: str, value: Any) -> None:
        kind = type(value)
        if kind is str:
            self._charge(name, 2 + (len(value) if value.isascii() else _text_bytes(value)))
            return
        if kind not in _CONTAINERS:
            self._charge(name, _NUMBER_BYTES)
            return
        root = None if self._looked_up is None else self._looked_up.get(id(value))
        if root is not None:
            self._charge_document(name, value, root)
            return
        # Made by an expression: as many members as were written there, or as a filter may give.
        self.charge(3 * ELEMENT * len(value))
        self._charge(name, 2 + len(value))
        for member in value.values() if kind is dict else value:
            self._measure(name, member)
        if kind is dict:
            self._charge(name, sum(map(len, value)) + 3 * len(value))

    def _charge_document(self, name: str, value: Any, root: str) -> None:
        if root not in _LASTING_ROOTS:
            size_bytes = len(orjson.dumps(value))
            self.charge(size_bytes)
            self._charge(name, size_bytes)
            return
        sizes = self._sizes
        known = sizes.get(id(value))
        if known is None:
            known = (value, len(orjson.dumps(value)))
            if known[1] >= _WORTH_KEEPING_BYTES:
                if len(sizes) >= _MOST_KEPT_SIZES:
                    sizes.clear()
                sizes[id(value)] = known
        self._charge(name, known[1])
        self.shared_bytes += known[1]

    def _charge(self, name: str, size_bytes: int) -> None:
        self.size_bytes += size_bytes
        if self.size_bytes > self._limit:
            raise ExpressionError(
                f"with {shown(name)} the object becomes larger than {self._limit // 1024**2} MB. "
                "Pass less, or write a file and pass its address"
            )


def _text_bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def measured(scope: SizedScope, members: dict[str, Any], limit_bytes: int) -> Resolved:
    """An object that needs no evaluation, as if it had been one."""
    run = SizedRun(scope, limit_bytes)
    run.look_up_all(members)
    return run.resolved(members)
