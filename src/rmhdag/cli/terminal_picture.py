"""A picture in a terminal: two pixels per character, the upper one as ▀, the lower one as its background."""

from __future__ import annotations

import io
import os

from rmhdag.cli.output import ESCAPE

Colour = tuple[int, int, int]
UPPER, LOWER = "▀", "▄"
RESET = f"{ESCAPE}[0m"
# Less than half opaque is nothing.
OPAQUE = 128


def draw_picture(data: bytes, columns: int) -> list[str]:
    """A PNG or WebP in half blocks, at most so many characters wide; what is transparent stays empty."""
    from PIL import Image

    with Image.open(io.BytesIO(data), formats=("PNG", "WEBP")) as picture:
        width = min(columns, picture.width)
        height = max(2, round(picture.height * width / picture.width) // 2 * 2)
        small = picture.convert("RGBA").resize((width, height), Image.Resampling.BOX)
    raw = small.tobytes()
    pixels = [raw[start : start + 4] for start in range(0, len(raw), 4)]
    rows = [[visible(pixel) for pixel in pixels[start : start + width]] for start in range(0, len(pixels), width)]
    return [draw_line(upper, lower) for upper, lower in zip(rows[::2], rows[1::2], strict=True)]


def visible(pixel: bytes) -> Colour | None:
    red, green, blue, alpha = pixel
    return (red, green, blue) if alpha >= OPAQUE else None


def draw_line(upper: list[Colour | None], lower: list[Colour | None]) -> str:
    """A code is written where the colours change, not for every character."""
    words, last = [], ""
    for above, below in zip(upper, lower, strict=True):
        if above is None and below is None:
            style, sign = RESET, " "
        elif above is None or below is None:
            style, sign = RESET + foreground(above or below), LOWER if above is None else UPPER
        else:
            style, sign = foreground(above) + background(below), UPPER
        words.append(sign if style == last else style + sign)
        last = style
    return "".join(words).rstrip(" ") + RESET


def foreground(colour: Colour | None) -> str:
    return "" if colour is None else f"{ESCAPE}[38;{code(colour)}m"


def background(colour: Colour) -> str:
    return f"{ESCAPE}[48;{code(colour)}m"


def code(colour: Colour) -> str:
    """24 bits where the terminal says that it can, else the nearest of the 256 that nearly all have."""
    red, green, blue = colour
    if os.environ.get("COLORTERM", "") in ("truecolor", "24bit"):
        return f"2;{red};{green};{blue}"
    if max(colour) - min(colour) < 12:
        return f"5;{232 + min(23, sum(colour) * 24 // 768)}"
    return f"5;{16 + 36 * round(red / 51) + 6 * round(green / 51) + round(blue / 51)}"
