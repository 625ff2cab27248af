"""Template text to Jinja2's syntax trees, with exact positions and limits that hold before anything is built.

Jinja2's own lexer and parser read the expressions; nothing of its run time is used. Its tree nodes know only their
line. The parser is therefore given tokens with their offset in its place: `node.lineno` is an offset into the text.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from jinja2 import Environment, TemplateSyntaxError, nodes
from jinja2.lexer import TokenStream
from jinja2.parser import Parser

from rmhdag.models.limits import EXPRESSION_CHARACTERS, TEMPLATE_CHARACTERS
from rmhdag.workflow.expressions.errors import ExpressionError

MAX_TEMPLATE_CHARACTERS = TEMPLATE_CHARACTERS
MAX_EXPRESSION_CHARACTERS = EXPRESSION_CHARACTERS
MAX_TOKENS = 600
MAX_BRACKETS = 24
MAX_TREE_DEPTH = 60

_OPENING = ("(", "[", "{")
_CLOSING = (")", "]", "}")
_COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")


# It only parses, and renders nothing.
_ENVIRONMENT = Environment(keep_trailing_newline=True, autoescape=True)
_LEXER = _ENVIRONMENT.lexer


class RawToken(NamedTuple):
    """As Jinja2's lexer passes it to its parser, but for the offset, which takes the place of the line."""

    offset: int
    kind: str
    text: str


class Tree(NamedTuple):
    """One `{{ … }}` of a template; every `lineno` inside is an offset into the template."""

    expression: nodes.Expr


def place(text: str, offset: int) -> tuple[int, int]:
    """Line and column, both from 1, of an offset."""
    offset = max(0, min(offset, len(text)))
    return text.count("\n", 0, offset) + 1, offset - (text.rfind("\n", 0, offset) + 1) + 1


def error_at(text: str, offset: int, message: str) -> ExpressionError:
    return ExpressionError(message, *place(text, offset))


def split_template(text: str) -> list[str | Tree]:
    """Literal text and expressions in their order. Whatever Jinja2 has besides `{{ }}` is refused."""
    parts: list[str | Tree] = []
    position = 0
    while True:
        opening = text.find("{", position)
        while opening >= 0 and text[opening + 1 : opening + 2] not in ("{", "%", "#"):
            opening = text.find("{", opening + 1)
        if opening < 0:
            parts.append(text[position:])
            return [part for part in parts if part != ""]
        if len(text) > MAX_TEMPLATE_CHARACTERS:
            raise ExpressionError(
                f"a template has at most {MAX_TEMPLATE_CHARACTERS:,} characters, not {len(text):,}. "
                "Pass the text as an input",
                1,
                1,
            )
        mark = text[opening + 1]
        if mark != "{":
            what = "statements" if mark == "%" else "comments"
            raise error_at(
                text,
                opening,
                f"`{{{mark}` begins one of Jinja's {what}, which templates here do not have. "
                f"Use `{{{{ … }}}}`, or write the characters as `{{{{ '{{{mark}' }}}}`",
            )
        if text[opening + 2 : opening + 3] in ("-", "+"):
            raise error_at(text, opening, "`{{-` is not supported. Put a space after `{{`")
        parts.append(text[position:opening])
        tokens, position = _read_tokens(text, opening + 2, closing=True)
        parts.append(Tree(parse_tokens(text, tokens, opening)))


def parse_expression(text: str) -> nodes.Expr:
    """A bare expression, without braces."""
    tokens, _ = _read_tokens(text, 0, closing=False)
    return parse_tokens(text, tokens, 0)


def parse_branch_condition(text: str, subject: str) -> nodes.Expr:
    """`< 100`, `in ['a', 'b']`, `>= 10 and < 100`: the subject is put before each comparison that lacks a left side."""
    tokens, _ = _read_tokens(text, 0, closing=False)
    completed: list[RawToken] = []
    operand_expected = True
    for index, token in enumerate(tokens):
        following = tokens[index + 1].text if index + 1 < len(tokens) else ""
        starts_comparison = (
            token.text in _COMPARISONS
            if token.kind == "operator"
            else token.kind == "name" and (token.text in ("in", "is") or (token.text == "not" and following == "in"))
        )
        if operand_expected and starts_comparison:
            completed.append(RawToken(token.offset, "name", subject))
        completed.append(token)
        operand_expected = token.text in ("and", "or", "(") or (token.text == "not" and following != "in")
    if not any(token.kind == "name" and token.text == subject for token in completed):
        raise ExpressionError(
            "a branch's condition begins with a comparison. Write for example `< 100`, `== 'a'` or `in ['a', 'b']`",
            1,
            1,
        )
    return parse_tokens(text, completed, 0)


def parse_tokens(text: str, tokens: list[RawToken], start: int) -> nodes.Expr:
    if not tokens:
        raise error_at(text, start, "the expression is empty. Name a value, for example `{{ inputs.name }}`")
    parser = Parser(_ENVIRONMENT, "")
    try:
        parser.stream = TokenStream(_LEXER.wrap(tokens), None, None)
        expression = parser.parse_expression()
        if not parser.stream.eos:
            current = parser.stream.current
            raise error_at(
                text,
                current.lineno,
                f"unexpected {current.value!r} after the expression. Join values with an operator such as `~`",
            )
    except TemplateSyntaxError as error:
        raise _unreadable(text, error.lineno, error) from None
    except RecursionError:
        raise error_at(text, start, "the expression is nested too deeply. Split it over several nodes") from None
    _refuse_deep_tree(text, expression)
    return expression


def _read_tokens(text: str, start: int, *, closing: bool) -> tuple[list[RawToken], int]:
    """Tokens with offsets, up to the closing braces; and where the text goes on."""
    source = text[start : start + MAX_EXPRESSION_CHARACTERS + 2]
    tokens: list[RawToken] = []
    brackets = 0
    offset = start
    try:
        for token in _tokens_of(source):
            offset = start + token.offset
            if token.kind == "variable_end":
                if not closing:
                    raise error_at(text, offset, "`}}` without `{{`. Leave the braces out, or write both")
                if token.text.startswith("-"):
                    raise error_at(text, offset, "`-}}` is not supported. Put a space before `}}`")
                return tokens, offset + len(token.text)
            if token.kind != "whitespace":
                tokens.append(token._replace(offset=offset))
            if token.kind in ("integer", "float") and not token.text.isascii():
                # Jinja2 takes digits of every script for numbers, and fails on some of them.
                raise error_at(text, offset, f"`{token.text}` is not a number. Write it with the digits 0 to 9")
            if token.kind == "operator":
                brackets += (token.text in _OPENING) - (token.text in _CLOSING)
            if len(tokens) > MAX_TOKENS or brackets > MAX_BRACKETS:
                raise error_at(text, offset, "the expression is too large. Split it over several nodes")
            offset = start + token.offset + len(token.text)
    except TemplateSyntaxError as error:
        if len(text) - start > MAX_EXPRESSION_CHARACTERS and offset - start > MAX_EXPRESSION_CHARACTERS // 2:
            raise _too_long(text, start) from None
        raise _unreadable(text, offset, error) from None
    if len(text) - start > MAX_EXPRESSION_CHARACTERS:
        raise _too_long(text, start)
    if closing:
        raise error_at(text, start - 2, "`{{` is never closed. Add `}}`")
    return tokens, len(text)


def _tokens_of(source: str) -> Iterator[RawToken]:
    """With offsets into the source, in which a line may end with two characters: Jinja2 reads them as one."""
    offset = 0
    for _, kind, text in _LEXER.tokeniter(source, None, None, "variable"):
        yield RawToken(offset, kind, text)
        end = offset + len(text)
        if "\n" in text:
            for line in text.split("\n")[:-1]:
                offset += len(line) + 1
                if source[offset - 1 : offset + 1] == "\r\n":
                    offset += 1
                    end += 1
        offset = end


def _too_long(text: str, start: int) -> ExpressionError:
    return error_at(
        text,
        start,
        f"the expression has more than {MAX_EXPRESSION_CHARACTERS:,} characters or is never closed. "
        "Shorten it, or add `}}`",
    )


def _unreadable(text: str, offset: int, error: TemplateSyntaxError) -> ExpressionError:
    message = (error.message or "syntax error").rstrip(".")
    if message.startswith("unexpected char "):
        message = message.rpartition(" at ")[0]
    message = message.replace("token ", "").replace("end of print statement", "end of template")
    return error_at(text, offset, f"cannot read the expression: {message}. Check its syntax")


def _refuse_deep_tree(text: str, expression: nodes.Expr) -> None:
    """Chains such as `1 + 1 + 1 …` make deep trees without brackets; what is compiled recursively must be shallow."""
    level: list[nodes.Node] = [expression]
    depth = 0
    while level:
        depth += 1
        if depth > MAX_TREE_DEPTH:
            raise error_at(text, expression.lineno, "the expression is nested too deeply. Split it over several nodes")
        level = [child for node in level for child in node.iter_child_nodes()]
