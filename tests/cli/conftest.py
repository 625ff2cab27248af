"""The command as people run it: a process with its own home, nothing of the developer's settings, and no terminal."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest


class RunCli(Protocol):
    def __call__(
        self, *arguments: str | Path, stdin: str | bytes = b"", **environment: str
    ) -> "subprocess.CompletedProcess[str]": ...


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder that the embedded server's account can reach; pytest's own are closed to it."""
    folder = Path(tempfile.mkdtemp(prefix="rmhdag-home-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def run_cli(home: Path) -> RunCli:
    def run(
        *arguments: str | Path, stdin: str | bytes = b"", **environment: str
    ) -> "subprocess.CompletedProcess[str]":
        done = subprocess.run(
            [sys.executable, "-m", "rmhdag.cli", *map(str, arguments)],
            input=stdin.encode() if isinstance(stdin, str) else stdin,
            capture_output=True,
            cwd=home,
            env=plain_environment(home) | environment,
            timeout=100,
        )
        return subprocess.CompletedProcess(
            done.args, done.returncode, done.stdout.decode("utf-8"), done.stderr.decode("utf-8")
        )

    return run


def plain_environment(home: Path) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONDONTWRITEBYTECODE") if name in os.environ}
    folders = {"HOME": str(home), "RMHDAG_HOME": str(home / "data"), "XDG_CONFIG_HOME": str(home / "config")}
    return kept | folders | {"LC_ALL": "C.UTF-8"}
