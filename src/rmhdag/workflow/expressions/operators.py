"""Arithmetic and comparison on typed values: a number and a text are never compared, results are bounded."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from rmhdag.workflow.expressions.budget import CHARACTER, Run, refuse_long_text, search_work
from rmhdag.workflow.expressions.errors import ExpressionError
from rmhdag.workflow.expressions.values import COMPARISON, MAX_INTEGER, MIN_INTEGER, equal, kind


def number(value: Any, where: str) -> int | float:
    """The value, if it is a number that JSON and PostgreSQL can hold."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ExpressionError(f"`{where}` takes numbers, not {kind(value)}. Convert with `| int` or `| float`")
    if isinstance(value, int):
        if not MIN_INTEGER <= value <= MAX_INTEGER:
            raise ExpressionError(f"the number in `{where}` does not fit 64 bits. Use a smaller number")
    elif not math.isfinite(value):
        raise ExpressionError(f"the number in `{where}` is not finite. Use a smaller number")
    return value


def _arithmetic(symbol: str, compute: Callable[[Any, Any], Any]) -> Callable[[Run, Any, Any], Any]:
    def apply(run: Run, left: Any, right: Any) -> Any:
        try:
            return number(compute(number(left, symbol), number(right, symbol)), symbol)
        except ZeroDivisionError:
            raise ExpressionError(f"`{symbol}` by zero. Test the divisor first") from None
        except OverflowError:
            raise ExpressionError(f"the number in `{symbol}` is not finite. Use a smaller number") from None

    return apply


_add_numbers = _arithmetic("+", operator.add)


def _add(run: Run, left: Any, right: Any) -> Any:
    if isinstance(left, str) and isinstance(right, str):
        refuse_long_text(len(left) + len(right))
        run.charge(CHARACTER * (len(left) + len(right)), "+")
        return left + right
    if isinstance(left, str) or isinstance(right, str):
        raise ExpressionError(
            f"cannot add {kind(left)} and {kind(right)}. Join as text with `~`, or convert with `| int`"
        )
    return _add_numbers(run, left, right)


ARITHMETIC: dict[str, Callable[[Run, Any, Any], Any]] = {
    "+": _add,
    "-": _arithmetic("-", operator.sub),
    "*": _arithmetic("*", operator.mul),
    "/": _arithmetic("/", operator.truediv),
    "//": _arithmetic("//", operator.floordiv),
    "%": _arithmetic("%", operator.mod),
}


class MixedKinds(ExpressionError):
    """Values of different kinds were compared."""


def _refuse_mixed(left: Any, right: Any) -> MixedKinds:
    return MixedKinds(
        f"cannot compare {kind(left)} with {kind(right)}. Convert one side, for example with `| int` or `| string`"
    )


def _equal(run: Run, left: Any, right: Any) -> bool:
    if left is not None and right is not None and kind(left) != kind(right):
        raise _refuse_mixed(left, right)
    return equal(left, right, run.charge)


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Run, Any, Any], bool]:
    def apply(run: Run, left: Any, right: Any) -> bool:
        left_kind, right_kind = kind(left), kind(right)
        if left_kind != right_kind:
            raise _refuse_mixed(left, right)
        if left_kind not in ("number", "text"):
            raise ExpressionError(f"{left_kind} has no order. Compare numbers with numbers, or text with text")
        if left_kind == "text":
            run.charge(min(len(left), len(right)), "<")
        return compare(left, right)

    return apply


def _contains(run: Run, left: Any, right: Any) -> bool:
    right_kind = kind(right)
    if right_kind == "text":
        if not isinstance(left, str):
            raise _refuse_mixed(left, right)
        run.charge(search_work(right, left), "in")
        return left in right
    if right_kind == "object":
        if not isinstance(left, str):
            raise ExpressionError(f"an object's keys are text, not {kind(left)}. Convert with `| string`")
        return left in right
    if right_kind != "list":
        raise ExpressionError(
            f"`in` needs a list, text or object on its right, not {right_kind}. Write `in ['a', 'b']`"
        )
    run.charge(COMPARISON * len(right), "in")
    left_kind = kind(left)
    comparable = left is None or not right
    for item in right:
        if equal(left, item, run.charge):
            return True
        comparable = comparable or item is None or kind(item) == left_kind
    if not comparable:
        raise _refuse_mixed(left, right[0])
    return False


# By the names that Jinja2's parser gives them.
COMPARISONS: dict[str, Callable[[Run, Any, Any], bool]] = {
    "eq": _equal,
    "ne": lambda run, left, right: not _equal(run, left, right),
    "lt": _ordered(operator.lt),
    "lteq": _ordered(operator.le),
    "gt": _ordered(operator.gt),
    "gteq": _ordered(operator.ge),
    "in": _contains,
    "notin": lambda run, left, right: not _contains(run, left, right),
}
