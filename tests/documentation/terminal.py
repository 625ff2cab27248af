"""A terminal in which the commands of a page are typed as they are printed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cli.conftest import plain_environment
from tests.cli.running import SHORT_LEASES
from tests.documentation.fences import Fence
from tests.store.waiting import wait_until

STAYS = re.compile(r"(?:^|\s)\S*rmhdag up\b")
READY = "Ctrl-C stops everything"


class Terminal:
    """A folder of its own with the `.venv` of the tests; `rmhdag up` stays in the background once it is ready."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / ".venv").symlink_to(sys.prefix)
        programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self.environment = plain_environment(folder) | SHORT_LEASES | {"PATH": programs, "RMHDAG_API_PORT": "0"}
        # What the last command has written to stderr.
        self.messages = ""
        self._stay: list[subprocess.Popen[bytes]] = []

    def run(self, fence: Fence) -> list[str]:
        """What each command of a block has printed."""
        return [self.type(command, fence.place) for command in fence.commands()]

    def type(self, command: str, place: str = "") -> str:
        if STAYS.search(command):
            return self._start(command)
        done = subprocess.run(["bash", "-c", command], cwd=self.folder, env=self.environment, capture_output=True)
        self.messages = done.stderr.decode()
        assert done.returncode == 0, f"{place}: {command}: {done.stdout.decode()}{self.messages}"
        return done.stdout.decode()

    def run_python(self, fence: Fence, folder: Path | None = None) -> str:
        done = subprocess.run(
            [sys.executable, "-c", fence.text],
            cwd=folder or self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, f"{fence.place}: {done.stderr}"
        return done.stdout

    def close(self) -> None:
        for process in self._stay:
            process.terminate()
            assert process.wait(60) == 0
        self._stay.clear()

    def _start(self, command: str) -> str:
        self.close()
        messages = self.folder / "up.messages"
        with messages.open("wb") as stream:
            process = subprocess.Popen(
                ["bash", "-c", f"exec {command}" if "=" not in command.split()[0] else f"exec env {command}"],
                cwd=self.folder,
                env=self.environment,
                stderr=stream,
            )
        self._stay.append(process)
        wait_until(lambda: process.poll() is not None or READY in messages.read_text(), 90)
        assert process.poll() is None, messages.read_text()
        return messages.read_text()


@contextmanager
def open_terminal() -> Iterator[Terminal]:
    """In a folder that the embedded server's account can reach; pytest's own are closed to it."""
    folder = Path(tempfile.mkdtemp(prefix="rmhdag-home-"))
    folder.chmod(0o755)
    terminal = Terminal(folder)
    try:
        yield terminal
    finally:
        terminal.close()
        shutil.rmtree(folder)
