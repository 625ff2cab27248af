"""A list as a command shows it: JSON for programs, a table for people, a sentence where there is nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from pydantic import BaseModel

from rmhdag.cli.output import emit, emit_json, say
from rmhdag.cli.tables import lay_out

L = TypeVar("L", bound=BaseModel)


def show_listing(
    name: str,
    lines: Sequence[L],
    headers: Sequence[str],
    row_of: Callable[[L], Sequence[object]],
    *,
    as_json: bool,
    nothing: str,
    right: Sequence[str] = (),
) -> None:
    """`nothing` is said to people if there are no lines; the columns in `right` are numbers."""
    if as_json:
        emit_json({name: [line.model_dump() for line in lines]})
    elif not lines:
        say(nothing)
    else:
        emit(lay_out(headers, [row_of(line) for line in lines], right=right))
