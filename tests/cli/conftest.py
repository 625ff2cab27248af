"""The command as people run it: with its own home, nothing of the developer's settings, and no terminal."""

import io
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Protocol

import pytest

from rmhdag.cli.main import hoist_global_flags, run


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
    """A process of its own: slow, for what only a process shows."""

    def start(
        *arguments: str | Path, stdin: str | bytes = b"", **environment: str
    ) -> "subprocess.CompletedProcess[str]":
        return start_cli(home, *arguments, stdin=stdin, **environment)

    return start


def start_cli(
    home: Path, *arguments: str | Path, stdin: str | bytes = b"", **environment: str
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


@pytest.fixture
def call_cli(home: Path) -> RunCli:
    """The same inside this process: ten times as fast, and all that most tests need."""

    def call(
        *arguments: str | Path, stdin: str | bytes = b"", **environment: str
    ) -> "subprocess.CompletedProcess[str]":
        given = stdin.encode() if isinstance(stdin, str) else stdin
        written = io.BytesIO(), io.BytesIO()
        out, err = (io.TextIOWrapper(stream, encoding="utf-8", write_through=True) for stream in written)
        words = hoist_global_flags(list(map(str, arguments)))
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
            patch.chdir(home)
            for name in set(os.environ) - set(plain_environment(home)):
                patch.delenv(name)
            for name, value in (plain_environment(home) | environment).items():
                patch.setenv(name, value)
            patch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(given), encoding="utf-8"))
            code = run(words)
        return subprocess.CompletedProcess(words, code, *(stream.getvalue().decode("utf-8") for stream in written))

    return call


def plain_environment(home: Path) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONDONTWRITEBYTECODE") if name in os.environ}
    folders = {"HOME": str(home), "RMHDAG_HOME": str(home / "data"), "XDG_CONFIG_HOME": str(home / "config")}
    return kept | folders | {"LC_ALL": "C.UTF-8"}
