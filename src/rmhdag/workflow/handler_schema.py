"""A handler's parameters and output against the JSON Schemas that it publishes.

Names are checked everywhere, values only if they are literal: a template may become anything. Schemas come from
Pydantic and, through workers, from any source: unknown keywords are not checked, because the handler's own model
checks the parameters again when the task runs.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from rmhdag.workflow.parameters import KINDS, Fault, Path, ValueCheck, broken_limits, describe_kind, is_type, same
from rmhdag.workflow.patterns import TooExpensive, pattern_fault
from rmhdag.workflow.problems import did_you_mean, shorten

Schema = Mapping[str, Any]

# Schemas may be recursive and contain nested choices: this many steps are enough for any realistic one.
FIRST_STEPS = 200
STEPS_PER_VALUE = 50
DEEPEST = 64
# Other names of members, by the name in `properties`.
OTHER_NAMES = "x-other-names"
_DEFINITIONS = "#/$defs/"
# Texts that YAML and JSON read as a value of another type if they have no quotes.
_PLAIN = {
    "integer": re.compile(r"-?(0|[1-9]\d{0,17})", re.ASCII),
    "number": re.compile(r"-?(0|[1-9]\d{0,17})(\.\d{1,17})?([eE][+-]?\d{1,2})?", re.ASCII),
    "boolean": re.compile("true|false"),
}


class _TooMuch(Exception):
    """The check would take too long."""


def find_param_faults(handler: str, schema: Schema, params: dict[str, Any]) -> list[Fault]:
    """What is wrong with the parameters of a task, by their paths inside `params`."""
    if not schema:
        return []
    try:
        steps = FIRST_STEPS + STEPS_PER_VALUE * _count(params)
        return _Check(schema, handler, steps).value(schema, params, (), 0)
    except (_TooMuch, TypeError, AttributeError, KeyError, ValueError, ArithmeticError):
        return []


class _Check:
    def __init__(self, whole: Schema, handler: str, steps: int) -> None:
        self._whole = whole
        self._handler = handler
        self._steps_left = steps
        self._values = ValueCheck()

    def value(self, schema: Any, value: Any, path: Path, depth: int) -> list[Fault]:
        self._step(depth)
        if not isinstance(schema, dict) or is_template(value):
            return []
        schema = resolve(schema, self._whole)
        choices = schema.get("anyOf") or schema.get("oneOf")
        if choices is not None:
            return self._choice(choices, value, path, depth + 1)
        faults = [fault for part in schema.get("allOf", ()) for fault in self.value(part, value, path, depth + 1)]
        kind = schema.get("type")
        if isinstance(kind, str) and not _has_type(value, kind):
            return [*faults, self._wrong_type(path, value, [kind])]
        if not self._is_allowed(schema, value):
            remedy = did_you_mean(str(value), map(str, [schema["const"]] if "const" in schema else schema["enum"]))
            return [*faults, Fault(path, "not-allowed", f"{self._name(path)} is none of the allowed values", remedy)]
        if isinstance(value, dict):
            faults += self._members(schema, value, path, depth)
        elif isinstance(value, list):
            faults += self._items(schema, value, path, depth)
        elif isinstance(kind, str):
            faults += [
                Fault(path, "out-of-range", f"{self._name(path)} {words}", "Change the value")
                for words in self._broken_limits(schema, value, kind)
            ]
        return faults

    def _is_allowed(self, schema: Schema, value: Any) -> bool:
        if "const" in schema:
            return same(value, schema["const"])
        allowed = schema.get("enum")
        return allowed is None or self._values.is_among(value, allowed)

    def _broken_limits(self, schema: Schema, value: Any, kind: str) -> Iterator[str]:
        yield from broken_limits({word: bound for word, bound in schema.items() if word != "format"}, value, kind)
        pattern = schema.get("pattern")
        if not isinstance(pattern, str) or kind != "string" or pattern_fault(pattern):
            return
        try:
            if not self._values.matches(pattern, value):
                yield f"must match the pattern {pattern}"
        except TooExpensive:
            return  # the handler's own model decides

    def _step(self, depth: int) -> None:
        self._steps_left -= 1
        if self._steps_left < 0 or depth > DEEPEST:
            raise _TooMuch

    def _choice(self, choices: list[Any], value: Any, path: Path, depth: int) -> list[Fault]:
        """No faults if one choice fits; otherwise the faults by the choice that was most likely meant."""
        attempts: list[list[Fault]] = []
        kinds: list[str] = []
        for choice in self._alternatives(choices, depth):
            kind = choice.get("type")
            if isinstance(kind, str) and not _has_type(value, kind):
                kinds.append(kind)
                continue
            faults = self.value(choice, value, path, depth)
            if not faults:
                return []
            attempts.append(faults)
        return min(attempts, key=len) if attempts else [self._wrong_type(path, value, kinds)]

    def _alternatives(self, choices: list[Any], depth: int) -> Iterator[Schema]:
        """Flatten nested choices."""
        for choice in choices:
            self._step(depth)
            schema = resolve(choice, self._whole)
            inner = schema.get("anyOf") or schema.get("oneOf")
            if inner is None:
                yield schema
            else:
                yield from self._alternatives(inner, depth + 1)

    def _members(self, schema: Schema, value: dict[str, Any], path: Path, depth: int) -> list[Fault]:
        declared = schema.get("properties", {})
        shown_as = {other: name for name, others in schema.get(OTHER_NAMES, {}).items() for other in others}
        rest = schema.get("additionalProperties", True)
        faults: list[Fault] = []
        for name, member in value.items():
            where = (*path, name)
            member_schema = declared.get(shown_as.get(name, name))
            if member_schema is not None:
                faults += self.value(member_schema, member, where, depth + 1)
            elif rest is False:
                owner = self._name(path) if path else f"handler `{self._handler}`"
                what = "" if path else "parameter "
                remedy = did_you_mean(name, {*declared, *shown_as}) if declared else "Remove it"
                message = f"{owner} has no {what}`{shorten(name)}`"
                faults.append(Fault(where, "unknown-parameter", message, remedy))
            else:
                faults += self.value(rest, member, where, depth + 1)
        names = {shown_as.get(name, name) for name in value}
        for name in schema.get("required", ()):
            if name not in names:
                needs = f"{self._name(path)} lacks" if path else f"handler `{self._handler}` needs the parameter"
                remedy = f"Add `{name}`" if path else f"Add `{name}` under `params`"
                faults.append(Fault((*path, name), "missing-parameter", f"{needs} `{name}`", remedy))
        return faults

    def _items(self, schema: Schema, value: list[Any], path: Path, depth: int) -> list[Fault]:
        first = schema.get("prefixItems", [])
        rest = schema.get("items", True)
        faults = [
            Fault(path, "out-of-range", f"{self._name(path)} {words}", "Change the list")
            for words in broken_limits(schema, value, "array")
        ]
        for index, item in enumerate(value):
            faults += self.value(first[index] if index < len(first) else rest, item, (*path, index), depth + 1)
        return faults

    def _wrong_type(self, path: Path, value: Any, kinds: list[str]) -> Fault:
        named = [KINDS[kind] for kind in dict.fromkeys(kinds) if kind in KINDS] or ["null"]
        must = " or ".join(named)
        message = f"{self._name(path)} must be {must}, not {describe_kind(value)}"
        return Fault(path, "wrong-type", message, _quoting_remedy(value, kinds) or f"Give {must}")

    def _name(self, path: Path) -> str:
        place = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).lstrip(".")
        return f"parameter `{shorten(place)}` of `{self._handler}`" if path else f"handler `{self._handler}`"


def _quoting_remedy(value: Any, kinds: Collection[str]) -> str | None:
    """The remedy if only the quotes are wrong."""
    if isinstance(value, str):
        is_meant = any(kind in kinds and plain.fullmatch(value) for kind, plain in _PLAIN.items())
        return f"Write {shorten(value)} without quotes" if is_meant else None
    return "Write it in quotes" if "string" in kinds and isinstance(value, (bool, int, float)) else None


def _count(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + sum(map(_count, value.values()))
    return 1 + sum(map(_count, value)) if isinstance(value, list) else 1


def _has_type(value: Any, kind: str) -> bool:
    return value is None if kind == "null" else is_type(value, kind)


def is_template(value: Any) -> bool:
    """Whether the value is only known when the job runs."""
    return isinstance(value, str) and "{{" in value


def resolve(schema: Schema, whole: Schema) -> Schema:
    """The schema behind a reference; empty if the reference is broken or circular."""
    for _ in range(DEEPEST):
        place = schema.get("$ref")
        if place is None:
            return schema
        definition = whole.get("$defs", {}).get(str(place).removeprefix(_DEFINITIONS))
        if not isinstance(definition, dict):
            return {}
        schema = definition
    return {}


def find_missing_step(schema: Schema, steps: tuple[str | int, ...]) -> tuple[int, list[str]] | None:
    """The first step into an output that does not exist, and the names that do; None if all steps may exist.

    None also for a schema that allows more members: undeclared ones may exist.
    """
    here = schema
    for place, step in enumerate(steps):
        here = resolve(here, schema)
        if not isinstance(step, str):
            return None
        declared = here.get("properties")
        if here.get("type") != "object" or not isinstance(declared, dict):
            return None
        if step not in declared:
            return None if here.get("additionalProperties") else (place, sorted(declared))
        if not isinstance(declared[step], dict):
            return None
        here = declared[step]
    return None
