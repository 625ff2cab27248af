"""Tokens to a tree, by the grammar of Jinja2's expressions.

From what binds least to what binds most: `a if b else c`, `or`, `and`, `not`, comparisons, `+ -`, `~`, `* / // %`,
`**`, signs, then `.name`, `[key]`, `(…)`, `| filter` and `is test` after a value. A test holds it equal to Jinja2's own
parser.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, NoReturn, TypeVar

from rmhdag.workflow.expressions.lexer import RawToken, SyntaxFault, value_of
from rmhdag.workflow.expressions.syntax import (
    Arguments,
    Binary,
    Call,
    Choice,
    Compare,
    Concat,
    Const,
    Dict,
    Expr,
    Filter,
    Getattr,
    Getitem,
    List,
    Name,
    Slice,
    Test,
    Unary,
)

_WORDS = frozenset({"and", "or", "not", "in", "is", "if", "else"})
_COMPARISONS = frozenset({"==", "!=", "<", "<=", ">", ">=", "in"})
_CONSTANTS = {"true": True, "True": True, "false": False, "False": False, "none": None, "None": None}
_END = "end of template"

Item = TypeVar("Item")


class Token(NamedTuple):
    """`symbol` is the operator, or the word that works as one; empty for all else."""

    offset: int
    kind: str
    value: str | int | float
    symbol: str = ""

    def __str__(self) -> str:
        return str(self.value) if self.kind == "name" else self.symbol or self.kind


class Grammar:
    """Reads one expression; what follows it is left."""

    def __init__(self, tokens: Sequence[RawToken]) -> None:
        self._tokens = tokens
        self._place = 0
        self.current = self._token()

    @property
    def is_at_end(self) -> bool:
        return self.current.kind == _END

    def _token(self) -> Token:
        if self._place >= len(self._tokens):
            return Token(self._tokens[-1].offset, _END, "")
        raw = self._tokens[self._place]
        is_symbol = raw.kind == "operator" or (raw.kind == "name" and raw.text in _WORDS)
        return Token(raw.offset, raw.kind, value_of(raw), raw.text if is_symbol else "")

    def _take(self) -> Token:
        taken = self.current
        self._place += 1
        self.current = self._token()
        return taken

    def _following(self) -> str:
        return self._tokens[self._place + 1].text if self._place + 1 < len(self._tokens) else ""

    def _take_if(self, symbol: str) -> bool:
        if self.current.symbol != symbol:
            return False
        self._take()
        return True

    def _expect(self, symbol: str) -> Token:
        return self._take() if self.current.symbol == symbol else self._refuse(symbol)

    def _expect_name(self) -> str:
        return str(self._take().value) if self.current.kind == "name" else self._refuse("name")

    def _refuse(self, wanted: str) -> NoReturn:
        if self.is_at_end:
            raise SyntaxFault(f"unexpected {_END}, expected {wanted!r}", self.current.offset)
        raise SyntaxFault(f"expected {wanted!r}, got {str(self.current)!r}", self.current.offset)

    def expression(self) -> Expr:
        offset = self.current.offset
        chosen = self._or()
        while self._take_if("if"):
            test = self._or()
            chosen = Choice(test, chosen, self.expression() if self._take_if("else") else None, offset)
            offset = self.current.offset
        return chosen

    def _from_left(self, symbols: tuple[str, ...], operand: Callable[[], Expr]) -> Expr:
        """`a - b - c` is `(a - b) - c`. The first is placed at its beginning, those after it at their operator."""
        offset = self.current.offset
        left = operand()
        while self.current.symbol in symbols:
            symbol = self._take().symbol
            left = Binary(symbol, left, operand(), offset)
            offset = self.current.offset
        return left

    def _or(self) -> Expr:
        return self._from_left(("or",), self._and)

    def _and(self) -> Expr:
        return self._from_left(("and",), self._not)

    def _not(self) -> Expr:
        if self.current.symbol != "not":
            return self._compared()
        offset = self._take().offset
        return Unary("not", self._not(), offset)

    def _compared(self) -> Expr:
        first = self._sum()
        links: list[tuple[str, Expr]] = []
        while True:
            if self.current.symbol in _COMPARISONS:
                symbol = self._take().symbol
            elif self.current.symbol == "not" and self._following() == "in":
                self._take()
                symbol = f"not {self._take().symbol}"
            else:
                return Compare(first, links, first.offset) if links else first
            links.append((symbol, self._sum()))

    def _sum(self) -> Expr:
        return self._from_left(("+", "-"), self._joined)

    def _joined(self) -> Expr:
        offset = self.current.offset
        parts = [self._product()]
        while self._take_if("~"):
            parts.append(self._product())
        return parts[0] if len(parts) == 1 else Concat(parts, offset)

    def _product(self) -> Expr:
        return self._from_left(("*", "/", "//", "%"), self._power)

    def _power(self) -> Expr:
        return self._from_left(("**",), self._filtered)

    def _filtered(self) -> Expr:
        node = self._signed()
        while True:
            match self.current.symbol:
                case "|":
                    node = self._filter(node)
                case "is":
                    node = self._test(node)
                case "(":
                    node = self._call(node)
                case _:
                    return node

    def _signed(self) -> Expr:
        """A sign takes what stands after the value with it, but no filter: `-a.b | abs` is `(-(a.b)) | abs`."""
        if self.current.symbol not in ("-", "+"):
            return self._followed(self._primary())
        sign = self._take()
        return self._followed(Unary(sign.symbol, self._signed(), sign.offset))

    def _primary(self) -> Expr:
        token = self.current
        match token.kind, token.symbol:
            case "name", _:
                self._take()
                word = str(token.value)
                return Const(_CONSTANTS[word], token.offset) if word in _CONSTANTS else Name(word, token.offset)
            case "string", _:
                text = ""
                while self.current.kind == "string":
                    text += str(self._take().value)
                return Const(text, token.offset)
            case (("integer" | "float"), _):
                return Const(self._take().value, token.offset)
            case _, "(":
                return self._in_brackets()
            case _, "[":
                self._take()
                return List(self._until("]", self.expression), token.offset)
            case _, "{":
                self._take()
                return Dict(self._until("}", self._pair), token.offset)
            case _:
                raise SyntaxFault(f"unexpected {str(token)!r}", token.offset)

    def _in_brackets(self) -> Expr:
        """A comma makes a list of it, and so does nothing at all."""
        opening = self._take()
        items: list[Expr] = []
        is_list = self.current.symbol == ")"
        while self.current.symbol != ")":
            items.append(self.expression())
            if self.current.symbol != ",":
                break
            is_list = True
            self._take()
        self._expect(")")
        return List(items, opening.offset) if is_list else items[0]

    def _until(self, end: str, read: Callable[[], Item]) -> list[Item]:
        items: list[Item] = []
        while self.current.symbol != end:
            items.append(read())
            if self.current.symbol != end:
                self._expect(",")
        self._take()
        return items

    def _pair(self) -> tuple[Expr, Expr]:
        key = self.expression()
        self._expect(":")
        return key, self.expression()

    def _followed(self, node: Expr) -> Expr:
        while True:
            match self.current.symbol:
                case ".":
                    node = self._member(node)
                case "[":
                    node = self._item(node)
                case "(":
                    node = self._call(node)
                case _:
                    return node

    def _member(self, node: Expr) -> Expr:
        dot = self._take()
        named = self.current
        if named.kind == "name":
            self._take()
            return Getattr(node, str(named.value), dot.offset)
        if named.kind == "integer":
            self._take()
            return Getitem(node, Const(named.value, named.offset), dot.offset)
        raise SyntaxFault("expected name or number", named.offset)

    def _item(self, node: Expr) -> Expr:
        opening = self._take()
        keys: list[Expr] = []
        while self.current.symbol != "]":
            if keys:
                self._expect(",")
            keys.append(self._key())
        self._take()
        return Getitem(node, keys[0] if len(keys) == 1 else List(keys, opening.offset), opening.offset)

    def _key(self) -> Expr:
        offset = self.current.offset
        start = None if self.current.symbol == ":" else self.expression()
        if start is not None and self.current.symbol != ":":
            return start
        self._take()
        stop = self._bound()
        step = self._bound() if self._take_if(":") else None
        return Slice(start, stop, step, offset)

    def _bound(self) -> Expr | None:
        return None if self.current.symbol in (":", "]", ",") else self.expression()

    def _call(self, node: Expr) -> Expr:
        offset = self.current.offset
        return Call(node, self._arguments(), offset)

    def _filter(self, node: Expr) -> Expr:
        self._take()
        offset = self.current.offset
        name = self._dotted_name()
        arguments = self._arguments() if self.current.symbol == "(" else Arguments()
        return Filter(node, name, arguments, offset)

    def _test(self, node: Expr) -> Expr:
        offset = self._take().offset
        is_negated = self._take_if("not")
        name = self._dotted_name()
        arguments = Arguments()
        if self.current.symbol == "(":
            arguments = self._arguments()
        elif self.current.symbol == "is":
            raise SyntaxFault("You cannot chain multiple tests with is", self.current.offset)
        elif self._may_be_argument():
            arguments.positional.append(self._followed(self._primary()))
        test = Test(node, name, arguments, offset)
        return Unary("not", test, offset) if is_negated else test

    def _may_be_argument(self) -> bool:
        """`is divisibleby 3`: a test's only argument may stand without brackets."""
        if self.current.kind == "name":
            return self.current.symbol not in ("else", "or", "and")
        return self.current.kind in ("string", "integer", "float") or self.current.symbol in ("[", "{")

    def _dotted_name(self) -> str:
        name = self._expect_name()
        while self._take_if("."):
            name += f".{self._expect_name()}"
        return name

    def _arguments(self) -> Arguments:
        """Values, then named values, then those with stars; a comma may end them."""
        opening = self._expect("(")
        found = Arguments()
        while self.current.symbol != ")":
            stars = self.current.symbol if self.current.symbol in ("*", "**") else ""
            has_stars = [star for star, _ in found.spread]
            if "**" in has_stars or (has_stars and stars != "**" and not self._names_argument()):
                raise SyntaxFault("invalid syntax for function call expression", opening.offset)
            if stars:
                self._take()
                found.spread.append((stars, self.expression()))
            elif self._names_argument():
                name = str(self._take().value)
                self._take()
                found.named.append((name, self.expression()))
            elif found.named:
                raise SyntaxFault("invalid syntax for function call expression", opening.offset)
            else:
                found.positional.append(self.expression())
            if self.current.symbol != ")":
                self._expect(",")
        self._take()
        return found

    def _names_argument(self) -> bool:
        return self.current.kind == "name" and self._following() == "="
