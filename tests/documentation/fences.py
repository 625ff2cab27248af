"""The fenced blocks of the pages: readers copy them, so tests run them as they are printed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
# The changelog is history: what it shows was true when it was written.
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md"))
)
FENCE = re.compile(r"^ *```([^\n]*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)


class Fence(NamedTuple):
    page: str
    line: int
    language: str
    text: str

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def first_line(self) -> str:
        return self.text.partition("\n")[0].strip()

    def commands(self) -> list[str]:
        """A command per line; those that go on after a backslash are one."""
        return [line for line in self.text.replace("\\\n", " ").splitlines() if line.strip()]


def fences_of(page: str, *languages: str) -> list[Fence]:
    """The blocks of a page in their order; only those of these languages, if some are named."""
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = [
        Fence(page, text.count("\n", 0, block.start()) + 1, block[1].strip(), block[2])
        for block in FENCE.finditer(text)
    ]
    return [block for block in blocks if not languages or block.language in languages]
