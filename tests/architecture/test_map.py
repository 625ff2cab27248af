"""The map of the packages shows the import rules, all of them and no other."""

from tests.architecture.map import PAGE, render_map, write_map
from tests.architecture.rules import MAY_IMPORT


def test_the_map_is_up_to_date() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert write_map(page) == page, "run: python -m tests.architecture.map"


def test_every_package_and_every_rule_is_on_the_map() -> None:
    rows = [line.split(" | ") for line in render_map(MAY_IMPORT).splitlines()[2:]]
    shown = {
        row[0].strip("| `/"): frozenset(row[-1].strip(" |").replace("none of the others", "").split(", ")) - {""}
        for row in rows
    }
    assert shown == MAY_IMPORT
    assert all(len(row) == 3 and row[1].strip() for row in rows)
