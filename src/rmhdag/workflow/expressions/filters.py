"""The filters and tests of the expression language: each bounded, each strict about the kinds it takes."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from rmhdag.workflow.expressions.budget import CHARACTER, ELEMENT, Run, refuse_long_text, search_work
from rmhdag.workflow.expressions.errors import ExpressionError
from rmhdag.workflow.expressions.operators import number
from rmhdag.workflow.expressions.values import MAX_INTEGER, MAX_TEXT_CHARACTERS, MIN_INTEGER, kind, text_of

MAX_LIST_ITEMS = 100_000


class Filter(NamedTuple):
    """`parameters` are the names of the arguments after the value; the first `required` ones must be given."""

    apply: Callable[..., Any]
    parameters: tuple[str, ...] = ()
    required: int = 0


def _text(run: Run, value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise ExpressionError(f"`{name}` takes text, not {kind(value)}. Convert with `| string` first")
    run.charge(CHARACTER * len(value), name)
    return value


def _list(run: Run, value: Any, name: str) -> Sequence[Any]:
    if not isinstance(value, (list, tuple)):
        raise ExpressionError(f"`{name}` takes a list, not {kind(value)}. Give it a list")
    if len(value) > MAX_LIST_ITEMS:
        raise ExpressionError(
            f"`{name}` takes at most {MAX_LIST_ITEMS:,} items, not {len(value):,}. Do this in a handler"
        )
    run.charge(ELEMENT * len(value), name)
    return value


def _measure(run: Run, value: Any) -> int:
    """Roughly the characters of the value as JSON; stops counting beyond the longest text, however large it is."""
    total = 0
    pending = [value]
    while pending and total <= MAX_TEXT_CHARACTERS:
        current = pending.pop()
        total += 4
        if isinstance(current, str):
            total += len(current)
        elif isinstance(current, dict):
            run.charge(8 * ELEMENT * len(current), "tojson")
            total += sum(map(len, current))
            pending.extend(current.values())
        elif isinstance(current, (list, tuple)):
            if len(current) > MAX_TEXT_CHARACTERS:
                return len(current)
            run.charge(7 * ELEMENT * len(current), "tojson")
            pending.extend(current)
    return total


def _length(run: Run, value: Any) -> int:
    if not isinstance(value, (str, list, tuple, dict)):
        raise ExpressionError(f"`length` takes text, a list or an object, not {kind(value)}. Give it one of these")
    return len(value)


def _cased(run: Run, value: Any, name: str) -> str:
    """Letters outside ASCII are looked up one by one, and some become several."""
    text = _text(run, value, name)
    run.charge(0 if text.isascii() else 8 * CHARACTER * len(text), name)
    return text


def _lower(run: Run, value: Any) -> str:
    return _cased(run, value, "lower").lower()


def _upper(run: Run, value: Any) -> str:
    return _cased(run, value, "upper").upper()


def _trim(run: Run, value: Any) -> str:
    return _text(run, value, "trim").strip()


def _string(run: Run, value: Any) -> str:
    return text_of(value)


def _integer(run: Run, value: Any) -> int:
    try:
        result = int(value) if isinstance(value, str) and len(value) <= 40 else math.trunc(number(value, "int"))
    except ValueError:
        raise ExpressionError("the text is not a whole number. Give digits only") from None
    if not MIN_INTEGER <= result <= MAX_INTEGER:
        raise ExpressionError("the number does not fit 64 bits. Use a smaller number")
    return result


def _float(run: Run, value: Any) -> float:
    try:
        result = float(value) if isinstance(value, str) and len(value) <= 40 else float(number(value, "float"))
    except ValueError:
        raise ExpressionError("the text is not a number. Give a number such as 2.5") from None
    if not math.isfinite(result):
        raise ExpressionError("the number is not finite. Give a number such as 2.5")
    return result


def _round(run: Run, value: Any, precision: Any = 0) -> int | float:
    places = number(precision, "round")
    if not isinstance(places, int) or not 0 <= places <= 15:
        raise ExpressionError("`round` takes 0 to 15 decimal places. Write `| round(2)`")
    taken = number(value, "round")
    return round(taken, places) if places else round(taken)


def _abs(run: Run, value: Any) -> int | float:
    return abs(number(value, "abs"))


def _join(run: Run, value: Any, separator: Any = "") -> str:
    values = _list(run, value, "join")
    run.charge(4 * ELEMENT * sum(not isinstance(part, str) for part in values), "join")
    parts = [text_of(part) for part in values]
    between = _text(run, separator, "join")
    length = sum(map(len, parts)) + len(between) * max(len(parts) - 1, 0)
    refuse_long_text(length)
    run.charge(CHARACTER * length, "join")
    return between.join(parts)


def _first(run: Run, value: Any) -> Any:
    return _end_of(value, 0, "first")


def _last(run: Run, value: Any) -> Any:
    return _end_of(value, -1, "last")


def _end_of(value: Any, position: int, name: str) -> Any:
    if not isinstance(value, (list, tuple)):
        raise ExpressionError(f"`{name}` takes a list, not {kind(value)}. Give it a list")
    if not value:
        raise ExpressionError(f"`{name}` of an empty list has no value. Test with `| length` first")
    return value[position]


def _orderable(run: Run, value: Any, name: str) -> Sequence[Any]:
    values = _list(run, value, name)
    kinds = {kind(item) for item in values}
    if kinds - {"number"} and kinds - {"text"}:
        mixed = " and ".join(sorted(kinds))
        raise ExpressionError(
            f"`{name}` takes a list of numbers or a list of texts, not of {mixed}. Convert them first"
        )
    if "text" in kinds:
        run.charge(sum(map(len, values)) // 4, name)
    return values


def _min(run: Run, value: Any) -> Any:
    return min(_not_empty(_orderable(run, value, "min"), "min"))


def _max(run: Run, value: Any) -> Any:
    return max(_not_empty(_orderable(run, value, "max"), "max"))


def _not_empty(values: Sequence[Any], name: str) -> Sequence[Any]:
    if not values:
        raise ExpressionError(f"`{name}` of an empty list has no value. Test with `| length` first")
    return values


def _sum(run: Run, value: Any) -> int | float:
    total: int | float = 0
    run.charge(ELEMENT * len(_list(run, value, "sum")), "sum")
    for item in value:
        total += number(item, "sum")
    return number(total, "sum")


def _sort(run: Run, value: Any, reverse: Any = False) -> list[Any]:
    values = _orderable(run, value, "sort")
    comparisons = len(values).bit_length()  # of each with others
    letters = sum(map(len, values)) // 4 if values and isinstance(values[0], str) else 0
    run.charge(comparisons * (ELEMENT * len(values) + letters), "sort")
    return sorted(values, reverse=bool(reverse))


def _unique(run: Run, value: Any) -> list[Any]:
    values = _list(run, value, "unique")
    run.charge(5 * ELEMENT * len(values) + sum(len(item) for item in values if isinstance(item, str)), "unique")
    seen: dict[tuple[str, Any], None] = {}
    for item in values:
        item_kind = kind(item)
        if item_kind in ("list", "object"):
            raise ExpressionError(f"`unique` takes plain values, not a list of {item_kind}s. Do this in a handler")
        seen[item_kind, item] = None
    return [item for _, item in seen]


def _replace(run: Run, value: Any, old: Any, new: Any) -> str:
    taken, search, put = (_text(run, part, "replace") for part in (value, old, new))
    if not search:
        raise ExpressionError("`replace` of an empty text has no meaning. Name the text to replace")
    # Once to count, once to replace.
    run.charge(2 * search_work(taken, search), "replace")
    length = len(taken) + taken.count(search) * (len(put) - len(search))
    refuse_long_text(length)
    run.charge(CHARACTER * length + 4 * len(taken), "replace")
    return taken.replace(search, put)


def _split(run: Run, value: Any, separator: Any = None) -> list[str]:
    taken = _text(run, value, "split")
    if separator is None:
        parts = taken.split(None, MAX_LIST_ITEMS)
    else:
        between = _text(run, separator, "split")
        if not between:
            raise ExpressionError("`split` by an empty text has no meaning. Name the separator")
        run.charge(search_work(taken, between), "split")
        parts = taken.split(between, MAX_LIST_ITEMS)
    run.charge(ELEMENT * len(parts), "split")
    if len(parts) > MAX_LIST_ITEMS:
        raise ExpressionError(f"`split` makes at most {MAX_LIST_ITEMS:,} parts. Do this in a handler")
    return parts


def _basename(run: Run, value: Any) -> str:
    return _text(run, value, "basename").rstrip("/").rpartition("/")[2]


def _dirname(run: Run, value: Any) -> str:
    return _text(run, value, "dirname").rstrip("/").rpartition("/")[0]


def _stem(run: Run, value: Any) -> str:
    name = _basename(run, value)
    before, _, _ = name.rpartition(".")
    return before or name


def _tojson(run: Run, value: Any) -> str:
    length = _measure(run, value)
    refuse_long_text(length)
    run.charge(5 * CHARACTER * length, "tojson")
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (ValueError, TypeError, RecursionError) as error:
        raise ExpressionError(f"the value is not JSON: {error}. Give a JSON value") from None
    refuse_long_text(len(text))
    return text


def _keys(run: Run, value: Any) -> list[str]:
    if not isinstance(value, dict):
        raise ExpressionError(f"`keys` takes an object, not {kind(value)}. Give it an object")
    return list(_list(run, list(value), "keys"))


FILTERS: dict[str, Filter] = {
    "abs": Filter(_abs),
    "basename": Filter(_basename),
    "dirname": Filter(_dirname),
    "first": Filter(_first),
    "float": Filter(_float),
    "int": Filter(_integer),
    "join": Filter(_join, ("separator",)),
    "keys": Filter(_keys),
    "last": Filter(_last),
    "length": Filter(_length),
    "lower": Filter(_lower),
    "max": Filter(_max),
    "min": Filter(_min),
    "replace": Filter(_replace, ("old", "new"), 2),
    "round": Filter(_round, ("precision",)),
    "sort": Filter(_sort, ("reverse",)),
    "split": Filter(_split, ("separator",)),
    "stem": Filter(_stem),
    "string": Filter(_string),
    "sum": Filter(_sum),
    "tojson": Filter(_tojson),
    "trim": Filter(_trim),
    "unique": Filter(_unique),
    "upper": Filter(_upper),
}

# The compiler itself knows `default`, `defined` and `undefined`, because they must see what is missing.
DEFAULT_FILTER = "default"
PRESENCE_TESTS = {"defined": True, "undefined": False}


def _whole(value: Any, name: str) -> int:
    taken = number(value, name)
    if not isinstance(taken, int):
        raise ExpressionError(f"`is {name}` takes a whole number. Round it first")
    return taken


TESTS: dict[str, Callable[[Any], bool]] = {
    "boolean": lambda value: isinstance(value, bool),
    "even": lambda value: _whole(value, "even") % 2 == 0,
    "false": lambda value: value is False,
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "mapping": lambda value: isinstance(value, dict),
    "none": lambda value: value is None,
    "number": lambda value: kind(value) == "number",
    "odd": lambda value: _whole(value, "odd") % 2 == 1,
    "sequence": lambda value: isinstance(value, (list, tuple)),
    "string": lambda value: isinstance(value, str),
    "true": lambda value: value is True,
}
