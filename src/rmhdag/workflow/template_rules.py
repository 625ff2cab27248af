"""Rules about templates and conditions: their syntax, and that every name in them can have a value in time."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

from rmhdag.models.states import NodeType
from rmhdag.workflow.expressions import (
    CompiledTemplate,
    ExpressionError,
    Missing,
    Reference,
    compile_branch,
    compile_condition,
    compile_template,
)
from rmhdag.workflow.expressions.operators import MixedKinds
from rmhdag.workflow.handler_rules import find_output_fault
from rmhdag.workflow.known_handlers import KnownHandlers
from rmhdag.workflow.node_forms import form_of
from rmhdag.workflow.problems import did_you_mean, shorten
from rmhdag.workflow.raw_graph import RawGraph
from rmhdag.workflow.report import Report
from rmhdag.workflow.source_map import Path

_SAMPLES: dict[str, Any] = {"string": "text", "integer": 1, "number": 1.5, "boolean": True, "array": [], "object": {}}
_FAN_IN_OUTPUTS = {
    "collect": ("results", "count"),
    "concat": ("results", "count"),
    "sum": ("total", "count"),
    "first": ("result", "count"),
    "last": ("result", "count"),
    "merge": ("result", "count"),
}
_NO_SUBJECT = "inputs"

# Expressions that are more than a name take 0.1 ms each: more would make the check of one file take seconds.
MAX_PARSED = 10_000


class Place(NamedTuple):
    """Where a template is used: by which node (None for the workflow's outputs and checks), whether by a fan-out's
    child, whether in parameters, the only place for secrets, and whether before there is a job."""

    node: str | None
    in_child: bool = False
    takes_secrets: bool = False
    inputs_only: bool = False


class TemplateRules:
    def __init__(
        self,
        data: dict[str, Any],
        graph: RawGraph,
        env_names: Collection[str],
        report: Report,
        handlers: KnownHandlers | None = None,
    ) -> None:
        inputs = data.get("inputs")
        self.inputs: dict[str, Any] = inputs if isinstance(inputs, dict) else {}
        self.secrets = [
            name
            for name, declared in self.inputs.items()
            if isinstance(declared, dict) and declared.get("secret") is True
        ]
        self.outputs = data.get("outputs")
        self.graph = graph
        self.ancestors = graph.ancestors()
        self.env_names = env_names
        self.handlers = handlers
        self.report = report
        self.parsed = 0

    def check(self) -> None:
        for name, node in self.graph.nodes.items():
            path: Path = ("nodes", name)
            fan_out = self.graph.child_of.get(name)
            place = Place(name) if fan_out is None else Place(fan_out, in_child=True)
            kind = self.graph.types[name]
            form = form_of(kind)
            self._check_value(node.get("params"), (*path, "params"), place._replace(takes_secrets=form.takes_secrets))
            for part in form.templates:
                self._check_value(node.get(part), (*path, part), place)
            if kind is NodeType.FAN_OUT:
                self._check_fan_out(node, path, place)
            elif kind is NodeType.CONDITIONAL:
                self._check_conditional(node, path, place)
        self._check_value(self.outputs, ("outputs",), Place(None))

    def check_value(self, value: Any, path: Path, place: Place) -> None:
        """A value with templates outside of nodes and outputs."""
        self._check_value(value, path, place)

    def check_condition(self, condition: Any, path: Path, place: Place) -> None:
        if isinstance(condition, str):
            self._check_kinds(self._compile(compile_condition, condition, path, place), condition, path)

    def _check_fan_out(self, node: dict[str, Any], path: Path, place: Place) -> None:
        child = place._replace(in_child=True)
        task = node.get("task")
        if isinstance(task, dict):
            self._check_value(task.get("params"), (*path, "task", "params"), child._replace(takes_secrets=True))
        self._check_value(node.get("item_key"), (*path, "item_key"), child)
        source, where = node.get("source"), (*path, "source")
        self._check_value(source, where, place)
        if isinstance(source, str):
            self._check_source(source, where)
        elif source is not None and not isinstance(source, list):
            self._refuse_source(where)

    def _check_source(self, source: str, path: Path) -> None:
        try:
            compiled = compile_template(source)
        except ExpressionError:
            return  # reported with its template
        if compiled.is_static:
            if not isinstance(compiled.evaluate(_NOTHING), list):
                self._refuse_source(path)
            return
        if not source.strip().startswith("{{") or not source.strip().endswith("}}"):
            self._refuse_source(path)
        for root, steps in compiled.references if len(compiled.references) == 1 else ():
            declared = self._declared_type(root, steps)
            if compiled.is_lone and declared not in (None, "array"):
                self.report.add(
                    path,
                    "source-not-list",
                    f"the fan-out's source is the input `{steps[0]}`, which is of type {declared}",
                    "Declare the input as an array, or name another source",
                )

    def _refuse_source(self, path: Path) -> None:
        self.report.add(
            path,
            "source-not-list",
            "the fan-out's source is not a list",
            'Write a list, or a template such as "{{ inputs.files }}"',
        )

    def _check_conditional(self, node: dict[str, Any], path: Path, place: Place) -> None:
        self.check_condition(node.get("condition"), (*path, "condition"), place)
        subject = node.get("condition_field")
        compiled_subject: CompiledTemplate | None = None
        if isinstance(subject, str):
            compiled_subject = self._compile(compile_condition, subject, (*path, "condition_field"), place)
        branches = node.get("branches")
        for index, branch in enumerate(branches if isinstance(branches, list) else ()):
            text = branch.get("condition") if isinstance(branch, dict) else None
            if not isinstance(text, str):
                continue
            where = (*path, "branches", index, "condition")
            if compiled_subject is None:
                self._compile(lambda condition: compile_branch(_NO_SUBJECT, condition), text, where, None)
                continue
            compiled = self._compile(lambda condition: compile_branch(str(subject), condition), text, where, None)
            if compiled is not None:
                if self.secrets:
                    self._check_secrets(compiled, text, where, place)
                for reference in compiled.references - compiled_subject.references:
                    self._check_reference(reference, compiled.positions[reference], text, where, place)
                self._check_kinds(compiled, text, where)

    def _check_value(self, value: Any, path: Path, place: Place) -> None:
        """Every text inside a JSON value; keys are never templates."""
        if isinstance(value, str):
            if "{" in value:
                self._compile(compile_template, value, path, place)
        elif isinstance(value, dict):
            for key, part in value.items():
                if "{{" in key:
                    self.report.add_key(
                        (*path, key),
                        "template-in-key",
                        f"the key `{shorten(key)}` contains a template, but keys are never evaluated",
                        "Use a plain key, and the template as its value",
                    )
                self._check_value(part, (*path, key), place)
        elif isinstance(value, list):
            for index, part in enumerate(value):
                self._check_value(part, (*path, index), place)

    def _compile(self, compiler: Any, text: str, path: Path, place: Place | None) -> CompiledTemplate | None:
        if self.report.is_full or self.parsed > MAX_PARSED:
            return None
        try:
            compiled: CompiledTemplate = compiler(text)
        except ExpressionError as error:
            message, _, remedy = error.message.partition(". ")
            self.report.add_inside(path, text, error.line or 1, error.column or 1, "template", message, remedy)
            return None
        if not compiled.is_lone:
            self.parsed += 1
            if self.parsed > MAX_PARSED:
                message = f"the workflow has more than {MAX_PARSED:,} templates"
                self.report.add(
                    path, "too-many-templates", message, "Compute values in a handler, or split the workflow"
                )
        if place is not None:
            if self.secrets:
                self._check_secrets(compiled, text, path, place)
            for reference, position in compiled.positions.items():
                self._check_reference(reference, position, text, path, place)
        return compiled

    def _check_secrets(self, compiled: CompiledTemplate, text: str, path: Path, place: Place) -> None:
        """A secret goes to a handler as a whole; no expression can use it."""
        if compiled.is_lone and place.takes_secrets:
            return
        for (root, steps), position in compiled.positions.items():
            if root == "inputs" and (not steps or steps[0] in self.secrets):
                name = steps[0] if steps else self.secrets[0]
                remedy = f'Pass it by itself to a handler: "{{{{ inputs.{name} }}}}" in the `params` of a task'
                self.report.add_inside(
                    path,
                    text,
                    *position,
                    "secret-input",
                    f"the input `{name}` is secret and cannot be used here",
                    remedy,
                )

    def _check_reference(
        self, reference: Reference, position: tuple[int, int], text: str, path: Path, place: Place
    ) -> None:
        fault = self._find_fault(reference, place)
        if fault is not None:
            code, message, remedy = fault
            self.report.add_inside(path, text, *position, code, message, remedy)

    def _find_fault(self, reference: Reference, place: Place) -> tuple[str, str, str] | None:
        root, steps = reference
        if root == "inputs":
            return self._find_input_fault(steps)
        if place.inputs_only:
            return "never-resolves", f"checks run before the job, when `{root}` has no value", "Use `inputs`"
        if root == "nodes":
            return self._find_node_fault(str(steps[0]), steps, place)
        if root == "env":
            if steps[0] in self.env_names:
                return None
            return (
                "unknown-variable",
                f"the variable `{steps[0]}` may not be read by workflows",
                did_you_mean(
                    str(steps[0]), self.env_names, "Name it in the setting RMHDAG_TEMPLATE_ENV, or use an input"
                ),
            )
        if place.in_child:
            return None
        return (
            "outside-fan-out",
            f"`{root}` has a meaning only in the task of a fan-out",
            "Use `inputs` or the output of a node",
        )

    def _find_input_fault(self, steps: tuple[str | int, ...]) -> tuple[str, str, str] | None:
        if not steps:
            return None
        name = str(steps[0])
        if name not in self.inputs:
            otherwise = f"Declare `{shorten(name)}` under `inputs`"
            return "unknown-input", f"there is no input `{shorten(name)}`", did_you_mean(name, self.inputs, otherwise)
        declared = self._declared_type("inputs", steps[:1])
        if len(steps) > 1 and declared in ("string", "integer", "number", "boolean"):
            return (
                "never-resolves",
                f"the input `{name}` is of type {declared} and has no parts",
                f"Write `inputs.{name}`, or declare it as an object",
            )
        return None

    def _find_node_fault(self, name: str, steps: tuple[str | int, ...], place: Place) -> tuple[str, str, str] | None:
        if name not in self.graph.names:
            return "unknown-node", f"there is no node `{shorten(name)}`", did_you_mean(name, self.graph.names)
        fan_out = self.graph.child_of.get(name)
        if fan_out is not None:
            return (
                "never-resolves",
                f"`{name}` describes the children of `{fan_out}` and has no output of its own",
                "Read the output of the fan-in instead",
            )
        if place.node is not None and place.node in self.graph.names:
            if name == place.node:
                if place.in_child:
                    return (
                        "never-resolves",
                        f"`{name}` has no output while its children run",
                        "Use `fan_out.total` or `item`",
                    )
                return "never-resolves", f"`{name}` cannot read its own output", "Name a node that runs before it"
            if self.ancestors.comes_before(name, place.node) is False:
                return (
                    "never-resolves",
                    f"`{name}` does not run before `{place.node}`, so its output does not exist yet",
                    f"Add `depends_on: [{name}]` to `{place.node}`, or read another node",
                )
        return self._find_output_fault(name, steps)

    def _find_output_fault(self, name: str, steps: tuple[str | int, ...]) -> tuple[str, str, str] | None:
        """Nodes without a worker have outputs of a known shape, as do handlers that declare theirs."""
        if len(steps) < 3 or steps[1] != "output":
            return None
        node, kind = self.graph.nodes.get(name, {}), self.graph.types.get(name)
        if kind is NodeType.FAN_IN:
            outputs = (*_FAN_IN_OUTPUTS.get(str(node.get("aggregation", "collect")), ()), "failures")
        elif kind is NodeType.TASK:
            return find_output_fault(self.handlers, name, node.get("handler"), steps[2:])
        else:
            outputs = form_of(kind).outputs
            if not outputs:
                return None
        if steps[2] in outputs or outputs == ("failures",):
            return None
        return (
            "never-resolves",
            f"the output of `{name}` has no `{steps[2]}`",
            did_you_mean(str(steps[2]), outputs),
        )

    def _declared_type(self, root: str, steps: tuple[str | int, ...]) -> str | None:
        declared = self.inputs.get(str(steps[0])) if root == "inputs" and len(steps) == 1 else None
        kind = declared.get("type") if isinstance(declared, dict) else None
        return kind if isinstance(kind, str) and kind in _SAMPLES else None

    def _check_kinds(self, compiled: CompiledTemplate | None, text: str, path: Path) -> None:
        """Try a condition with values of the declared types: number against text is then found before any job runs."""
        if compiled is None or compiled.is_static:
            return
        samples = {reference: self._declared_type(reference.root, reference.path) for reference in compiled.references}
        if None in samples.values():
            return
        try:
            compiled.evaluate(_Samples({reference: _SAMPLES[str(kind)] for reference, kind in samples.items()}))
        except MixedKinds as error:
            message, _, remedy = error.message.partition(". ")
            self.report.add(path, "mixed-types", message, remedy)
        except ExpressionError:
            return  # depends on the value


class _Samples:
    def __init__(self, values: dict[Reference, Any]) -> None:
        self.values = values
        self.work = 0

    def lookup(self, root: str, path: tuple[str | int, ...]) -> Any:
        try:
            return self.values[Reference(root, path)]
        except KeyError:
            raise Missing(f"{root} has no value here") from None


_NOTHING = _Samples({})
