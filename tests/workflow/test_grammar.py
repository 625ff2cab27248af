"""Our reading of expressions is Jinja2's: the same tree with the same places, or the same refusal."""

import re
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from jinja2 import Environment, TemplateSyntaxError, nodes
from jinja2.lexer import TokenStream
from jinja2.parser import Parser

from rmhdag.workflow.expressions import syntax
from rmhdag.workflow.expressions.grammar import Grammar
from rmhdag.workflow.expressions.lexer import SyntaxFault, read_tokens

ENVIRONMENT = Environment(keep_trailing_newline=True)
OPERATORS = {"eq": "==", "ne": "!=", "lt": "<", "lteq": "<=", "gt": ">", "gteq": ">=", "in": "in", "notin": "not in"}
BINARY = (nodes.Add, nodes.Sub, nodes.Mul, nodes.Div, nodes.FloorDiv, nodes.Mod, nodes.Pow, nodes.And, nodes.Or)
UNARY = (nodes.Not, nodes.Neg, nodes.Pos)
SYMBOLS: dict[type[nodes.Node], str] = dict(
    zip((*BINARY, *UNARY), "+ - * / // % ** and or not - +".split(), strict=True)
)
Shown = Any  # nested tuples, the same for both kinds of tree


class Reading(NamedTuple):
    tree: Shown
    refusal: str | None = None
    rest_offset: int | None = None


def read_by_us(text: str) -> Reading:
    tokens = []
    try:
        for token in read_tokens(text):
            if token.kind == "closing":
                break
            tokens.append(token)
        if not tokens:
            return Reading(None, "nothing")
        grammar = Grammar(tokens)
        tree = grammar.expression()
        return Reading(show_ours(tree), rest_offset=None if grammar.is_at_end else grammar.current.offset)
    except SyntaxFault as fault:
        return Reading(None, fault.message)


def read_by_jinja(text: str) -> Reading:
    tokens = []
    offset = 0
    try:
        for _, kind, value in ENVIRONMENT.lexer.tokeniter(text, None, None, "variable"):
            if kind == "variable_end":
                break
            if kind != "whitespace":
                tokens.append((offset, kind, value))
            offset += len(value)
        if not tokens:
            return Reading(None, "nothing")
        parser = Parser(ENVIRONMENT, "")
        # Tokens carry their offset where the parser thinks to find the line.
        parser.stream = TokenStream(ENVIRONMENT.lexer.wrap(tokens), None, None)
        tree = parser.parse_expression()
        return Reading(show_jinja(tree), rest_offset=None if parser.stream.eos else parser.stream.current.lineno)
    except TemplateSyntaxError as error:
        message = str(error.message).replace("expected token", "expected").rstrip(".")
        return Reading(None, message.rpartition(" at ")[0] if message.startswith("unexpected char ") else message)


def show_ours(tree: syntax.Expr | None) -> Shown:
    match tree:
        case None:
            return None
        case syntax.Const():
            return "const", type(tree.value), repr(tree.value), tree.offset
        case syntax.Name():
            return "name", tree.name, tree.offset
        case syntax.Getattr():
            return ".", show_ours(tree.node), tree.attr, tree.offset
        case syntax.Getitem():
            return "[]", show_ours(tree.node), show_ours(tree.arg), tree.offset
        case syntax.Slice():
            return ":", show_ours(tree.start), show_ours(tree.stop), show_ours(tree.step), tree.offset
        case syntax.List():
            return "list", *map(show_ours, tree.items)
        case syntax.Dict():
            return "dict", tree.offset, *((show_ours(key), show_ours(value)) for key, value in tree.items)
        case syntax.Unary():
            return tree.symbol, show_ours(tree.node), tree.offset
        case syntax.Binary():
            return tree.symbol, show_ours(tree.left), show_ours(tree.right), tree.offset
        case syntax.Compare():
            return "compare", show_ours(tree.expr), *((symbol, show_ours(right)) for symbol, right in tree.ops)
        case syntax.Concat():
            return "~", tree.offset, *map(show_ours, tree.nodes)
        case syntax.Choice():
            return "if", show_ours(tree.test), show_ours(tree.when_true), show_ours(tree.when_false), tree.offset
        case syntax.Applied():
            found = tree.arguments
            name = tree.name if isinstance(tree, syntax.Filter) else ""
            return (
                *(type(tree).__name__, name, show_ours(tree.node), tree.offset),
                [show_ours(one) for one in found.positional],
                [(key, show_ours(one)) for key, one in found.named],
                [show_ours(one) for _, one in sorted(found.spread, key=lambda one: one[0])],
            )
    raise AssertionError(tree)


def show_jinja(tree: Any) -> Shown:
    show: Callable[[Any], Shown] = show_jinja
    match tree:
        case None:
            return None
        case nodes.Const():
            return "const", type(tree.value), repr(tree.value), tree.lineno
        case nodes.Name():
            return "name", tree.name, tree.lineno
        case nodes.Getattr():
            return ".", show(tree.node), tree.attr, tree.lineno
        case nodes.Getitem():
            return "[]", show(tree.node), show(tree.arg), tree.lineno
        case nodes.Slice():
            return ":", show(tree.start), show(tree.stop), show(tree.step), tree.lineno
        case nodes.List() | nodes.Tuple():
            return "list", *map(show, tree.items)
        case nodes.Dict():
            return "dict", tree.lineno, *((show(pair.key), show(pair.value)) for pair in tree.items)
        case nodes.UnaryExpr():
            return SYMBOLS[type(tree)], show(tree.node), tree.lineno
        case nodes.BinExpr():
            return SYMBOLS[type(tree)], show(tree.left), show(tree.right), tree.lineno
        case nodes.Compare():
            return "compare", show(tree.expr), *((OPERATORS[one.op], show(one.expr)) for one in tree.ops)
        case nodes.Concat():
            return "~", tree.lineno, *map(show, tree.nodes)
        case nodes.CondExpr():
            return "if", show(tree.test), show(tree.expr1), show(tree.expr2), tree.lineno
        case nodes.Call() | nodes.Filter() | nodes.Test():
            return (
                *(type(tree).__name__, getattr(tree, "name", ""), show(tree.node), tree.lineno),
                [show(one) for one in tree.args],
                [(one.key, show(one.value)) for one in tree.kwargs],
                [show(one) for one in (tree.dyn_args, tree.dyn_kwargs) if one is not None],
            )
    raise AssertionError(tree)


PIECES = st.sampled_from(
    (
        "a¦b¦inputs¦.a¦.0¦.¦[0]¦[¦]¦['k']¦[1:2]¦[::a]¦[:]¦[a,b]¦(¦)¦()¦{¦}¦{'k': 1}¦,¦:¦;¦=¦!¦+¦-¦*¦/¦//¦%¦**¦~¦|¦==¦"
        "!=¦<¦<=¦>¦>=¦ and ¦ or ¦ not ¦ in ¦ not in ¦ is ¦ is not ¦ if ¦ else ¦defined¦divisibleby 3¦|f¦|f(1)¦|f(a=1)¦"
        "f(*a)¦f(**a)¦f(a, b=1, *c, **d)¦true¦True¦false¦none¦None¦0¦1¦007¦1_000¦1__0¦0x1F¦0b1_0¦0o17¦0x¦1.5¦1.¦.5¦"
        "1e3¦1.5E-3¦1_0.2_5¦1e¦'x'¦\"y\"¦'it\\'s'¦'\\n\\x41\\u00e9\\101'¦'\\x'¦'\\N{BULLET}'¦'\\N{no}'¦'\\q'¦'\n'¦"
        "'\\\n'¦'¦\"¦\\¦}}¦-}}¦ ¦\n¦\t¦é¦e\u0301x¦\u0301¦²¦²a¦€¦@¦#¦$¦_¦__class__"
    ).split("¦")
)
VALID = (
    "inputs.size > 5 and not inputs.flag or nodes.a.output.x[0] in ['a', 'b']",
    "a if b is defined else c | default('x', true) ~ 'y' * 2",
    "-a.b ** +2 // 3 % 4 - 5 | round(1, method='floor')",
    "(a, b,)[0].c['d'](e, f=1, *g, **h) is not divisibleby 3",
    "{'a': [1, 2.5e3, (), (1,)], 'b': {'c': none}}.a[1:][::2]",
    "a < b <= c != d not in e",
    "not not a is mapping and b is sameas c.d[0] if e",
)


def test_the_valid_expressions_are_valid() -> None:
    for text in VALID:
        reading = read_by_us(text)
        assert reading.tree
        assert reading == Reading(reading.tree)


# Jinja2 looks at the value of a token before it comes to it, so it may find these where we find another mistake first.
FOUND_EARLY = re.compile(r"Invalid character in identifier|escape$|Unicode character")


def agree(text: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python's own about unknown escapes, which both leave as they are
        theirs = read_by_jinja(text)
    ours = read_by_us(text)
    if theirs.refusal is None or not FOUND_EARLY.search(theirs.refusal):
        assert ours == theirs
    else:
        assert ours.refusal is not None or ours.rest_offset is not None


def known_to_differ(text: str) -> bool:
    """Digits of other scripts are no numbers here, and a backslash before another script's letter stays one."""
    return bool(re.search(r"\\[^\x00-\x7f]|\r", text)) or any(one.isdecimal() and not one.isascii() for one in text)


FORMS = (
    "a ~ b ~ c¦a + b - c ~ d * e¦a * b ~ c + d¦a or b or c¦a and b and c or d¦not a and b¦not a == b¦a - b - c¦"
    "a ** b ** c¦-a ** b¦- -a¦+-a.b¦-a | f¦-a[0](b)¦a | f | g(1) | h.i¦a | f(b)(c)¦a is f¦a is f.g¦a is not f¦"
    "a is f b¦a is f 'b'¦a is f [1]¦a is f (1)¦a is f b.c¦a is f is g¦a is f and b¦a is f or b¦a is f else¦"
    "a is f if b¦a is f not b¦a is f -1¦f()¦f(a)¦f(a,)¦f(,)¦f(a b)¦f(a, b=1)¦f(a=1, b)¦f(a=1, b=2,)¦f(*a)¦"
    "f(*a, b)¦f(*a, *b)¦f(*a, b=1)¦f(*a, **b)¦f(a=1, *b)¦f(**a)¦f(**a, b)¦f(**a, b=1)¦f(**a, *b)¦f(**a, **b)¦f(a¦"
    "f(a,¦f(¦a(b)(c)¦a(b).c[d]¦a(b) | f¦a[b]¦a[b, c]¦a[b,]¦a[]¦a[,]¦a[:]¦a[b:]¦a[:b]¦a[b:c]¦a[b:c:d]¦a[::]¦"
    "a[::d]¦a[:b, c:]¦a[b¦a[b:¦a.b.c¦a.0.1¦a.0.1.5¦a.¦a.'b'¦a.if.else¦a.1.5¦a . b¦()¦(a)¦(a,)¦(a, b)¦(a, b,)¦(,)¦"
    "(a b)¦(a¦(a,¦[]¦[a]¦[a,]¦[a, b]¦[,]¦[a b]¦[a¦{}¦{a: b}¦{'a': b,}¦{'a': b, c: d}¦{a}¦{a:}¦{,}¦{a: b¦a if b¦"
    "a if b else c¦a if b else c if d else e¦a if b if c else d¦a if (b if c) else d¦a < b¦a < b < c¦a in b¦"
    "a not in b¦a not b¦a in b in c¦a == b != c >= d <= e > f¦not in a¦in a¦and¦a and¦if¦a if¦is¦a is¦a is not¦"
    "'a' 'b' \"c\"¦'a' b¦1 2¦true¦false¦True¦False¦none¦None¦null¦TRUE¦a = b¦a;b¦a : b¦}}¦a}}b¦a -}} b¦"
    "{'a': {}}}}¦[a}}¦(a]¦)¦]¦}¦a | ¦a | 1¦a || b¦a ! b¦a != b¦'¦'a¦\"a'¦1.5.5¦1.a¦1e5¦1e+5¦1E-5¦1e¦0xg¦0b2¦08"
).split("¦")


@pytest.mark.parametrize("text", FORMS)
def test_a_form_is_read_alike(text: str) -> None:
    agree(text)


@given(st.lists(PIECES, max_size=20).map("".join))
@settings(max_examples=500)
def test_pieces_are_read_alike(text: str) -> None:
    agree(text)


@given(st.lists(PIECES, max_size=12).map(" ".join))
@settings(max_examples=200)
def test_words_are_read_alike(text: str) -> None:
    agree(text)


@given(st.sampled_from(VALID), st.data())
@settings(max_examples=300)
def test_changed_expressions_are_read_alike(text: str, data: st.DataObject) -> None:
    agree(text)
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(start, min(len(text), start + 4)))
        text = text[:start] + data.draw(PIECES | st.just("")) + text[end:]
    agree(text)


@given(st.text() | st.text("ab01._'\"\\xuN{}[]()|~<=>!+-*/%,: \n", max_size=30))
@settings(max_examples=300)
def test_any_text_is_read_alike(text: str) -> None:
    assume(not known_to_differ(text))
    agree(text)


@pytest.mark.parametrize(
    ("text", "ours"),
    [
        ("'\\é'", "\\é"),
        ("'a\r\nb\rc'", "a\nb\nc"),
        ("'\\\r\nb'", "b"),
        ("'\\U0001F600\\N{LATIN SMALL LETTER A}\\7\\08'", "\U0001f600a\x07\x008"),
    ],
)
def test_a_text_means_what_python_means_by_it(text: str, ours: str) -> None:
    tree = Grammar(list(read_tokens(text))).expression()
    assert isinstance(tree, syntax.Const)
    assert tree.value == ours


@pytest.mark.parametrize("text", ["1٣", "1.٣", "٣"])
def test_digits_of_other_scripts_are_no_numbers(text: str) -> None:
    assert read_by_us(text).refusal == "Invalid character in identifier"
