"""A workflow's inputs: rules for their declarations, and the check of what is submitted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rmhdag.models.json_values import MAX_DEPTH, NotJsonError, check_json
from rmhdag.models.limits import INPUT_BYTES, INPUT_DEPTH
from rmhdag.models.refusals import Kind, Place, Refusal
from rmhdag.workflow.parameters import FORMATS, LIMIT_TYPES, Fault, ValueCheck, canonical, is_type
from rmhdag.workflow.patterns import PatternWork, pattern_fault
from rmhdag.workflow.problems import MAX_PROBLEMS, Problem, did_you_mean, few_guesses
from rmhdag.workflow.report import Report
from rmhdag.workflow.source_map import Path
from rmhdag.workflow.structure_faults import is_input, report_input

if TYPE_CHECKING:
    from rmhdag.workflow.definition import WorkflowDefinition

MAX_SCHEMA_DEPTH = 8

Declared = dict[str, dict[str, Any]]

_PAIRS = (
    ("minimum", "maximum"),
    ("exclusiveMinimum", "exclusiveMaximum"),
    ("minLength", "maxLength"),
    ("minItems", "maxItems"),
)


class InvalidInputs(Refusal, ValueError):
    """All problems of the submitted parameters, with JSON pointers into them."""

    def __init__(self, problems: list[Problem]) -> None:
        message = problems[0].message if len(problems) == 1 else f"{len(problems)} parameters are wrong"
        places = [
            Place(f"/input_params{problem.pointer}", f"{problem.message}. {problem.remedy}") for problem in problems
        ]
        super().__init__(Kind.INVALID, "invalid_parameters", message, places=places)
        self.problems = problems

    def __str__(self) -> str:
        return "\n".join(map(str, self.problems))


def validate_inputs(
    definition: WorkflowDefinition, params: Any, *, max_bytes: int = INPUT_BYTES, with_references: bool = False
) -> dict[str, Any]:
    """The parameters of a job: checked against the declared inputs, with defaults.

    Only parameters that rmhdag created itself may be `with_references`; the value behind a reference is not checked.
    """
    return _validate(declared_inputs(definition), params, ValueCheck(), max_bytes, with_references)


def declared_inputs(definition: WorkflowDefinition) -> Declared:
    """As JSON."""
    return {name: rules.model_dump(exclude_none=True) for name, rules in definition.inputs.items()}


def complete_declared(
    declared: Declared,
    params: Any,
    *,
    with_references: bool = False,
    patterns: PatternWork | None = None,
    most_faults: int = MAX_PROBLEMS,
) -> dict[str, Any]:
    """Like `validate_inputs`, and within the size limit of a job including defaults.

    Raises InvalidInputs, and OutOfWork if the budget for `patterns`, which several checks may share, is spent.
    """
    complete = _validate(declared, params, ValueCheck(patterns, most_faults), INPUT_BYTES, with_references)
    if is_unchanged(complete, params):
        return complete  # and the size is the same
    return limit_inputs(complete, with_references=with_references)


def is_unchanged(complete: Mapping[str, Any], params: Mapping[str, Any]) -> bool:
    """Whether no default was added and no value was replaced; decided without comparing the values."""
    return len(complete) == len(params) and all(
        name in params and value is params[name] for name, value in complete.items()
    )


def limit_inputs(params: dict[str, Any], *, with_references: bool = False) -> dict[str, Any]:
    """The parameters, if they are JSON and within the size limit of a job. Raises InvalidInputs."""
    _check_json(params, MAX_DEPTH, INPUT_BYTES, with_references)
    return params


def _validate(
    declared: Declared, params: Any, check: ValueCheck, max_bytes: int, with_references: bool
) -> dict[str, Any]:
    if not isinstance(params, dict):
        fault = Fault((), "wrong-type", "the parameters are not an object", 'Give `{"name": value}`')
        raise InvalidInputs([_problem(fault)])
    _check_json(params, INPUT_DEPTH, max_bytes, with_references)
    with few_guesses():
        complete = check.members(declared, params, ())
    if check.faults:
        raise InvalidInputs([_problem(fault) for fault in check.faults])
    return complete


def _check_json(params: dict[str, Any], max_depth: int, max_bytes: int, with_references: bool) -> None:
    try:
        check_json(params, max_depth=max_depth, max_bytes=max_bytes, with_references=with_references)
    except NotJsonError as error:
        raise InvalidInputs(
            [Problem("input_params", 0, 0, "not-json", error.what, error.remedy.capitalize(), error.pointer)]
        ) from None


def _problem(fault: Fault) -> Problem:
    return Problem("input_params", 0, 0, fault.code, fault.message, fault.remedy, fault.pointer)


def check_inputs(data: Mapping[str, Any], report: Report) -> None:
    """The declarations of a file."""
    inputs = data.get("inputs")
    if isinstance(inputs, dict):
        for name, declared in inputs.items():
            if report.is_full:
                return
            if isinstance(declared, dict):
                _check_declaration(name, declared, ("inputs", name), report, 1)


def _check_declaration(name: str, declared: dict[str, Any], path: Path, report: Report, depth: int) -> None:
    if depth > MAX_SCHEMA_DEPTH:
        report.add_key(
            path, "too-deep", f"`{name}` is declared deeper than {MAX_SCHEMA_DEPTH} levels", "Leave the rest open"
        )
        return
    if not is_input(declared):
        if depth > 1:
            report_input(declared, path, report)
        return  # the outermost declarations are reported with the whole file
    kind = declared["type"]
    for limit, types in LIMIT_TYPES.items():
        if limit in declared and kind not in types:
            report.add_key(
                (*path, limit),
                "useless-limit",
                f"`{limit}` has no meaning for the type {kind}",
                "Remove it, or change the type",
            )
    if declared.get("secret"):
        _check_secret(name, declared, path, report, depth)
    before = report.count
    _check_limits(declared, path, report)
    _check_nested(declared, path, report, depth)
    if report.count == before:
        _check_choices_and_default(name, declared, path, report)


def _check_secret(name: str, declared: dict[str, Any], path: Path, report: Report, depth: int) -> None:
    """Values in a file are not secret, and only whole inputs can be stored separately."""
    if declared["type"] != "string" or depth > 1:
        report.add_key(
            (*path, "secret"),
            "secret-input",
            f"`{name}` cannot be secret: only an input of type string can",
            "Make it a separate input of type string",
        )
    for field in ("default", "enum"):
        if declared.get(field) is not None:
            report.add_key(
                (*path, field),
                "secret-input",
                f"`{name}` is secret, but its `{field}` could be read by everyone in the file",
                f"Remove `{field}`",
            )


def _check_limits(declared: dict[str, Any], path: Path, report: Report) -> None:
    for low, high in _PAIRS:
        lowest, highest = declared.get(low), declared.get(high)
        if lowest is None or highest is None or not is_type(lowest, "number") or not is_type(highest, "number"):
            continue  # the shape is reported elsewhere
        if lowest > highest:
            report.add((*path, high), "contradiction", f"`{low}` is larger than `{high}`", "Exchange the two")
    pattern = declared.get("pattern")
    if isinstance(pattern, str):
        fault = pattern_fault(pattern)
        if fault:
            report.add((*path, "pattern"), "bad-pattern", f"the pattern {fault}", "Write a simpler pattern")
    named = declared.get("format")
    if isinstance(named, str) and named not in FORMATS:
        report.add(
            (*path, "format"), "unknown-value", f"there is no format `{named[:60]}`", did_you_mean(named, FORMATS)
        )


def _check_nested(declared: dict[str, Any], path: Path, report: Report, depth: int) -> None:
    items = declared.get("items")
    if isinstance(items, dict):
        _check_declaration("items", items, (*path, "items"), report, depth + 1)
    properties = declared.get("properties")
    if isinstance(properties, dict):
        for name, inner in properties.items():
            if isinstance(inner, dict):
                _check_declaration(name, inner, (*path, "properties", name), report, depth + 1)
            else:
                report.add(
                    (*path, "properties", name),
                    "wrong-type",
                    f"`{name[:60]}` must be an object",
                    "Write `type:` beneath it",
                )


def _check_choices_and_default(name: str, declared: dict[str, Any], path: Path, report: Report) -> None:
    choices = declared.get("enum")
    if isinstance(choices, list):
        if not choices:
            report.add((*path, "enum"), "empty-field", "`enum` is empty", "List the allowed values or remove it")
        limits = {key: value for key, value in declared.items() if key != "enum"}
        check, texts = ValueCheck(), set[str]()
        for index, choice in enumerate(choices):
            check.value(limits, choice, (*path, "enum", index))
            written = canonical(choice)
            if written in texts and not report.is_full:
                report.add((*path, "enum", index), "repeated-value", "this value is already allowed", "Name it once")
            texts.add(written)
        for fault in check.faults:
            report.add(fault.path, "contradiction", f"the allowed value is wrong: {fault.message}", fault.remedy)
    default = declared.get("default")
    if default is None:
        return
    if declared.get("required") is True:
        report.add_key(
            (*path, "default"),
            "contradiction",
            f"`{name}` is required, so its default is never used",
            "Remove one of the two",
        )
    check = ValueCheck()
    check.value(declared, default, (*path, "default"))
    for fault in check.faults:
        report.add(
            fault.path, "contradiction", f"the default contradicts its declaration: {fault.message}", fault.remedy
        )
