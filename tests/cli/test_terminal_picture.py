"""Pictures as half blocks: the right colours at the right place, nothing where there is nothing."""

from __future__ import annotations

import io
import re

import pytest
from PIL import Image

from rmhdag.cli import terminal_picture
from rmhdag.cli.output import show

RED, BLUE, NOTHING = (255, 0, 0, 255), (0, 0, 255, 255), (0, 0, 0, 0)


def picture(rows: list[list[tuple[int, int, int, int]]], kind: str = "PNG") -> bytes:
    made = Image.new("RGBA", (len(rows[0]), len(rows)))
    for top, row in enumerate(rows):
        for left, pixel in enumerate(row):
            made.putpixel((left, top), pixel)
    out = io.BytesIO()
    made.save(out, kind, lossless=True) if kind == "WEBP" else made.save(out, kind)
    return out.getvalue()


def draw_picture(data: bytes, columns: int) -> list[str]:
    return [show(line) for line in terminal_picture.draw_picture(data, columns)]


def without_colour(line: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", line)


@pytest.mark.parametrize("kind", ["PNG", "WEBP"])
def test_a_character_holds_two_pixels(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLORTERM", "truecolor")
    (line,) = draw_picture(picture([[RED, RED], [BLUE, BLUE]], kind), 40)
    assert line == "\x1b[38;2;255;0;0m\x1b[48;2;0;0;255m▀▀\x1b[0m"


def test_what_is_transparent_stays_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLORTERM", "truecolor")
    first, second = draw_picture(picture([[NOTHING, RED], [BLUE, NOTHING], [NOTHING, NOTHING], [NOTHING, RED]]), 40)
    assert without_colour(first) == "▄▀"
    assert without_colour(second) == " ▄"
    assert "48;" not in first + second, "nothing is drawn behind"


def test_other_terminals_get_one_of_256_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLORTERM", raising=False)
    grey = (128, 128, 128, 255)
    assert draw_picture(picture([[RED], [grey]]), 40) == ["\x1b[38;5;196m\x1b[48;5;244m▀\x1b[0m"]


def test_it_fits_and_keeps_its_shape() -> None:
    lines = draw_picture(picture([[RED] * 100] * 60), 40)
    assert [len(without_colour(line)) for line in lines] == [40] * 12
