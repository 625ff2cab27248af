"""Rows of words in columns, and times and durations in the same words everywhere."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from rmhdag.cli.output import ESCAPE, paint

STATUS_STYLES = {
    "pending": "2",
    "ready": "2",
    "dispatched": "36",
    "running": "34",
    "completed": "32",
    "failed": "31",
    "skipped": "2",
    "cancelled": "33",
}
_STYLED = re.compile(re.escape(ESCAPE) + r"\[[0-9;]*m")


def lay_out(headers: Sequence[str], rows: Sequence[Sequence[object]], *, right: Sequence[str] = ()) -> str:
    """Columns as wide as their widest word; in a terminal the last one is cut at its edge."""
    cells = [["" if cell is None else on_one_line(str(cell)) for cell in row] for row in rows]
    widths = [max([len(header), *(len(bare(row[index])) for row in cells)]) for index, header in enumerate(headers)]
    limit = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    lines = []
    for number, row in enumerate([list(headers), *cells]):
        words = []
        for index, cell in enumerate(row):
            last = index == len(row) - 1
            if last and limit is not None:
                cell = cut(cell, max(20, limit - sum(widths[:-1]) - 2 * len(widths)))
            gap = " " * (widths[index] - len(bare(cell)))
            words.append(gap + cell if headers[index] in right else cell + ("" if last else gap))
        line = "  ".join(words).rstrip()
        lines.append(paint(line, "2", sys.stdout) if number == 0 else line)
    return "\n".join(lines) + "\n"


def lay_out_facts(facts: Iterable[tuple[str, object]], width: int) -> str:
    """A name and a value per line. Further lines of a value are indented, so that none looks like another fact."""
    return "".join(f"{name:<{width}} {indent_lines(str(value), width + 1)}\n" for name, value in facts)


def indent_lines(text: str, width: int) -> str:
    return text.replace("\n", "\n" + " " * width)


def on_one_line(text: str) -> str:
    return text.replace("\n", " ").replace("\t", " ")


def bare(text: str) -> str:
    return _STYLED.sub("", text)


def cut(text: str, width: int) -> str:
    """One line, at most so long; styled text is left alone, since it is a single word."""
    flat = " ".join(text.split())
    return flat if len(flat) <= width or _STYLED.search(flat) else flat[: width - 1] + "…"


def show_status(status: str) -> str:
    return paint(status, STATUS_STYLES.get(status, ""), sys.stdout)


def show_duration(seconds: float | None) -> str:
    """`0.2s`, `14s`, `2m 14s`, `3h 5m`, `2d 4h`."""
    if seconds is None:
        return ""
    seconds = max(0.0, seconds)
    if seconds < 9.95:
        return f"{seconds:.1f}s"
    whole = round(seconds)
    for unit, size, smaller, part in (("d", 86_400, "h", 3_600), ("h", 3_600, "m", 60), ("m", 60, "s", 1)):
        if whole >= size:
            return f"{whole // size}{unit} {whole % size // part}{smaller}"
    return f"{whole}s"


def show_age(moment: datetime, now: datetime | None = None) -> str:
    return f"{show_duration(((now or datetime.now(UTC)) - moment).total_seconds())} ago"


def show_moment(moment: datetime) -> str:
    """Local time, with its zone named."""
    return moment.astimezone().strftime("%Y-%m-%d %H:%M:%S %Z")


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def show_bytes(count: int) -> str:
    """`812 B`, `8.8 MB`, `1.6 GB`; a kilobyte has 1,000."""
    size, names = float(count), ["B", "kB", "MB", "GB", "TB", "PB"]
    while size >= 999.5 and len(names) > 1:
        size, names = size / 1_000, names[1:]
    return f"{size:.1f} {names[0]}" if names[0] != "B" and size < 99.95 else f"{size:.0f} {names[0]}"
