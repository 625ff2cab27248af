"""The pinned requirements: what is installed together agrees, and running the package needs nothing that builds it."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted(path.stem for path in (ROOT / "requirements").glob("*.in"))
PIN = re.compile(r"^([a-z0-9][a-z0-9.-]*)==(\S+)", re.MULTILINE)


# Where the file stands that pins it, unless beside it: a function is deployed as a folder.
ELSEWHERE = {"function": "deploy/function/requirements-function.txt"}


def read_pins(name: str) -> str:
    return (ROOT / ELSEWHERE.get(name, f"requirements/{name}.txt")).read_text()


def pins(name: str) -> dict[str, str]:
    return dict(PIN.findall(read_pins(name)))


@pytest.mark.parametrize("name", FILES)
def test_every_package_is_pinned_by_hash_and_names_no_host(name: str) -> None:
    text = read_pins(name)
    blocks = re.split(r"\n(?=\S)", text.strip())
    assert len(blocks) == len(pins(name))
    assert all("--hash=sha256:" in block for block in blocks)
    assert "://" not in text


@pytest.mark.parametrize(("smaller", "larger"), [("core", "geo"), ("geo", "dev")])
def test_a_larger_environment_serves_for_less(smaller: str, larger: str) -> None:
    assert pins(smaller).items() <= pins(larger).items()


def test_what_builds_the_package_is_not_needed_to_run_it() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    back_ends = set(project["build-system"]["requires"])
    assert back_ends <= pins("build").keys()
    for name in ("core", "geo"):
        assert not back_ends & pins(name).keys()


@pytest.mark.parametrize("name", ["core", "geo", "dev"])
def test_build_tools_fit_into_every_environment(name: str) -> None:
    build, others = pins("build"), pins(name)
    assert {package: build[package] for package in build.keys() & others.keys()}.items() <= others.items()


@pytest.mark.parametrize("name", FILES)
def test_every_file_is_pinned_by_the_script(name: str) -> None:
    loop = re.search(r"^for name in (.*); do$", (ROOT / "scripts/pin").read_text(), re.MULTILINE)
    assert loop is not None
    assert name in loop[1].split()
