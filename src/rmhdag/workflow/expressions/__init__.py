"""The expression language: Jinja2's syntax, our own meaning. It runs no code and its time and memory are bounded."""

from rmhdag.workflow.expressions.budget import Scope
from rmhdag.workflow.expressions.compiler import Reference
from rmhdag.workflow.expressions.errors import ExpressionError, Missing
from rmhdag.workflow.expressions.sizes import measured
from rmhdag.workflow.expressions.templates import (
    CompiledTemplate,
    compile_branch,
    compile_condition,
    compile_template,
    compile_value,
)
from rmhdag.workflow.expressions.values import resolve_path, truth

__all__ = [
    "CompiledTemplate",
    "ExpressionError",
    "Missing",
    "Reference",
    "Scope",
    "compile_branch",
    "compile_condition",
    "compile_template",
    "compile_value",
    "measured",
    "resolve_path",
    "truth",
]
