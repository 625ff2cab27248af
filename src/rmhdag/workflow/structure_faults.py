"""What is wrong with a file's shape: errors of the written models as problems with places and remedies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from rmhdag.models.limits import MAX_NODES
from rmhdag.models.states import NodeType
from rmhdag.workflow.check_models import CHECK_MODELS, MOST_CHECKS, CheckType, check_type_of
from rmhdag.workflow.node_names import NODE_NAME, NODE_NAME_REMEDY
from rmhdag.workflow.problems import did_you_mean, shorten
from rmhdag.workflow.report import Report
from rmhdag.workflow.source_map import Path
from rmhdag.workflow.structure import describe, node_type
from rmhdag.workflow.written import (
    NODE_MODELS,
    DependencyGroups,
    WrittenBranch,
    WrittenDefaults,
    WrittenInput,
    WrittenRetry,
    WrittenTask,
    WrittenTaskSpec,
    WrittenTolerance,
    WrittenWorkflow,
)

_LANGUAGE_FIELDS = frozenset({*WrittenWorkflow.model_fields, "checks", "nodes"})

_INNER_MODELS: dict[str, type[BaseModel]] = {
    "retry": WrittenRetry,
    "defaults": WrittenDefaults,
    "task": WrittenTaskSpec,
    "tolerate": WrittenTolerance,
    "depends_on": DependencyGroups,
    "branches": WrittenBranch,
    "inputs": WrittenInput,
}

_PATTERN_REMEDIES = {
    NODE_NAME: NODE_NAME_REMEDY,
    r"^[a-z][a-z0-9_-]{0,63}$": "Use a small letter, then small letters, digits, `_` and `-`, at most 64 in all",
    r"^[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)*$": "Use a name such as `raster.validate`; templates are not allowed here",
    r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$": "Use a name such as `light-tasks`; templates are not allowed here",
    r"^\.[a-z0-9][a-z0-9.]{0,15}$": "Write it with its dot and in lower case, such as `.tif`",
    r"^[^{}]+$": "Use plain text; templates are not allowed here",
    r"^[A-Za-z][A-Za-z0-9_]{0,63}$": "Use a letter, then letters, digits and `_`, at most 64 in all",
}

_TARGET_FIELDS = {
    **dict.fromkeys(("next", "on_true", "on_false"), "Write `next: name` or `next: [a, b]`"),
    **dict.fromkeys(
        ("depends_on", "all_of", "any_of"), "Write `depends_on: [a, b]`, or `all_of` and `any_of` beneath it"
    ),
}

Translation = Callable[[Mapping[str, Any], Any], tuple[str, str, str]]


def _wrong_type(kind: str, remedy: str) -> Translation:
    def translate(context: Mapping[str, Any], value: Any) -> tuple[str, str, str]:
        fits = not isinstance(value, (list, dict)) or kind.startswith(("a list", "an object"))
        return "wrong-type", f"must be {kind}, not {describe(value)}", remedy if fits else f"Give {kind}"

    return translate


def _limit(word: str, key: str) -> Translation:
    return lambda context, value: (
        "out-of-range",
        f"must be {word} {context[key]}, not {shorten(str(value))}",
        "Use a value within the limit",
    )


_TRANSLATIONS: dict[str, Translation] = {
    "string_type": _wrong_type("text", "Put it in quotes"),
    "int_type": _wrong_type("a whole number", "Write digits without quotes"),
    "int_from_float": _wrong_type("a whole number", "Write digits without a fraction"),
    "float_type": _wrong_type("a number", "Write it without quotes"),
    "bool_type": _wrong_type("true or false", "Write `true` or `false` without quotes"),
    "dict_type": _wrong_type("an object", "Write `key: value` lines beneath it"),
    "list_type": _wrong_type("a list", "Write `[a, b]` or `- a` lines beneath it"),
    "model_type": _wrong_type("an object", "Write `key: value` lines beneath it"),
    "model_attributes_type": _wrong_type("an object", "Write `key: value` lines beneath it"),
    "greater_than_equal": _limit("at least", "ge"),
    "less_than_equal": _limit("at most", "le"),
    "greater_than": _limit("more than", "gt"),
    "string_too_long": lambda context, value: (
        "too-long",
        f"has {len(value)} characters, at most {context['max_length']} are allowed",
        "Shorten it",
    ),
    "string_too_short": lambda context, value: ("empty-field", "is empty", "Give it a value or remove the line"),
    "too_short": lambda context, value: ("empty-field", "is empty", "Give it a value or remove the line"),
    "too_long": lambda context, value: (
        "too-long",
        f"has {context['actual_length']} entries, at most {context['max_length']} are allowed",
        "Shorten it",
    ),
    "literal_error": lambda context, value: (
        "unknown-value",
        f"cannot be {describe(value)}",
        _literal_remedy(context["expected"], value),
    ),
    "string_pattern_mismatch": lambda context, value: (
        "bad-name",
        f"cannot be `{shorten(value)}`",
        _PATTERN_REMEDIES.get(context["pattern"], f"It must match {context['pattern']}"),
    ),
}


def _literal_remedy(expected: str, value: Any) -> str:
    choices = [word.strip().strip("'") for word in expected.replace(" or ", ", ").split(",")]
    choices = ["true" if choice == "True" else choice for choice in choices]
    if len(choices) == 1:
        return f"Write `{choices[0]}`"
    return did_you_mean(str(value), choices, f"Use one of {', '.join(choices)}")


def report_structure(data: dict[str, Any], report: Report) -> None:
    """Check each field by itself."""
    head = {key: value for key, value in data.items() if key not in ("nodes", "checks")}
    _check_model(WrittenWorkflow, head, (), "the workflow", report)
    if "checks" in data:
        _check_checks(data["checks"], report)
    nodes = data.get("nodes")
    if "nodes" not in data:
        report.add_key((), "missing-field", "the workflow lacks `nodes`", "Add `nodes:` with at least one node")
    elif not isinstance(nodes, dict):
        report.add(
            ("nodes",),
            "wrong-type",
            f"`nodes` must be an object, not {describe(nodes)}",
            "Write `name:` and the node's fields beneath it",
        )
    elif not nodes:
        report.add(("nodes",), "empty-field", "`nodes` is empty", "Add at least one node")
    elif len(nodes) > MAX_NODES:
        report.add_key(
            ("nodes",),
            "too-many-nodes",
            f"the workflow has {len(nodes):,} nodes, at most {MAX_NODES:,} are allowed",
            "Use a fan-out, or split it into several workflows",
        )
    else:
        for node_id, node in nodes.items():
            _check_node(node_id, node, report)


def is_input(declared: dict[str, Any]) -> bool:
    """Whether one declaration has the right shape."""
    try:
        WrittenInput.model_validate(declared)
    except ValidationError:
        return False
    return True


def report_input(declared: dict[str, Any], path: Path, report: Report) -> None:
    """Report what is wrong with a declaration inside another."""
    _check_model(WrittenInput, declared, path, f"`{shorten(str(path[-1]))}`", report)


def _check_checks(checks: Any, report: Report) -> None:
    if not isinstance(checks, list):
        what = f"`checks` must be a list, not {describe(checks)}"
        report.add(("checks",), "wrong-type", what, "Write `- type: blob_exists` and its fields beneath it")
    elif len(checks) > MOST_CHECKS:
        what = f"`checks` has {len(checks)} entries, at most {MOST_CHECKS} are allowed"
        report.add_key(("checks",), "too-long", what, "Shorten it")
    else:
        for index, check in enumerate(checks):
            _check_check(check, ("checks", index), report)


def _check_check(check: Any, path: Path, report: Report) -> None:
    kind = check_type_of(check)
    if not isinstance(check, dict):
        what = f"a check must be an object, not {describe(check)}"
        report.add(path, "wrong-type", what, "Write `type: blob_exists` and its fields beneath it")
    elif "type" not in check:
        remedy = f"Add `type` with one of {', '.join(CheckType)}"
        report.add(path, "missing-field", "the check lacks `type`", remedy)
    elif kind is None:
        what = f"`type` cannot be {describe(check['type'])}"
        report.add((*path, "type"), "unknown-type", what, did_you_mean(str(check["type"]), CheckType))
    else:
        article = "an" if kind.value[0] in "ae" else "a"
        _check_model(CHECK_MODELS[kind], check, path, f"{article} {kind.value} check", report)


def _check_node(node_id: str, node: Any, report: Report) -> None:
    path: Path = ("nodes", node_id)
    if not isinstance(node, dict):
        report.add_key(
            path,
            "wrong-type",
            f"node `{shorten(node_id)}` must be an object, not {describe(node)}",
            "Write its fields beneath it",
        )
        return
    kind = node_type(node)
    if kind is not None:
        _check_model(
            NODE_MODELS[kind], node, path, f"{'an' if kind.value[0] in 'ae' else 'a'} {kind.value} node", report
        )
    elif "type" not in node:
        unknown = [field for field in node if field not in WrittenTask.model_fields]
        if "task" in node or "child_node" in node:
            remedy = "Add `type: fan_out`"
        elif "branches" in node or "condition" in node:
            remedy = "Add `type: conditional`"
        elif unknown and did_you_mean(unknown[0], ["handler"]).endswith("`handler`?"):
            remedy = f"Did you mean `handler` instead of `{shorten(unknown[0])}`?"
        else:
            remedy = "Add `handler`, or `type` with one of " + ", ".join(NodeType)
        report.add_key(path, "missing-field", f"node `{shorten(node_id)}` has neither `type` nor `handler`", remedy)
    else:
        written = node["type"]
        remedy = did_you_mean(str(written), NodeType)
        report.add((*path, "type"), "unknown-type", f"`type` cannot be {describe(written)}", remedy)


def _check_model(model: type[BaseModel], value: Any, path: Path, owner: str, report: Report) -> None:
    empty = set(_empty_fields(model, value, ()))
    for location in empty:
        name = location[-1]
        report.add_key((*path, *location), "empty-field", f"`{name}` is empty", "Give it a value or remove the line")
    try:
        model.model_validate(value)
    except ValidationError as error:
        for fault in error.errors(include_url=False):
            if not any(fault["loc"][: len(location)] == location for location in empty):
                _translate(fault, path, value, owner, model, report)


def _empty_fields(model: type[BaseModel], value: Any, path: Path) -> Iterator[Path]:
    """Fields without a value are reported as mistakes. Only an input's default may be null."""
    if isinstance(value, list):
        for index, part in enumerate(value):
            yield from _empty_fields(model, part, (*path, index))
    if not isinstance(value, dict):
        return
    for key, part in value.items():
        if key not in model.model_fields:
            continue
        if part is None:
            if model is not WrittenInput or key != "default":
                yield (*path, key)
        elif key == "inputs" and isinstance(part, dict):
            for name, declared in part.items():
                yield from _empty_fields(WrittenInput, declared, (*path, key, name))
        elif key in _INNER_MODELS:
            yield from _empty_fields(_INNER_MODELS[key], part, (*path, key))


def _translate(fault: Any, path: Path, value: Any, owner: str, model: type[BaseModel], report: Report) -> None:
    location = _written_path(tuple(fault["loc"]), value)
    place: Path = (*path, *location)
    name = _name_of(location)
    if fault["type"] == "extra_forbidden":
        fields = _fields_around(location, model)
        where = owner if len(location) == 1 else _owner_name(location[:-1])
        report.add_key(
            place, "unknown-field", f"{where} has no field `{shorten(name)}`", _field_remedy(name, fields, len(place))
        )
        return
    if fault["type"] == "missing":
        where = owner if len(location) == 1 else _owner_name(location[:-1])
        report.add_key(place[:-1], "missing-field", f"{where} lacks `{name}`", f"Add `{name}`")
        return
    is_key = location[-1:] == ("[key]",)
    if is_key:
        place = (*path, *location[:-1])
        name = str(location[-2])
    translate = _TRANSLATIONS.get(fault["type"])
    if name in _TARGET_FIELDS and fault["type"] in ("list_type", "model_type", "string_type"):
        code, message = "wrong-type", f"must be a node's name or a list of them, not {describe(fault['input'])}"
        remedy = _TARGET_FIELDS[name]
    elif name == "branches" and fault["type"] == "list_type" and isinstance(fault["input"], dict):
        code, message, remedy = "wrong-type", "must be a list, not an object", _branches_remedy(fault["input"])
    elif translate is None:
        code, message, remedy = "wrong-value", f"is wrong: {fault['msg']}", "Correct the value"
    else:
        code, message, remedy = translate(fault.get("ctx", {}), fault["input"])
    subject = f"the name `{shorten(name)}`" if is_key else f"`{shorten(name)}`"
    if is_key:
        report.add_key(place, code, f"{subject} is not allowed", remedy)
    else:
        report.add(place, code, f"{subject} {message}", remedy)


def _branches_remedy(branches: dict[str, Any]) -> str:
    """The original system's documents have `branches: {true: a, false: b}`."""
    by_answer = {key.lower(): target for key, target in branches.items() if isinstance(target, str)}
    if by_answer.keys() == {"true", "false"}:
        targets, otherwise = shorten(by_answer["true"]), shorten(by_answer["false"])
        return f"Write `on_true: {targets}` and `on_false: {otherwise}` instead of `branches`"
    return 'Write a list: `- {condition: "< 100", next: name}` and `- {default: true, next: name}`'


def _written_path(location: Path, value: Any) -> Path:
    """The path in the file: a list under `depends_on` stands for its `all_of`, a single text for a list of one."""
    if location[:2] == ("depends_on", "all_of") and not isinstance(value["depends_on"], dict):
        location = ("depends_on", *location[2:])
    current = value
    for index, step in enumerate(location):
        if isinstance(current, dict):
            current = current.get(step)
        elif isinstance(current, list) and isinstance(step, int):
            current = current[step]
        elif isinstance(current, str) and isinstance(step, int):
            return location[:index]
    return location


def _name_of(location: Path) -> str:
    """The nearest field name: an item of a list has the name of its list."""
    for step in reversed(location):
        if isinstance(step, str):
            return step
    return str(location[-1]) if location else ""


def _owner_name(location: Path) -> str:
    return "this branch" if location[0] == "branches" else f"`{_name_of(location)}`"


def _fields_around(location: Path, model: type[BaseModel]) -> list[str]:
    """The fields that exist where an unknown one was found."""
    fields: type[BaseModel] = model
    for step in location[:-1]:
        fields = _INNER_MODELS.get(str(step), fields)
    names = list(fields.model_fields)
    return [*names, "checks", "nodes"] if fields is WrittenWorkflow else names


def _field_remedy(name: str, fields: list[str], depth: int) -> str:
    if depth > 1 and name in _LANGUAGE_FIELDS and name not in fields:
        return f"`{name}` belongs to the workflow, not here: check the indentation"
    return did_you_mean(name, fields)
