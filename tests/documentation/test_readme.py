"""The README is true: a reader who types its commands in this order gets what it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.documentation.fences import ROOT, fences_of
from tests.documentation.terminal import open_terminal

PAGE = (ROOT / "README.md").read_text(encoding="utf-8")


# Some twenty processes, one after the other: on a busy machine each takes seconds to start.
@pytest.mark.timeout(600)
def test_its_commands_run_as_they_are_printed() -> None:
    """`./run` itself installs packages and is tried on fresh machines; its platform is that of `rmhdag up`."""
    _, while_it_runs, first_workflow, from_another_machine = fences_of("README.md", "sh")
    (workflow,) = fences_of("README.md", "yaml")
    (client,) = fences_of("README.md", "python")
    (make_key,) = re.findall(r"`(rmhdag keys create NAME [^`]+)`", PAGE)
    with open_terminal() as terminal:
        up = terminal.type("rmhdag up")
        terminal.run(while_it_runs)
        (terminal.folder / "tiles.yaml").write_text(workflow.text, encoding="utf-8")
        _, drawn, submitted, _ = terminal.run(first_workflow)
        assert "each_tile" in drawn
        assert '"count": 3' in submitted
        (url,) = set(re.findall(r"http://127\.0\.0\.1:\d+", up))
        terminal.environment |= {"RMHDAG_URL": url, "RMHDAG_KEY": terminal.type(make_key).strip()}
        assert "Hello, Ada!" in terminal.run(from_another_machine)[-1]
        assert "Hello, Ada!" in terminal.run_python(client)


def test_the_front_page_of_the_documentation_names_every_page() -> None:
    folder = ROOT / "docs"
    index = (folder / "README.md").read_text(encoding="utf-8")
    assert [
        page.name for page in folder.glob("*.md") if page.name != "README.md" and f"]({page.name}" not in index
    ] == []
    assert Path("docs/README.md").as_posix() in PAGE
