"""The pages are true: links lead somewhere, the example is valid, the commands exist, the index is whole."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = sorted(set(re.findall(r"^\| `rmhdag ([a-z -]+)` \|", README, re.MULTILINE)))


def rmhdag(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "rmhdag.cli", *arguments], capture_output=True, text=True)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    relative = [link for link in links if "://" not in link]
    assert [link for link in relative if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_to_headings_lead_to_one(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]*\.md|)#([^)]+)\)", page.read_text(encoding="utf-8"))
    inside = [(link, heading) for link, heading in links if "://" not in link]
    assert [link for link in inside if link[1] not in headings(page.parent / link[0] if link[0] else page)] == []


def headings(page: Path) -> set[str]:
    """As a link names them: small letters, hyphens for spaces, nothing else but letters and digits."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    found = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w-]", "", heading.lower().replace(" ", "-")) for heading in found}


def test_every_mechanism_is_in_the_index() -> None:
    folder = ROOT / "docs" / "architecture"
    index = (folder / "README.md").read_text(encoding="utf-8")
    pages = [page.name for page in folder.glob("*.md") if page.name != "README.md"]
    assert pages
    assert [page for page in pages if f"]({page})" not in index] == []


def test_contributing_stays_short() -> None:
    assert len((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").splitlines()) <= 60


def test_the_first_workflow_is_valid_and_can_be_drawn(tmp_path: Path) -> None:
    (example,) = re.findall(r"^```yaml\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    file = tmp_path / "tiles.yaml"
    file.write_text(example, encoding="utf-8")
    checked = rmhdag("validate", file)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    drawn = rmhdag("graph", file)
    assert drawn.returncode == 0, drawn.stderr
    assert "each_tile" in drawn.stdout


def test_the_table_of_commands_was_found() -> None:
    from rmhdag.cli.commands import COMMANDS as REGISTERED

    explained_elsewhere = {"config", "version"}
    assert {command.split()[0] for command in COMMANDS} == set(REGISTERED) - explained_elsewhere


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_of_the_readme_exist(command: str) -> None:
    done = rmhdag(*command.split(), "--help")
    assert done.returncode == 0, done.stderr
    assert command in done.stdout
