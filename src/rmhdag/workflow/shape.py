"""Whether a value has the shape that a JSON Schema describes: yes or no, and nothing about why.

It answers for valid files, which are most, without the models, whose import alone is a third of a start. Known are
the words that the language's own schema uses; another one is an error and not a guess. In one thing it is stricter than
JSON Schema, as the models are: 3.0 is no integer.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any

from rmhdag.workflow.parameters import all_differ, is_type, same

Schema = dict[str, Any]
Rule = Callable[[Any, Any, Schema, Schema], bool]


class UnknownWord(ValueError):
    """The schema says something that is not understood here."""


def fits(schema: Schema | bool, value: Any, whole: Schema) -> bool:
    """`whole` is where references are looked up."""
    if isinstance(schema, bool):
        return schema
    for word, limit in schema.items():
        rule = RULES.get(word)
        if rule is None:
            if word not in SILENT:
                raise UnknownWord(f"`{word}` is not known")
        elif not rule(limit, value, schema, whole):
            return False
    return True


def _has_type(limit: Any, value: Any, schema: Schema, whole: Schema) -> bool:
    if limit == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    return is_type(value, limit)


def _is_among(limit: Any, value: Any, schema: Schema, whole: Schema) -> bool:
    return any(same(value, choice) for choice in limit)


def _has_known_members(limit: Any, value: Any, schema: Schema, whole: Schema) -> bool:
    if not isinstance(value, dict):
        return True
    return all(fits(limit[key], part, whole) for key, part in value.items() if key in limit)


def _has_other_members(limit: Any, value: Any, schema: Schema, whole: Schema) -> bool:
    if not isinstance(value, dict):
        return True
    known = schema.get("properties", {})
    return all(fits(limit, part, whole) for key, part in value.items() if key not in known)


def _refers(limit: Any, value: Any, schema: Schema, whole: Schema) -> bool:
    start, _, name = limit.rpartition("/")
    if start != "#/$defs":
        raise UnknownWord(f"the reference `{limit}` is not known")
    return fits(whole["$defs"][name], value, whole)


@cache
def _matcher(pattern: str) -> Callable[[str], object]:
    """Of the whole text: Python's own `$` would let a line end pass."""
    if not (pattern.startswith("^") and pattern.endswith("$")):
        raise UnknownWord(f"the pattern `{pattern}` does not say where it begins and ends")
    return re.compile(pattern[1:-1]).fullmatch


def _when(kind: type | tuple[type, ...], holds: Callable[[Any, Any], bool]) -> Rule:
    """A limit that says nothing about values of other kinds."""
    return lambda limit, value, schema, whole: (
        not isinstance(value, kind) or isinstance(value, bool) or holds(value, limit)
    )


_NUMBER = (int, float)
RULES: dict[str, Rule] = {
    "type": _has_type,
    "enum": _is_among,
    "const": lambda limit, value, schema, whole: same(value, limit),
    "$ref": _refers,
    "properties": _has_known_members,
    "additionalProperties": _has_other_members,
    "propertyNames": lambda limit, value, schema, whole: (
        not isinstance(value, dict) or all(fits(limit, key, whole) for key in value)
    ),
    "required": _when(dict, lambda value, names: all(name in value for name in names)),
    "minProperties": _when(dict, lambda value, count: len(value) >= count),
    "maxProperties": _when(dict, lambda value, count: len(value) <= count),
    "items": lambda limit, value, schema, whole: (
        not isinstance(value, list) or all(fits(limit, item, whole) for item in value)
    ),
    "minItems": _when(list, lambda value, count: len(value) >= count),
    "maxItems": _when(list, lambda value, count: len(value) <= count),
    "uniqueItems": _when(list, lambda value, wanted: not wanted or all_differ(value)),
    "minLength": _when(str, lambda value, count: len(value) >= count),
    "maxLength": _when(str, lambda value, count: len(value) <= count),
    "pattern": _when(str, lambda value, pattern: _matcher(pattern)(value) is not None),
    "minimum": _when(_NUMBER, lambda value, bound: value >= bound),
    "maximum": _when(_NUMBER, lambda value, bound: value <= bound),
    "exclusiveMinimum": _when(_NUMBER, lambda value, bound: value > bound),
    "anyOf": lambda limit, value, schema, whole: any(fits(choice, value, whole) for choice in limit),
    "oneOf": lambda limit, value, schema, whole: sum(fits(choice, value, whole) for choice in limit) == 1,
    "allOf": lambda limit, value, schema, whole: all(fits(part, value, whole) for part in limit),
    "not": lambda limit, value, schema, whole: not fits(limit, value, whole),
    "if": lambda limit, value, schema, whole: not fits(limit, value, whole) or fits(schema["then"], value, whole),
}

# Words that say nothing about the value, or that another word reads.
SILENT = frozenset({"$schema", "$defs", "title", "description", "default", "then"})
