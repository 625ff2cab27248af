"""Checks values against their declarations: type, enum and limits as in JSON Schema, strictly.

The time is linear in the size of declarations and values, except for patterns, whose work is counted.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from rmhdag.models.json_values import json_pointer
from rmhdag.models.limits import SECRET_CHARACTERS
from rmhdag.models.references import as_reference
from rmhdag.workflow.patterns import OutOfWork, PatternWork, TooExpensive
from rmhdag.workflow.problems import MAX_PROBLEMS, did_you_mean

Path = tuple[str | int, ...]


class Fault(NamedTuple):
    path: Path
    code: str
    message: str
    remedy: str

    @property
    def pointer(self) -> str:
        return json_pointer(*self.path)


KINDS = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
}

_FORMATS = {
    "date": re.compile(r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])", re.ASCII),
    "date-time": re.compile(
        r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])[Tt]([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)",
        re.ASCII,
    ),
    "email": re.compile(r"[^@\s]{1,64}@[^@\s]{1,255}"),
    "uri": re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,30}:[^\s<>\"{}|\\^`]+"),
    "uuid": re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"),
}
FORMATS = tuple(_FORMATS)


def is_type(value: Any, type_name: str) -> bool:
    """JSON Schema's types: 3.0 is an integer, true is not."""
    match type_name:
        case "string":
            return isinstance(value, str)
        case "boolean":
            return isinstance(value, bool)
        case "integer":
            whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
            return whole and not isinstance(value, bool)
        case "number":
            return isinstance(value, (int, float)) and not isinstance(value, bool)
        case "array":
            return isinstance(value, list)
        case _:
            return isinstance(value, dict)


def _is_multiple(value: int | float, step: int | float) -> bool:
    quotient = value / step
    return math.isfinite(quotient) and abs(quotient - round(quotient)) < 1e-9


# limit: (types it is for, whether the value keeps it, how to say it)
_LIMITS: dict[str, tuple[tuple[str, ...], Callable[[Any, Any], bool], str]] = {
    "minimum": (("integer", "number"), lambda value, limit: value >= limit, "must be at least {}"),
    "maximum": (("integer", "number"), lambda value, limit: value <= limit, "must be at most {}"),
    "exclusiveMinimum": (("integer", "number"), lambda value, limit: value > limit, "must be more than {}"),
    "exclusiveMaximum": (("integer", "number"), lambda value, limit: value < limit, "must be less than {}"),
    "multipleOf": (("integer", "number"), _is_multiple, "must be a multiple of {}"),
    "minLength": (("string",), lambda value, limit: len(value) >= limit, "must have at least {} characters"),
    "maxLength": (("string",), lambda value, limit: len(value) <= limit, "must have at most {} characters"),
    "format": (("string",), lambda value, limit: bool(_FORMATS[limit].fullmatch(value)), "must be a {}"),
    "minItems": (("array",), lambda value, limit: len(value) >= limit, "must have at least {} items"),
    "maxItems": (("array",), lambda value, limit: len(value) <= limit, "must have at most {} items"),
    "uniqueItems": (("array",), lambda value, limit: not limit or all_differ(value), "must not repeat an item"),
}
LIMIT_TYPES = {name: types for name, (types, _, _) in _LIMITS.items()} | {
    "pattern": ("string",),
    "items": ("array",),
    "properties": ("object",),
    "additionalProperties": ("object",),
}


def same(left: Any, right: Any) -> bool:
    """JSON's equality: 1 and 1.0 are the same, 1 and true are not."""
    return left == right and canonical(left) == canonical(right)


def canonical(value: Any) -> str:
    """Equal texts for equal values, so that a set replaces the comparison of all pairs."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{key!r}:{canonical(value[key])}" for key in sorted(value)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(canonical, value)) + "]"
    if isinstance(value, float) and value.is_integer():
        return repr(int(value))
    return repr(value)


def all_differ(values: list[Any]) -> bool:
    return len(set(map(canonical, values))) == len(values)


class ValueCheck:
    """One check of many values: its faults so far, and the rest of its budget.

    Several checks may share the budget for `patterns`. Such a check raises OutOfWork where others report a fault.
    """

    def __init__(self, patterns: PatternWork | None = None, most_faults: int = MAX_PROBLEMS) -> None:
        self.faults: list[Fault] = []
        self._most_faults = most_faults
        self._patterns = patterns or PatternWork()
        self._is_trial = patterns is not None
        # By identity: the lists belong to declarations, which outlive the check.
        self._choices: dict[int, frozenset[str]] = {}

    @property
    def is_full(self) -> bool:
        """Whether there are more faults than anyone reads."""
        return len(self.faults) >= self._most_faults

    def value(self, declared: Mapping[str, Any], value: Any, path: Path) -> Any:
        """The value with nested defaults, and with floats such as 3.0 converted for integers; faults are collected."""
        type_name = str(declared["type"])
        if self.is_full or (type(value) is dict and as_reference(value) is not None):
            return value  # a reference: the value is large and stored separately, and only a task can read it
        name = _name(path)
        if not is_type(value, type_name):
            what = f"`{name}` must be {KINDS[type_name]}, not {describe_kind(value)}"
            self._add(path, "wrong-type", what, f"Give {KINDS[type_name]}")
            return value
        if declared.get("secret") and len(value) < SECRET_CHARACTERS:
            what = f"`{name}` is secret and must have at least {SECRET_CHARACTERS} characters"
            self._add(path, "out-of-range", what, "Give the value itself, not its mask")
        if type_name == "integer":
            value = int(value)
        allowed = declared.get("enum")
        if allowed is not None and not self.is_among(value, allowed):
            remedy = did_you_mean(str(value), map(str, allowed))
            self._add(path, "not-allowed", f"`{name}` is none of the allowed values", remedy)
            return value
        for words in broken_limits(declared, value, type_name):
            self._add(path, "out-of-range", f"`{name}` {words}", "Change the value")
        if type_name == "string" and declared.get("pattern") is not None:
            self._pattern(declared["pattern"], value, path)
        if type_name == "array" and declared.get("items") is not None:
            return [self.value(declared["items"], item, (*path, index)) for index, item in enumerate(value)]
        if type_name == "object" and declared.get("properties") is not None:
            others_allowed = bool(declared.get("additionalProperties", True))
            return self.members(declared["properties"], value, path, others_allowed=others_allowed, fill=False)
        return value

    def members(
        self,
        declared: Mapping[str, Mapping[str, Any]],
        values: Mapping[str, Any],
        path: Path,
        *,
        others_allowed: bool = False,
        fill: bool = True,
    ) -> dict[str, Any]:
        """Check named values against their declarations. Null counts as missing; a missing value without a default
        becomes null. Without `fill` it stays missing.
        """
        complete: dict[str, Any] = {}
        for name, value in values.items():
            if name not in declared:
                complete[name] = value
                if not others_allowed and not self.is_full:
                    remedy = did_you_mean(name, declared, "Remove it") if declared else "Remove it"
                    self._add((*path, name), "unknown-parameter", f"there is no parameter `{name[:60]}`", remedy)
        for name, rules in declared.items():
            value = values.get(name)
            if value is not None:
                complete[name] = self.value(rules, value, (*path, name))
            elif rules.get("required"):
                self._add((*path, name), "missing-parameter", f"`{name}` is required", f"Give `{name}`")
            elif fill or rules.get("default") is not None:
                complete[name] = rules.get("default")
        return complete

    def is_among(self, value: Any, allowed: list[Any]) -> bool:
        choices = self._choices.get(id(allowed))
        if choices is None:
            choices = self._choices[id(allowed)] = frozenset(map(canonical, allowed))
        return canonical(value) in choices

    def matches(self, pattern: str, text: str) -> bool:
        """Raises TooExpensive."""
        return self._patterns.matches(pattern, text)

    def _pattern(self, pattern: str, value: str, path: Path) -> None:
        try:
            if not self.matches(pattern, value):
                what = f"`{_name(path)}` must match the pattern {pattern}"
                self._add(path, "out-of-range", what, "Change the value")
        except TooExpensive as error:
            if self._is_trial and isinstance(error, OutOfWork):
                raise
            what = f"`{_name(path)}` cannot be checked: {error}"
            self._add(path, "too-expensive", what, "Shorten it, or declare the input without `pattern`")

    def _add(self, path: Path, code: str, message: str, remedy: str) -> None:
        if not self.is_full:
            self.faults.append(Fault(path, code, message, remedy))


def _name(path: Path) -> str | int:
    return f"item {path[-1]}" if path and isinstance(path[-1], int) else path[-1] if path else "value"


def broken_limits(declared: Mapping[str, Any], value: Any, kind: str) -> Iterator[str]:
    """The limits that a value of this type violates, without patterns, whose work is counted separately."""
    if declared.keys().isdisjoint(_LIMITS):
        return
    for limit, (types, keeps, words) in _LIMITS.items():
        bound = declared.get(limit)
        if bound is not None and kind in types and not keeps(value, bound):
            yield words.format(bound)


def describe_kind(value: Any) -> str:
    if value is None:
        return "null"
    for kind in ("boolean", "number", "string", "array", "object"):
        if is_type(value, kind):
            return KINDS[kind]
    return type(value).__name__
