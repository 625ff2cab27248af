"""A grid of character cells: lines that join automatically where they meet, and text with a style."""

from __future__ import annotations

from rmhdag.picture.text_width import character_columns

UP, DOWN, LEFT, RIGHT = 1, 2, 4, 8
JOINTS = " ╵╷│╴┘┐┤╶└┌├─┴┬┼"  # indexed by the directions in which a cell is connected
# Box characters of other kinds have plain equivalents, for terminals and files that support only ASCII.
TO_ASCII = str.maketrans(
    {
        **dict.fromkeys("│║┃╵╷", "|"),
        **dict.fromkeys("─═━╴╶", "-"),
        **dict.fromkeys("┘┐└┌├┤┬┴┼╔╗╚╝╦╩┏┓┗┛┳┻╭╮╰╯", "+"),
        "╱": "/",
        "╲": "\\",
        "▼": "v",
        "…": "~",
    }
)


class Canvas:
    def __init__(self, width: int, height: int) -> None:
        self._texts = [[" "] * width for _ in range(height)]
        self._styles = [[""] * width for _ in range(height)]
        self._joints: dict[tuple[int, int], int] = {}

    def line_down(self, column: int, top: int, bottom: int) -> None:
        for row in range(top, bottom):
            self._join(row, column, DOWN)
            self._join(row + 1, column, UP)

    def line_across(self, row: int, left: int, right: int) -> None:
        for column in range(left, right):
            self._join(row, column, RIGHT)
            self._join(row, column + 1, LEFT)

    def write(self, row: int, column: int, text: str, style: str = "") -> None:
        for character in text:
            width = character_columns(character)
            if not width:
                continue
            self._texts[row][column] = character
            self._styles[row][column] = style
            self._joints.pop((row, column), None)
            if width == 2:
                self._texts[row][column + 1] = ""
                self._styles[row][column + 1] = style
                self._joints.pop((row, column + 1), None)
            column += width

    def lines(self, *, colour: bool, ascii_only: bool, line_style: str) -> list[str]:
        for (row, column), directions in self._joints.items():
            self._texts[row][column] = JOINTS[directions]
            self._styles[row][column] = line_style
        return [
            render(texts, styles, colour=colour, ascii_only=ascii_only)
            for texts, styles in zip(self._texts, self._styles, strict=True)
        ]

    def _join(self, row: int, column: int, direction: int) -> None:
        self._joints[row, column] = self._joints.get((row, column), 0) | direction


def render(texts: list[str], styles: list[str], *, colour: bool, ascii_only: bool) -> str:
    used = len(texts)
    while used and texts[used - 1] == " ":
        used -= 1
    parts: list[str] = []
    current = ""
    for text, style in zip(texts[:used], styles[:used], strict=True):
        target = style if colour and text != " " else current
        if target != current:
            parts.append("\x1b[0m" if current else "")
            parts.append(f"\x1b[{target}m" if target else "")
            current = target
        parts.append(text)
    if current:
        parts.append("\x1b[0m")
    line = "".join(parts)
    return line.translate(TO_ASCII) if ascii_only else line
