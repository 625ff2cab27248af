"""What `rmhdag graph` does; the command line is in graph.py, so that plain calls need no Typer."""

from __future__ import annotations

import shutil
import sys
from enum import StrEnum
from pathlib import Path

from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.failure import CommandFailed
from rmhdag.cli.output import ESCAPE, emit, emit_json, has_colour, say, show_json
from rmhdag.cli.workflow_files import check_file, find_files, show_problem
from rmhdag.picture.dot import draw_dot
from rmhdag.picture.layout import place
from rmhdag.picture.mermaid import draw_mermaid
from rmhdag.picture.outline import Outline, outline_folded
from rmhdag.picture.svg import draw_svg
from rmhdag.picture.terminal import draw_terminal


class Direction(StrEnum):
    DOWN = "down"
    RIGHT = "right"


def show_picture(
    file: str,
    *,
    svg: bool = False,
    mermaid: bool = False,
    dot: bool = False,
    as_json: bool = False,
    output: Path | None = None,
    direction: Direction = Direction.DOWN,
    width: int | None = None,
    ascii_only: bool = False,
) -> None:
    """The workflow in one of the forms, to stdout or into a file."""
    if svg + mermaid + dot + as_json > 1:
        raise CommandFailed("--svg, --mermaid, --dot and --json exclude each other", code=ExitCode.USAGE)
    outline = outline_or_explain(file)
    if as_json and output is None:
        emit_json(place(outline, direction=direction.value).as_json())
        return
    if svg:
        text = draw_svg_text(outline, direction)
    elif mermaid or dot:
        text = draw_other(outline, direction, mermaid=mermaid)
    elif as_json:
        text = layout_json(outline, direction)
    else:
        text = draw_boxes(outline, width, plain=ascii_only or not speaks_unicode(), to_file=output is not None)
    if output is None:
        emit(text)
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CommandFailed(f"{output} cannot be written: {error.strerror}") from None
    say(f"wrote {output}")


def outline_or_explain(file: str) -> Outline:
    if Path(file).is_dir():
        raise CommandFailed(f"{file} is a folder", remedy="Name one workflow file.", code=ExitCode.USAGE)
    checked = check_file(*find_files([file]))
    if checked.checked is None:
        for problem in checked.problems:
            say(show_problem(problem, checked.source, sys.stderr).rstrip())
        raise CommandFailed(f"{checked.file} is not a valid workflow, so it has no picture", code=ExitCode.INVALID)
    return outline_folded(checked.checked.folded())


def draw_svg_text(outline: Outline, direction: Direction) -> str:
    return draw_svg(place(outline, direction=direction.value))


def layout_json(outline: Outline, direction: Direction) -> str:
    return show_json(place(outline, direction=direction.value).as_json()) + "\n"


def draw_other(outline: Outline, direction: Direction, *, mermaid: bool) -> str:
    draw = draw_mermaid if mermaid else draw_dot
    return draw(outline, direction=direction.value)


def draw_boxes(outline: Outline, width: int | None, *, plain: bool, to_file: bool) -> str:
    columns = width or shutil.get_terminal_size((100, 24)).columns
    colour = not to_file and has_colour(sys.stdout)
    # Its texts are cleaned already, so the styles are all ours.
    return draw_terminal(outline, width=columns, colour=colour, ascii_only=plain).replace("\x1b", ESCAPE)


def speaks_unicode() -> bool:
    return (sys.stdout.encoding or "").lower().replace("-", "").startswith("utf")
