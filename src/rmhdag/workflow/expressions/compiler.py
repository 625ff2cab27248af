"""Syntax trees to closures over typed values: an allow-list of tree nodes, constants folded, names checked.

A closure takes the run and gives a value. What depends on no name is computed here, so that a mistake in it is found
when the workflow is checked and not when it runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from jinja2 import nodes

from rmhdag.models.json_values import RESERVED_KEY
from rmhdag.workflow.expressions.budget import CHARACTER, CONSTANT_WORK, Evaluator, Path, Run, refuse_long_text
from rmhdag.workflow.expressions.errors import ExpressionError, Missing
from rmhdag.workflow.expressions.filters import DEFAULT_FILTER, FILTERS, PRESENCE_TESTS, TESTS
from rmhdag.workflow.expressions.operators import ARITHMETIC, COMPARISONS, number
from rmhdag.workflow.expressions.parser import error_at
from rmhdag.workflow.expressions.values import MAX_INTEGER, kind, member, text_of, truth
from rmhdag.workflow.former_names import FORMER_ROOTS
from rmhdag.workflow.problems import did_you_mean

ROOTS = ("inputs", "nodes", "env", "item", "index", "fan_out")
NODE_FIELDS = ("output", "status")
FAN_OUT_FIELDS = ("item", "index", "total")


class Reference(NamedTuple):
    """A name with the longest literal path after it: `{{ a.output.x[0] }}` → nodes, (a, output, x, 0)."""

    root: str
    path: Path

    def __str__(self) -> str:
        steps = (f".{step}" if isinstance(step, str) and step.isidentifier() else f"[{step!r}]" for step in self.path)
        return self.root + "".join(steps)


class Code(NamedTuple):
    """Either a constant (then `run` is None) or a closure; `lone` is set where the closure is just one look-up."""

    run: Evaluator | None
    constant: Any = None
    lone: Reference | None = None

    def closure(self) -> Evaluator:
        if self.run is not None:
            return self.run
        constant = self.constant
        return lambda run: constant


class _NoScope:
    work = 0

    def lookup(self, root: str, path: Path) -> Any:
        raise Missing(f"{root} has no value here")


NO_SCOPE = _NoScope()

_SYMBOLS: dict[type[nodes.Node], str] = {
    nodes.Add: "+",
    nodes.Sub: "-",
    nodes.Mul: "*",
    nodes.Div: "/",
    nodes.FloorDiv: "//",
    nodes.Mod: "%",
}

_REFUSED: dict[type[nodes.Node], str] = {
    nodes.Call: "calls are not allowed in templates. Use a filter, for example `{{ inputs.name | lower }}`",
    nodes.Pow: "`**` is not allowed in templates. Compute this in a handler",
    nodes.Slice: "slices are not allowed in templates. Use `first`, `last` or one position such as `[0]`",
}


class Compiler:
    """Compiles the expressions of one template, collecting its references; `subject` is a name with its own code."""

    def __init__(self, text: str, subject: tuple[str, Code] | None = None) -> None:
        self.text = text
        self.subject = subject
        self.references: dict[Reference, int] = {}

    def compile(self, node: nodes.Expr) -> Code:
        build = _BUILDERS.get(type(node))
        if build is None:
            kind_of_node = f"{type(node).__name__} is not allowed in templates. Use values, operators and filters"
            raise self._error(node, _REFUSED.get(type(node), kind_of_node))
        return build(self, node)

    def _error(self, node: nodes.Node, message: str) -> ExpressionError:
        return error_at(self.text, node.lineno, message)

    def _fold(self, node: nodes.Node, parts: list[Code], evaluator: Evaluator) -> Code:
        return self.fold_at(node.lineno, parts, evaluator)

    def fold_at(self, offset: int, parts: list[Code], evaluator: Evaluator) -> Code:
        """Compute at once what has only constant parts."""
        if any(part.run is not None for part in parts):
            return Code(evaluator)
        try:
            return Code(None, evaluator(Run(NO_SCOPE, CONSTANT_WORK)))
        except ExpressionError as error:
            raise error_at(self.text, offset, error.message) from None

    def _binary(self, node: nodes.BinExpr) -> Code:
        left, right = self.compile(node.left), self.compile(node.right)
        run_left, run_right = left.closure(), right.closure()
        if isinstance(node, nodes.And | nodes.Or):
            decided_by = isinstance(node, nodes.Or)

            def decide(run: Run) -> Any:
                value = run_left(run)
                return value if truth(value) is decided_by else run_right(run)

            return self._fold(node, [left, right], decide)
        apply = ARITHMETIC[_SYMBOLS[type(node)]]
        return self._fold(node, [left, right], lambda run: apply(run, run_left(run), run_right(run)))

    def _constant(self, node: nodes.Const) -> Code:
        value = node.value
        if isinstance(value, str):
            if any(character == "\0" or "\ud800" <= character <= "\udfff" for character in value):
                raise self._error(node, "the text holds a NUL or a lone surrogate. Remove the escape")
        elif isinstance(value, float):
            if not math.isfinite(value):
                raise self._error(node, "the number is not finite. Use a smaller number")
        elif isinstance(value, int) and not isinstance(value, bool) and value > MAX_INTEGER:
            raise self._error(node, "the number does not fit 64 bits. Use a smaller number")
        return Code(None, value)

    def _list(self, node: nodes.List | nodes.Tuple) -> Code:
        parts = [self.compile(item) for item in node.items]
        closures = [part.closure() for part in parts]
        return self._fold(node, parts, lambda run: [closure(run) for closure in closures])

    def _dict(self, node: nodes.Dict) -> Code:
        keys: list[str] = []
        parts: list[Code] = []
        for pair in node.items:
            key = pair.key
            if not isinstance(key, nodes.Const) or not isinstance(key.value, str):
                raise self._error(key, "an object's keys are quoted text. Write `{'key': value}`")
            if key.value == RESERVED_KEY:
                raise self._error(key, f"the key '{RESERVED_KEY}' is reserved by rmhdag. Rename it")
            keys.append(key.value)
            parts.append(self.compile(pair.value))
        closures = [(key, part.closure()) for key, part in zip(keys, parts, strict=True)]
        return self._fold(node, parts, lambda run: {key: closure(run) for key, closure in closures})

    def _compare(self, node: nodes.Compare) -> Code:
        first = self.compile(node.expr)
        rest = [(COMPARISONS[operand.op], self.compile(operand.expr)) for operand in node.ops]
        run_first = first.closure()
        links = [(apply, code.closure()) for apply, code in rest]

        def evaluate(run: Run) -> bool:
            left = run_first(run)
            for apply, closure in links:
                right = closure(run)
                if not apply(run, left, right):
                    return False
                left = right
            return True

        return self._fold(node.expr, [first, *(code for _, code in rest)], evaluate)

    def _unary(self, node: nodes.UnaryExpr) -> Code:
        inner = self.compile(node.node)
        run_inner = inner.closure()
        evaluators: dict[type[nodes.Node], Evaluator] = {
            nodes.Not: lambda run: not truth(run_inner(run)),
            nodes.Neg: lambda run: number(-number(run_inner(run), "-"), "-"),
            nodes.Pos: lambda run: number(run_inner(run), "+"),
        }
        return self._fold(node, [inner], evaluators[type(node)])

    def _concat(self, node: nodes.Concat) -> Code:
        parts = [self.compile(part) for part in node.nodes]
        return self._fold(node, parts, join_texts([part.closure() for part in parts]))

    def _choice(self, node: nodes.CondExpr) -> Code:
        if node.expr2 is None:
            raise self._error(node, "a choice needs both sides. Write `a if condition else b`")
        parts = [self.compile(part) for part in (node.test, node.expr1, node.expr2)]
        test, when_true, when_false = (part.closure() for part in parts)
        return self._fold(node, parts, lambda run: when_true(run) if truth(test(run)) else when_false(run))

    def _filter(self, node: nodes.Filter) -> Code:
        if node.dyn_args is not None or node.dyn_kwargs is not None or node.node is None:
            raise self._error(node, "`*` in a filter's arguments is not allowed. Write the arguments out")
        arguments = self._arguments(node)
        value = self.compile(node.node)
        closures = {name: code.closure() for name, code in arguments.items()}
        run_value = value.closure()
        if node.name == DEFAULT_FILTER:
            with_default = _with_default(run_value, closures["value"], closures.get("boolean"))
            return self._fold(node, [value, *arguments.values()], with_default)
        apply = FILTERS[node.name].apply
        if not closures:
            return self._fold(node, [value], lambda run: apply(run, run_value(run)))
        return self._fold(
            node,
            [value, *arguments.values()],
            lambda run: apply(run, run_value(run), **{name: closure(run) for name, closure in closures.items()}),
        )

    def _arguments(self, node: nodes.Filter) -> dict[str, Code]:
        """A filter's arguments by the names of its parameters."""
        if node.name == DEFAULT_FILTER:
            parameters: tuple[str, ...] = ("value", "boolean")
            required = 1
        elif node.name in FILTERS:
            parameters, required = FILTERS[node.name].parameters, FILTERS[node.name].required
        else:
            raise self._error(
                node, f"there is no filter `{node.name}`. {suggest(node.name, (*FILTERS, DEFAULT_FILTER))}"
            )
        arguments: dict[str, Code] = dict(zip(parameters, map(self.compile, node.args), strict=False))
        keywords: list[Any] = list(node.kwargs)  # Jinja2 says Pair, but makes Keyword
        for keyword in keywords:
            name = keyword.key
            if name not in parameters or name in arguments:
                raise self._error(node, f"`{node.name}` has no parameter `{name}`. It takes ({', '.join(parameters)})")
            arguments[name] = self.compile(keyword.value)
        if len(node.args) > len(parameters) or any(name not in arguments for name in parameters[:required]):
            raise self._error(node, f"`{node.name}` takes ({', '.join(parameters)}). Give these arguments")
        return arguments

    def _test(self, node: nodes.Test) -> Code:
        if node.args or node.kwargs or node.dyn_args is not None or node.dyn_kwargs is not None:
            raise self._error(node, f"`is {node.name}` takes no argument. Compare with `==` instead")
        value = self.compile(node.node)
        run_value = value.closure()
        wanted = PRESENCE_TESTS.get(node.name)
        if wanted is not None:

            def is_present(run: Run) -> bool:
                try:
                    run_value(run)
                except Missing:
                    return not wanted
                return bool(wanted)

            return self._fold(node, [value], is_present)
        test = TESTS.get(node.name)
        if test is None:
            raise self._error(node, f"there is no test `{node.name}`. {suggest(node.name, (*TESTS, *PRESENCE_TESTS))}")
        return self._fold(node, [value], lambda run: test(run_value(run)))

    def _path(self, node: nodes.Name | nodes.Getattr | nodes.Getitem) -> Code:
        """A name and what follows it: literal steps go into one look-up, the rest is walked."""
        steps: list[tuple[nodes.Expr, str | int | nodes.Expr]] = []
        current: nodes.Expr = node
        while isinstance(current, (nodes.Getattr, nodes.Getitem)):
            steps.append((current, current.attr if isinstance(current, nodes.Getattr) else _literal_step(current.arg)))
            current = current.node
        steps.reverse()
        if isinstance(current, nodes.Name):
            base, walked = self._look_up(current, steps)
        else:
            base, walked = self.compile(current), 0
        parts = [base]
        evaluator = base.closure()
        for _, step in steps[walked:]:
            if isinstance(step, nodes.Expr):
                key = self.compile(step)
                parts.append(key)
                evaluator = _step(evaluator, key.closure())
            else:
                evaluator = _step(evaluator, Code(None, step).closure())
        if len(parts) == 1 and walked == len(steps):
            return base
        return self.fold_at(current.lineno, parts, evaluator)

    def compile_reference(self, root: str, path: Path, offset: int) -> Code:
        """A lone `{{ root.path }}`, without the detour over a syntax tree."""
        return self._refer(Reference(root, path), nodes.Name(root, "load", lineno=offset), has_more=False)

    def _refer(self, reference: Reference, name: nodes.Name, *, has_more: bool) -> Code:
        self._check(reference, name, has_more=has_more)
        self.references.setdefault(reference, name.lineno)
        root, path = reference
        return Code(lambda run: run.lookup(root, path), lone=reference)

    def _look_up(self, name: nodes.Name, steps: list[tuple[nodes.Expr, str | int | nodes.Expr]]) -> tuple[Code, int]:
        if self.subject is not None and name.name == self.subject[0]:
            return self.subject[1], 0
        if name.name == "null":
            return Code(None, None), 0
        if name.name not in ROOTS:
            remedy = FORMER_ROOTS.get(name.name) or suggest(name.name, ROOTS)
            raise self._error(name, f"unknown name `{name.name}`. {remedy}")
        path: list[str | int] = []
        for _, step in steps:
            if isinstance(step, nodes.Expr):
                break
            path.append(step)
        code = self._refer(Reference(name.name, tuple(path)), name, has_more=len(path) < len(steps))
        return code, len(path)

    def _check(self, reference: Reference, name: nodes.Name, has_more: bool) -> None:
        """Names must be literal where the graph or the allow-list depends on them."""
        root, path = reference
        if root == "nodes":
            if not path or not isinstance(path[0], str):
                raise self._error(name, "a node's name is written out. Write `<name>.output`")
            if len(path) == 1 or path[1] not in NODE_FIELDS:
                given = f"not `{path[1]}`" if len(path) > 1 else "and one of them must follow"
                remedy = f"Write `{path[0]}.output`; a name with a hyphen is written `nodes['a-b']`"
                raise self._error(name, f"a node has `output` and `status`, {given}. {remedy}")
            if path[1] == "status" and (len(path) > 2 or has_more):
                raise self._error(name, f"a status is a word and has no parts. Write `{path[0]}.status`")
        elif root == "env":
            if len(path) != 1 or has_more or not isinstance(path[0], str):
                raise self._error(name, "a variable's name is written out. Write `env.NAME`")
        elif root == "fan_out":
            if not path or path[0] not in FAN_OUT_FIELDS:
                raise self._error(name, "`fan_out` has `item`, `index` and `total`. Write for example `fan_out.item`")
            if path[0] != "item" and (len(path) > 1 or has_more):
                raise self._error(name, f"`fan_out.{path[0]}` is a number and has no parts. Leave out what follows it")
        elif root == "index" and (path or has_more):
            raise self._error(name, "`index` is a number and has no parts. Leave out what follows it")


def _literal_step(argument: nodes.Expr) -> str | int | nodes.Expr:
    is_negative = isinstance(argument, nodes.Neg)
    written = argument.node if isinstance(argument, nodes.Neg) else argument
    if not isinstance(written, nodes.Const) or isinstance(written.value, bool):
        return argument
    if isinstance(written.value, int):
        return -written.value if is_negative else written.value
    return written.value if isinstance(written.value, str) and not is_negative else argument


def _with_default(value: Evaluator, fallback: Evaluator, also_when_empty: Evaluator | None) -> Evaluator:
    """The fallback for what is missing or null; with `default(x, true)`, as in Jinja2, for all that is not true."""

    def evaluate(run: Run) -> Any:
        try:
            found = value(run)
        except Missing:
            return fallback(run)
        if found is None or (also_when_empty is not None and truth(also_when_empty(run)) and not truth(found)):
            return fallback(run)
        return found

    return evaluate


def _step(evaluator: Evaluator, key: Evaluator) -> Evaluator:
    def walk(run: Run) -> Any:
        value, wanted = evaluator(run), key(run)
        if isinstance(wanted, bool) or not isinstance(wanted, (str, int)):
            raise ExpressionError(f"a key is text or a whole number, not {kind(wanted)}. Convert it first")
        return member(value, wanted)

    return walk


def join_texts(closures: list[Evaluator]) -> Evaluator:
    """The texts of all values one after the other; refused before it gets too long."""

    def evaluate(run: Run) -> str:
        texts: list[str] = []
        length = 0
        for closure in closures:
            text = text_of(closure(run))
            length += len(text)
            refuse_long_text(length)
            texts.append(text)
        run.charge(CHARACTER * length)
        return "".join(texts)

    return evaluate


def suggest(name: str, known: tuple[str, ...]) -> str:
    return did_you_mean(name, known, f"Known are {', '.join(sorted(known))}")


_BUILDERS: dict[type[nodes.Node], Callable[[Compiler, Any], Code]] = {
    nodes.Const: Compiler._constant,
    nodes.Name: Compiler._path,
    nodes.Getattr: Compiler._path,
    nodes.Getitem: Compiler._path,
    nodes.Compare: Compiler._compare,
    nodes.Filter: Compiler._filter,
    nodes.Test: Compiler._test,
    nodes.Concat: Compiler._concat,
    nodes.CondExpr: Compiler._choice,
    nodes.List: Compiler._list,
    nodes.Tuple: Compiler._list,
    nodes.Dict: Compiler._dict,
    **dict.fromkeys((nodes.Not, nodes.Neg, nodes.Pos), Compiler._unary),
    **dict.fromkeys((nodes.And, nodes.Or, *_SYMBOLS), Compiler._binary),
}
