"""Jinja2 reads the expressions; the places in the text are ours."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmhdag.workflow.expressions import ExpressionError, compile_condition, compile_template

PIECES = st.sampled_from(
    (
        "a¦b¦inputs¦.a¦.0¦.¦[0]¦[¦]¦['k']¦[1:2]¦[::a]¦[:]¦[a,b]¦(¦)¦()¦{¦}¦{'k': 1}¦,¦:¦;¦=¦!¦+¦-¦*¦/¦//¦%¦**¦~¦|¦==¦"
        "!=¦<¦<=¦>¦>=¦ and ¦ or ¦ not ¦ in ¦ not in ¦ is ¦ is not ¦ if ¦ else ¦defined¦divisibleby 3¦|f¦|f(1)¦|f(a=1)¦"
        "f(*a)¦f(**a)¦f(a, b=1, *c, **d)¦true¦True¦false¦none¦None¦0¦1¦007¦1_000¦1__0¦0x1F¦0b1_0¦0o17¦0x¦1.5¦1.¦.5¦"
        "1e3¦1.5E-3¦1_0.2_5¦1e¦'x'¦\"y\"¦'it\\'s'¦'\\n\\x41\\u00e9\\101'¦'\\x'¦'\\N{BULLET}'¦'\\N{no}'¦'\n'¦"
        "'\\\n'¦'¦\"¦\\¦}}¦-}}¦ ¦\n¦\r\n¦\t¦é¦e\u0301x¦\u0301¦²¦²a¦€¦@¦#¦$¦_¦__class__¦٣"
    ).split("¦")
)


def place_of(text: str) -> tuple[int | None, int | None, str]:
    with pytest.raises(ExpressionError) as caught:
        compile_template(text)
    return caught.value.line, caught.value.column, caught.value.message


@pytest.mark.parametrize(
    ("text", "line", "column", "said"),
    [
        ("{{ a b }}", 1, 6, "unexpected 'b' after the expression"),
        ("x {{ 1 + }}", 1, 8, "unexpected 'end of template'"),
        ("{{ [1, 2 }}", 1, 10, "unexpected '}', expected ']'"),
        ("{{ (1 }}", 1, 7, "unexpected '}', expected ')'"),
        ("{{ 1 }} {{\n 2 $ }}", 2, 4, "unexpected char '$'"),
        ("{{ inputs.a is f is g }}", 1, 18, "chain multiple tests"),
        ("{{ '\\x' }}", 1, 4, "truncated \\xXX escape"),
        ("{{ ² }}", 1, 4, "Invalid character in identifier"),
        ("{{ inputs['a':'b'] }}", 1, 11, "slices are not allowed"),
        ("{{ inputs.a\n  | lowr }}", 2, 5, "there is no filter `lowr`"),
        ("{{ 1.\u0663 }}", 1, 4, "is not a number"),
        ("{{ 1\u0663 }}", 1, 4, "is not a number"),
        ("{{ 2 ** 3 }}", 1, 4, "`**` is not allowed"),
        ("{{ inputs.f() }}", 1, 12, "calls are not allowed"),
    ],
)
def test_a_refusal_names_its_place(text: str, line: int, column: int, said: str) -> None:
    found_line, found_column, message = place_of(text)
    assert said in message
    assert (found_line, found_column) == (line, column)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_every_kind_of_line_end_keeps_the_places(end: str) -> None:
    """Jinja2 reads `\\r\\n` as one character; whatever stands after it must still be found where it is."""
    text = f"{{{{ inputs.a{end} ~{end} 'x{end}y' }}}}-{{{{ inputs.b }}}}"
    compiled = compile_template(text)
    offsets = {str(reference): place for reference, place in compiled.positions.items()}
    last_line = text.rpartition("\n")[2]
    assert offsets["inputs.b"] == (text.count("\n") + 1, last_line.index("inputs.b") + 1)


def test_text_after_an_expression_with_windows_line_ends_is_kept() -> None:
    assert compile_template("{{ 'a'\r\n ~ 'b' }} }} c").code.constant == "ab }} c"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("'a\r\nb\rc'", "a\nb\nc"),
        ("'\\U0001F600\\N{LATIN SMALL LETTER A}\\7'", "\U0001f600a\x07"),
        ("'a' 'b' \"c\"", "abc"),
        ("1_000 + 0x1F + 0b10 + 0o17", 1048),
        ("1.5e3", 1500.0),
        ("7 // 2 * 2 + 7 % 2", 7),
        ("1 < 2 < 3 and not 3 in [1, 2]", True),
        ("'yes' if 1 == 1.0 else 'no'", "yes"),
        ("(1, 2)", [1, 2]),
        ("-2 | abs", 2),
    ],
)
def test_a_constant_means_what_python_means_by_it(text: str, value: object) -> None:
    assert compile_condition(text).code.constant == value


@given(st.lists(PIECES, max_size=20).map("".join))
@settings(max_examples=200)
def test_any_pieces_are_read_or_refused_with_a_place(text: str) -> None:
    for refusal in (refusal_of(compile_condition, text), refusal_of(compile_template, f"{{{{ {text} }}}}")):
        if refusal is not None:
            assert refusal.line is not None
            assert refusal.column is not None
            assert 1 <= refusal.line <= text.count("\n") + 1


def refusal_of(compile_text: Callable[[str], object], text: str) -> ExpressionError | None:
    try:
        compile_text(text)
    except ExpressionError as error:
        return error
    return None
