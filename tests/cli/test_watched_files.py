"""Which files `up --reload` follows, and what counts as a change of one."""

import os
from pathlib import Path

import pytest

from rmhdag.cli.reload import syntax_problem
from rmhdag.cli.watched_files import WatchedFiles, flow_files, handler_files


def names(modules: list[str], folder: Path) -> list[str]:
    return [str(path.relative_to(folder)) for path in handler_files(modules) if path.is_relative_to(folder)]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in (
        "single_of_a_test.py",
        "neighbour.py",
        "package_of_a_test/__init__.py",
        "package_of_a_test/deep/steps.py",
        "package_of_a_test/.hidden/x.py",
        "package_of_a_test/__pycache__/x.py",
        "no_package/x.py",
        "notes.txt",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


@pytest.mark.parametrize("module", ["single_of_a_test", "package_of_a_test.deep.steps"])
def test_a_module_is_followed_with_its_neighbours_and_without_importing_it(project: Path, module: str) -> None:
    (project / "package_of_a_test" / "__init__.py").write_text("raise SystemExit('imported')")
    assert sorted(set(names([module], project))) == [
        "neighbour.py",
        "package_of_a_test/__init__.py",
        "package_of_a_test/deep/steps.py",
        "single_of_a_test.py",
    ]


def test_installed_code_is_followed_alone(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed = project / "site-packages"
    for name in ("bought_for_a_test/__init__.py", "another/__init__.py"):
        (installed / name).parent.mkdir(parents=True)
        (installed / name).write_text("")
    monkeypatch.syspath_prepend(installed)
    assert names(["bought_for_a_test"], project) == ["site-packages/bought_for_a_test/__init__.py"]
    assert names(["there_is_no_such_module"], project) == []


def test_our_own_handlers_are_followed_where_they_are_a_source_folder() -> None:
    assert "examples.py" in {path.name for path in handler_files([])}


def test_a_change_is_reported_once_when_it_is_complete(tmp_path: Path) -> None:
    file, other = tmp_path / "a.yaml", tmp_path / "b.yaml"
    file.write_text("one")
    watched = WatchedFiles(lambda: flow_files([str(tmp_path)]))
    assert watched.changes() == []
    file.write_text("")
    assert watched.changes() == [], "it may be half written"
    file.write_text("three")
    assert watched.changes() == []
    assert watched.changes() == [file]
    assert watched.changes() == []
    other.write_text("new")
    file.unlink()
    watched.changes()
    assert watched.changes() == [file, other]


def test_the_same_size_within_the_same_moment_is_a_change_too(tmp_path: Path) -> None:
    """Editors replace a file by a new one."""
    file = tmp_path / "a.yaml"
    file.write_text("one")
    before = file.stat()
    watched = WatchedFiles(lambda: [file])
    (tmp_path / "new").write_text("two")
    (tmp_path / "new").replace(file)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    watched.changes()
    assert watched.changes() == [file]


def test_a_syntax_error_is_shown_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "bad.py"
    file.write_text("x = 1\ndef f(:\n    pass\n")
    problem = str(syntax_problem(file))
    assert f"{file}:2:" in problem
    assert "def f(:" in problem
    file.write_bytes(b"x = '\0'\n")
    assert str(file) in str(syntax_problem(file))
    file.write_text("x = 1\n")
    assert syntax_problem(file) is None
    file.unlink()
    assert syntax_problem(file) is None
