"""Fan-in as a streaming reducer: children go in by index, JSON text comes out piece by piece.

100,000 outputs of 1 KB would take half a gigabyte as Python objects; as text they only pass through.
"""

from __future__ import annotations

import math
from typing import Any

import orjson

from rmhdag.models.limits import NAMED_FAILURES, PAYLOAD_BYTES
from rmhdag.workflow.definition import FanInNode

MAX_OUTPUT_BYTES = PAYLOAD_BYTES

_LARGEST_INTEGER = 2**63 - 1


class ReduceError(Exception):
    """The children's outputs do not fit the aggregation; the message names the child."""


def _too_large() -> ReduceError:
    return ReduceError(
        f"the aggregated output is larger than {MAX_OUTPUT_BYTES // 1024**2} MB; "
        f"return less from each child, or write files and return their names"
    )


class Reducer:
    """`open`, then `add` or `fail` once per child in index order, then `close`; the pieces joined are the output."""

    def __init__(self, aggregation: str, field: str | None = None, *, lists_failures: bool = False) -> None:
        self._aggregation = aggregation
        self._field = field
        self._lists_failures = lists_failures
        self._count = 0
        self._failures: list[dict[str, Any]] = []
        self._first_piece = True
        self._total: int | float = 0
        self._kept: Any = None
        self._merged: dict[str, Any] = {}
        self._sizes: dict[str, int] = {}
        self._held = 0
        self._written = 0

    @classmethod
    def for_node(cls, node: FanInNode) -> Reducer:
        return cls(node.aggregation, node.field, lists_failures=node.tolerate is not None)

    @property
    def _streams(self) -> bool:
        return self._aggregation in ("collect", "concat")

    def open(self) -> bytes:
        return self._within_cap(b'{"results":[') if self._streams else b""

    def add(self, child_id: str, output: Any) -> bytes:
        """One completed child."""
        self._count += 1
        match self._aggregation:
            case "collect":
                return self._pieces([output])
            case "concat":
                return self._pieces(self._lists_of(child_id, output))
            case "sum":
                self._total += sum(self._numbers_of(child_id, output))
            case "first":
                if self._count == 1:
                    self._kept = output
            case "last":
                self._kept = output
            case "merge":
                if not isinstance(output, dict):
                    raise ReduceError(f"{child_id}: `merge` needs objects, its output is {_kind(output)}")
                self._merge(output)
        return b""

    def _merge(self, output: dict[str, Any]) -> None:
        """The size is checked while the value grows, not when it is written."""
        for key, value in output.items():
            size = len(orjson.dumps(value)) + len(key) + 4
            self._held += size - self._sizes.get(key, 0)
            self._sizes[key] = size
            if self._held > MAX_OUTPUT_BYTES:
                raise _too_large()
            self._merged[key] = value

    def fail(self, child_id: str, message: str | None) -> None:
        """One tolerated failure."""
        if len(self._failures) < NAMED_FAILURES:
            self._failures.append({"node_id": child_id, "error": message})

    def close(self) -> bytes:
        rest: dict[str, Any] = {}
        if self._aggregation == "sum":
            rest["total"] = self._checked_total()
        elif self._aggregation in ("first", "last"):
            rest["result"] = self._kept
        elif self._aggregation == "merge":
            rest["result"] = self._merged
        rest["count"] = self._count
        if self._lists_failures:
            rest["failures"] = self._failures
        text = orjson.dumps(rest)
        return self._within_cap(b"]," + text[1:] if self._streams else text)

    def _pieces(self, values: list[Any]) -> bytes:
        if not values:
            return b""
        text = orjson.dumps(values)[1:-1]
        if not self._first_piece:
            text = b"," + text
        self._first_piece = False
        return self._within_cap(text)

    def _within_cap(self, text: bytes) -> bytes:
        self._written += len(text)
        if self._written > MAX_OUTPUT_BYTES:
            raise _too_large()
        return text

    def _field_of(self, child_id: str, output: Any) -> Any:
        value = output
        for key in (self._field or "").split("."):
            if not isinstance(value, dict) or key not in value:
                raise ReduceError(f"{child_id}: its output has no field {self._field!r}")
            value = value[key]
        return value

    def _lists_of(self, child_id: str, output: Any) -> list[Any]:
        if self._field is not None:
            value = self._field_of(child_id, output)
            if not isinstance(value, list):
                raise ReduceError(f"{child_id}: `concat` needs a list in {self._field!r}, found {_kind(value)}")
            return value
        if isinstance(output, list):
            return output
        if not isinstance(output, dict):
            raise ReduceError(f"{child_id}: `concat` needs lists, its output is {_kind(output)}")
        return [item for value in output.values() if isinstance(value, list) for item in value]

    def _numbers_of(self, child_id: str, output: Any) -> list[int | float]:
        if self._field is not None:
            value = self._field_of(child_id, output)
            if not _is_number(value):
                raise ReduceError(f"{child_id}: `sum` needs a number in {self._field!r}, found {_kind(value)}")
            return [value]
        if _is_number(output):
            return [output]
        if not isinstance(output, dict):
            raise ReduceError(f"{child_id}: `sum` needs numbers, its output is {_kind(output)}")
        return [value for value in output.values() if _is_number(value)]

    def _checked_total(self) -> int | float:
        total = self._total
        too_large = abs(total) > _LARGEST_INTEGER if isinstance(total, int) else not math.isfinite(total)
        if too_large:
            raise ReduceError("the sum is too large to be stored as a JSON number")
        return total


def empty_output(node: FanInNode) -> Any:
    """The output of a fan-in without children."""
    reducer = Reducer.for_node(node)
    return orjson.loads(reducer.open() + reducer.close())


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    return {"str": "text", "bool": "a boolean", "dict": "an object", "list": "a list"}.get(
        type(value).__name__, "a number"
    )
