"""What the rest of rmhdag sees of the expression language: compile once, evaluate often.

Values are data: what a look-up returns is passed on as it is and never read as a template again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import orjson

from rmhdag.workflow.expressions.budget import Evaluator, Run, Scope
from rmhdag.workflow.expressions.compiler import ROOTS, Code, Compiler, Reference, join_texts
from rmhdag.workflow.expressions.errors import ExpressionError, Missing
from rmhdag.workflow.expressions.parser import Tree, parse_branch_condition, parse_expression, place, split_template
from rmhdag.workflow.expressions.sizes import Resolved, SizedRun, SizedScope
from rmhdag.workflow.expressions.values import truth

_SUBJECT = "the_subject"

# Most templates are just this; reading them without a tree is eight times faster.
_LONE_REFERENCE = re.compile(r"\{\{ {0,9}([a-z_]+)((?:\.[A-Za-z_][A-Za-z0-9_]*){0,20}) {0,9}\}\}")

MAX_VALUE_DEPTH = 64
# What each child of a fan-out has of its own.
CHILD_ROOTS = frozenset({"item", "index", "fan_out"})


class CompiledTemplate:
    """`positions` gives line and column of the first use of each reference, where the template is one text.

    `is_lone` is a template that is nothing but one reference.
    """

    __slots__ = ("_fixed_bytes", "code", "evaluate", "is_lone", "is_static", "positions", "references")

    evaluate: Callable[[Scope], Any]

    def __init__(self, code: Code, positions: Mapping[Reference, tuple[int, int]]) -> None:
        self.code = code
        self.positions = positions
        self.references = frozenset(positions)
        self.is_static = code.run is None
        self.is_lone = code.lone is not None
        if code.run is None:
            constant = code.constant
            self.evaluate = lambda scope: constant
        elif code.lone is not None:
            root, path = code.lone
            self.evaluate = lambda scope: scope.lookup(root, path)
        else:
            self.evaluate = partial(_evaluate, code.run)
        self._fixed_bytes: int | None = None

    def resolve(self, scope: SizedScope, limit_bytes: int) -> Resolved:
        """As `evaluate`, of an object, which may not become larger than the limit."""
        if self.code.run is not None:
            run = SizedRun(scope, limit_bytes)
            try:
                return run.resolved(self.code.run(run))
            finally:
                run.end()
        if self._fixed_bytes is None:
            self._fixed_bytes = len(orjson.dumps(self.code.constant))
        return Resolved(self.code.constant, self._fixed_bytes, 0)


def _evaluate(evaluator: Evaluator, scope: Scope) -> Any:
    run = Run(scope)
    try:
        return evaluator(run)
    finally:
        run.end()


def compile_template(text: str) -> CompiledTemplate:
    """A lone `{{ x }}` keeps its type; with text around it becomes text; text without `{{` is itself."""
    compiler = Compiler(text)
    lone = _LONE_REFERENCE.fullmatch(text)
    if lone is not None and lone[1] in ROOTS:
        return _finish(
            compiler.compile_reference(lone[1], tuple(lone[2].split(".")[1:]), lone.start(1)), compiler, text
        )
    parts = split_template(text)
    if not any(isinstance(part, Tree) for part in parts):
        return CompiledTemplate(Code(None, text), {})
    codes = [Code(None, part) if isinstance(part, str) else compiler.compile(part.expression) for part in parts]
    if len(codes) == 1:
        return _finish(codes[0], compiler, text)
    return _finish(compiler.fold_at(0, codes, join_texts([code.closure() for code in codes])), compiler, text)


def compile_condition(text: str) -> CompiledTemplate:
    """A bare expression, or one in `{{ }}`; gives a typed value, to be judged by `truth`."""
    stripped = text.strip()
    if "{{" in stripped:
        parts = split_template(text)
        trees = [part for part in parts if isinstance(part, Tree)]
        if len(trees) != 1 or any(isinstance(part, str) and part.strip() for part in parts):
            raise ExpressionError(
                "a condition is one expression. Write it without braces, for example `inputs.size > 5`", 1, 1
            )
        expression = trees[0].expression
    else:
        expression = parse_expression(text)
    compiler = Compiler(text)
    return _finish(compiler.compile(expression), compiler, text)


def compile_branch(subject_text: str, condition: str) -> CompiledTemplate:
    """`< 100`, `== 'a'`, `in ['a', 'b']`, `>= 10 and < 100` applied to the subject; gives true or false."""
    subject = compile_condition(subject_text)
    compiler = Compiler(condition, (_SUBJECT, subject.code))
    code = compiler.compile(parse_branch_condition(condition, _SUBJECT))
    evaluator = code.closure()
    judged = Code(lambda run: truth(evaluator(run))) if code.run is not None else Code(None, truth(code.constant))
    compiled = _finish(judged, compiler, condition)
    return CompiledTemplate(compiled.code, {**subject.positions, **compiled.positions})


def compile_value(value: Any) -> CompiledTemplate:
    """A JSON value with templates in its texts. Keys are never templates; static parts are shared, not copied."""
    positions: dict[Reference, tuple[int, int]] = {}
    code = _compile_part(value, positions, 0)
    return CompiledTemplate(code, positions)


def _compile_part(value: Any, positions: dict[Reference, tuple[int, int]], depth: int) -> Code:
    if depth > MAX_VALUE_DEPTH:
        raise ExpressionError(f"the value is nested deeper than {MAX_VALUE_DEPTH} levels. Make it flatter")
    if isinstance(value, str):
        compiled = compile_template(value)
        positions.update(compiled.positions)
        return compiled.code
    if isinstance(value, dict):
        return _compile_object(value, positions, depth)
    if isinstance(value, (list, tuple)):
        parts = [_compile_part(part, positions, depth + 1) for part in value]
        if all(code.run is None for code in parts):
            return Code(None, _unless_changed(value, [code.constant for code in parts]))
        closures = [code.closure() for code in parts]
        return Code(lambda run: [closure(run) for closure in closures])
    return Code(None, value)


def _compile_object(value: dict[str, Any], positions: dict[Reference, tuple[int, int]], depth: int) -> Code:
    codes: dict[str, Code] = {}
    shared: set[str] = set()
    for key, part in value.items():
        own: dict[Reference, tuple[int, int]] = {}
        code = codes[key] = _compile_part(part, own, depth + 1)
        positions.update(own)
        if code.lone is None and not any(reference.root in CHILD_ROOTS for reference in own):
            shared.add(key)
    if all(code.run is None for code in codes.values()):
        return Code(None, _unless_changed(value, {key: code.constant for key, code in codes.items()}))
    fixed = {key: code.constant for key, code in codes.items()}
    moving = [
        (key, code.run if depth or key not in shared else _kept(code.run))
        for key, code in codes.items()
        if code.run is not None
    ]
    is_outermost = depth == 0
    standing = {key: code.constant for key, code in codes.items() if code.run is None}
    fixed_bytes = len(orjson.dumps(standing)) if is_outermost else 0

    def fill(run: Run) -> dict[str, Any]:
        filled = fixed.copy()
        if is_outermost:
            run.begin(fixed_bytes)
        for key, evaluator in moving:
            found = evaluator(run)
            if isinstance(found, str):
                run.charge(len(found))
            filled[key] = found
            if is_outermost:
                run.admit(key, found)
        return filled

    return Code(fill)


def _kept(evaluator: Evaluator) -> Evaluator:
    """Computed once for all children of a fan-out: it depends on nothing that they have of their own."""

    def evaluate(run: Run) -> Any:
        kept = run.shared()
        if kept is None:
            return evaluator(run)
        if evaluator not in kept:
            try:
                kept[evaluator] = evaluator(run), None
            except (ExpressionError, Missing) as error:
                kept[evaluator] = None, error
        value, fault = kept[evaluator]
        if fault is not None:
            raise fault.with_traceback(None)
        run.share(value)
        return value

    return evaluate


def _naming_source(evaluator: Evaluator, text: str) -> Evaluator:
    """Errors found while evaluating say in which template."""
    source = text if len(text) <= 100 else text[:99] + "…"

    def evaluate(run: Run) -> Any:
        try:
            return evaluator(run)
        except ExpressionError as error:
            error.source = error.source or source
            raise

    return evaluate


def _unless_changed(value: Any, folded: Any) -> Any:
    """The very same object, unless a constant expression such as `{{ '{{' }}` inside it was computed."""
    parts = (
        zip(value.values(), folded.values(), strict=True)
        if isinstance(value, dict)
        else zip(value, folded, strict=True)
    )
    return value if all(old is new for old, new in parts) else folded


def _finish(code: Code, compiler: Compiler, text: str) -> CompiledTemplate:
    if code.run is not None:
        code = code._replace(run=_naming_source(code.run, text))
    return CompiledTemplate(code, {reference: place(text, offset) for reference, offset in compiler.references.items()})
