"""The map of the packages in docs/architecture/README.md, made from the import rules and the packages' docstrings.

`python -m tests.architecture.map` writes it anew.
"""

import ast
import re
from pathlib import Path

from tests.architecture.rules import MAY_IMPORT

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "architecture" / "README.md"
BETWEEN = re.compile(
    r"(<!-- map: made by `python -m tests\.architecture\.map` -->\n).*?(<!-- end of the map -->\n)", re.DOTALL
)


def render_map(rules: dict[str, frozenset[str]]) -> str:
    """A row per package, those that import least first."""
    lines = ["| package | what it does | may import |", "|---|---|---|"]
    for package in sorted(rules, key=lambda name: (len(_below(name, rules)), name)):
        others = ", ".join(sorted(rules[package])) or "none of the others"
        lines.append(f"| `{package}/` | {_summary(package)} | {others} |")
    return "\n".join(lines) + "\n"


def write_map(page: str) -> str:
    """The page with the map of today; an error if it has no place for one."""
    written, count = BETWEEN.subn(lambda found: f"{found[1]}{render_map(MAY_IMPORT)}{found[2]}", page)
    if count != 1:
        raise ValueError(f"{PAGE} has {count} places for the map")
    return written


def _below(package: str, rules: dict[str, frozenset[str]]) -> set[str]:
    below = set(rules[package])
    for other in rules[package]:
        below |= _below(other, rules)
    return below


def _summary(package: str) -> str:
    """The first sentence of the package's docstring."""
    source = (ROOT / "src" / "rmhdag" / package.replace(".", "/") / "__init__.py").read_text(encoding="utf-8")
    first = (ast.get_docstring(ast.parse(source)) or "").partition("\n\n")[0].replace("\n", " ")
    return re.split(r"(?<=\.) ", first)[0].rstrip(".").replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(write_map(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
