"""Imports are at the top of their module, but for those with a measured reason."""

from tests.architecture.late_imports import REASONS, check_counts, check_reasons, late_imports, reason_of
from tests.architecture.test_cycles import SOURCES

FOUND = late_imports(SOURCES)


def test_every_import_inside_a_function_has_a_reason() -> None:
    assert check_reasons(FOUND) == []


def test_there_are_no_more_of_them_than_there_were() -> None:
    assert check_counts(FOUND) == []


def test_no_reason_is_left_without_an_import() -> None:
    used = {
        reason for reason in REASONS for one in FOUND if one.module == reason or one.module.startswith(f"{reason}.")
    }
    assert used == REASONS.keys()


def test_an_import_inside_a_function_is_found() -> None:
    text = "import os\ndef f() -> None:\n    import a.b, c\n    def g() -> None:\n        from d import e"
    assert [one.module for one in late_imports({"rmhdag.engine.x": text})] == ["a.b", "c", "d"]
    assert {one.package for one in late_imports({"rmhdag.engine.x": text})} == {"engine"}
    assert len(check_reasons(late_imports({"rmhdag.engine.x": text}))) == 3


def test_a_count_may_neither_rise_nor_leave_room() -> None:
    found = late_imports({"rmhdag.engine.x": "def f() -> None:\n    import psycopg"})
    assert check_counts(found, {"engine": 1}) == []
    assert len(check_counts(found, {"engine": 0})) == 1
    assert len(check_counts(found, {"engine": 2})) == 1


def test_a_reason_holds_for_the_modules_of_a_package() -> None:
    assert reason_of("rmhdag.store.views") == REASONS["rmhdag.store"]
    assert reason_of("rmhdag.engine.flow") is None
