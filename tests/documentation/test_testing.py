"""The page about testing is true: its project runs, and its tests pass under pytest with nothing but the plugin."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import rmhdag.testing
from rmhdag.handlers.contract import HandlerContext
from rmhdag.handlers.reference import FIELDS, NOT_FOR_HANDLERS, reference
from tests.documentation.fences import fences_of
from tests.documentation.terminal import open_terminal

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r"^```(?:python|yaml)\n# (\S+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))


def test_the_project_of_the_page_passes_its_tests(tmp_path: Path) -> None:
    assert list(FILES) == ["ndvi.py", "test_handlers.py", "ndvi.yaml", "test_workflow.py"]
    for name, content in FILES.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "-p", "no:cacheprovider", tmp_path],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    assert "11 passed" in done.stdout


def test_the_project_of_the_page_can_be_edited_under_up() -> None:
    (reload,) = fences_of("docs/testing.md", "sh")
    with open_terminal() as terminal:
        for name, content in FILES.items():
            (terminal.folder / name).write_text(content, encoding="utf-8")
        (up,) = terminal.run(reload)
    assert "ndvi v1" in up


@pytest.mark.parametrize("name", sorted({name for name in rmhdag.testing.__all__ if name[0].islower()}))
def test_every_function_is_on_the_page(name: str) -> None:
    assert f"{name}(" in PAGE


def test_the_reference_for_authors_is_up_to_date() -> None:
    """Made by `python -m rmhdag.handlers.reference > docs/handler-reference.md`."""
    assert (ROOT / "docs" / "handler-reference.md").read_text(encoding="utf-8") == reference()


def test_the_reference_has_every_field_of_the_context() -> None:
    public = {name for name in HandlerContext.__slots__ if not name.startswith("_")}
    assert public == set(FIELDS)
    members = {name for name in vars(HandlerContext) if not name.startswith("_")} - public
    page = reference()
    assert [name for name in members - NOT_FOR_HANDLERS if f"`ctx.{name}" not in page] == []
