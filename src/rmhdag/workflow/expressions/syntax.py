"""The tree of an expression. Every part knows its offset in the template's text, for messages.

Plain classes with slots: data classes would be shorter, and importing what makes them costs as much as all of this.
"""

from __future__ import annotations

from collections.abc import Iterator


class Expr:
    __slots__ = ("offset",)

    offset: int

    def children(self) -> Iterator[Expr]:
        for name in self.__slots__:
            yield from _expressions_in(getattr(self, name))


def _expressions_in(value: object) -> Iterator[Expr]:
    if isinstance(value, Expr):
        yield value
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _expressions_in(part)


class Const(Expr):
    __slots__ = ("value",)

    def __init__(self, value: str | int | float | None, offset: int) -> None:
        self.value = value
        self.offset = offset


class Name(Expr):
    __slots__ = ("name",)

    def __init__(self, name: str, offset: int) -> None:
        self.name = name
        self.offset = offset


class Getattr(Expr):
    """`node.attr`"""

    __slots__ = ("attr", "node")

    def __init__(self, node: Expr, attr: str, offset: int) -> None:
        self.node = node
        self.attr = attr
        self.offset = offset


class Getitem(Expr):
    """`node[arg]`, and `node.0`"""

    __slots__ = ("arg", "node")

    def __init__(self, node: Expr, arg: Expr, offset: int) -> None:
        self.node = node
        self.arg = arg
        self.offset = offset


class Slice(Expr):
    __slots__ = ("start", "step", "stop")

    def __init__(self, start: Expr | None, stop: Expr | None, step: Expr | None, offset: int) -> None:
        self.start = start
        self.stop = stop
        self.step = step
        self.offset = offset


class List(Expr):
    """`[a, b]` and `(a, b)`: JSON knows one kind of list."""

    __slots__ = ("items",)

    def __init__(self, items: list[Expr], offset: int) -> None:
        self.items = items
        self.offset = offset


class Dict(Expr):
    __slots__ = ("items",)

    def __init__(self, items: list[tuple[Expr, Expr]], offset: int) -> None:
        self.items = items
        self.offset = offset


class Unary(Expr):
    """`not`, `-` and `+` before a value."""

    __slots__ = ("node", "symbol")

    def __init__(self, symbol: str, node: Expr, offset: int) -> None:
        self.symbol = symbol
        self.node = node
        self.offset = offset


class Binary(Expr):
    """Arithmetic, `and`, `or`."""

    __slots__ = ("left", "right", "symbol")

    def __init__(self, symbol: str, left: Expr, right: Expr, offset: int) -> None:
        self.symbol = symbol
        self.left = left
        self.right = right
        self.offset = offset


class Compare(Expr):
    """`a < b <= c` holds if each of its comparisons does."""

    __slots__ = ("expr", "ops")

    def __init__(self, expr: Expr, ops: list[tuple[str, Expr]], offset: int) -> None:
        self.expr = expr
        self.ops = ops
        self.offset = offset


class Concat(Expr):
    """`a ~ b ~ c`"""

    __slots__ = ("nodes",)

    def __init__(self, nodes: list[Expr], offset: int) -> None:
        self.nodes = nodes
        self.offset = offset


class Choice(Expr):
    """`when_true if test else when_false`"""

    __slots__ = ("test", "when_false", "when_true")

    def __init__(self, test: Expr, when_true: Expr, when_false: Expr | None, offset: int) -> None:
        self.test = test
        self.when_true = when_true
        self.when_false = when_false
        self.offset = offset


class Arguments:
    """What stands in the brackets of a call, filter or test; `spread` are those with `*` or `**` before them."""

    __slots__ = ("named", "positional", "spread")

    def __init__(self) -> None:
        self.positional: list[Expr] = []
        self.named: list[tuple[str, Expr]] = []
        self.spread: list[tuple[str, Expr]] = []

    def expressions(self) -> Iterator[Expr]:
        yield from _expressions_in([self.positional, self.named, self.spread])


class Applied(Expr):
    """Something with arguments."""

    __slots__ = ("arguments", "node")

    def __init__(self, node: Expr, arguments: Arguments, offset: int) -> None:
        self.node = node
        self.arguments = arguments
        self.offset = offset

    def children(self) -> Iterator[Expr]:
        yield self.node
        yield from self.arguments.expressions()


class Call(Applied):
    __slots__ = ()


class Filter(Applied):
    """`node | name(arguments)`"""

    __slots__ = ("name",)

    def __init__(self, node: Expr, name: str, arguments: Arguments, offset: int) -> None:
        super().__init__(node, arguments, offset)
        self.name = name


class Test(Filter):
    """`node is name`"""

    __slots__ = ()
