"""The guide to the HTTP API is true: its commands are run in order, exactly as printed, and answer what it says."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.cli.conftest import plain_environment, start_cli
from tests.cli.running import Up
from tests.conftest import require

PAGE = Path(__file__).resolve().parents[2] / "docs" / "http-api.md"
BLOCK = re.compile(r"^```(sh|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Step(NamedTuple):
    """Commands, and what they print if the page says so."""

    line: int
    commands: str
    printed: str | None


def read_steps(text: str) -> list[Step]:
    steps: list[Step] = []
    for found in BLOCK.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        if found[1] == "sh":
            steps.append(Step(line, found[2], None))
        else:
            steps[-1] = steps[-1]._replace(printed=found[2])
    return steps


@pytest.fixture
def up() -> Iterator[Up]:
    home = Path(tempfile.mkdtemp(prefix="rmhdag-home-"))
    home.chmod(0o755)
    running = Up(home)
    yield running
    assert running.end() == 0
    shutil.rmtree(home)


def test_the_commands_run_as_they_are_printed(up: Up) -> None:
    require(shutil.which("curl") is not None, "curl is not installed")
    first, *steps = read_steps(PAGE.read_text(encoding="utf-8"))
    made = start_cli(up.home, *first.commands.split()[1:], **up.environment)
    assert made.returncode == 0, made.stderr
    # One shell for all of them, as a reader would have it: what one step sets, the next one uses.
    script = "".join(f"{{\n{step.commands}}} > step-{number}\n" for number, step in enumerate(steps))
    programs = {"PATH": f"{Path(sys.executable).parent}:{plain_environment(up.home)['PATH']}"}
    key = {"RMHDAG_URL": up.facts["url"], "RMHDAG_KEY": made.stdout.strip()}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=up.home,
        env=plain_environment(up.home) | programs | key,
        capture_output=True,
        text=True,
        timeout=100,
    )
    ran = [path for path in map(up.home.joinpath, (f"step-{number}" for number in range(len(steps)))) if path.exists()]
    assert done.returncode == 0, f"line {steps[len(ran) - 1].line}: {done.stderr}{ran[-1].read_text()}"
    for step, path in zip(steps, ran, strict=True):
        if step.printed is not None:
            assert path.read_text(encoding="utf-8") == step.printed, f"line {step.line}"
