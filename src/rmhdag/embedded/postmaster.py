"""The server as a process: started under its guard, recognised, and stopped."""

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from rmhdag.embedded.account import Account, server_environment
from rmhdag.embedded.failure import EmbeddedPostgresError

_GUARD = resources.files("rmhdag.embedded").joinpath("guard.sh").read_text(encoding="utf-8")
_POLL_SECONDS = 0.02


def spawn_server(
    account: Account, command: Sequence[str | Path], *, data: Path, log: Path, remove: Path | None
) -> subprocess.Popen[bytes]:
    """Start the server so that it ends when this process ends, even by SIGKILL. Its pid is the postmaster's."""
    # Failed statements are logged with their values: no other user may read them.
    file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    with os.fdopen(file, "ab") as output:
        return subprocess.Popen(
            ["/bin/sh", "-c", _GUARD, "guard", str(data), str(remove or ""), *(str(part) for part in command)],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            cwd="/",
            env=server_environment(),
            # Ctrl-C in the terminal is for this process, which then stops the server properly.
            start_new_session=True,
            umask=0o077,
            user=account.uid if account.steps_down else None,
            group=account.gid if account.steps_down else None,
            extra_groups=[] if account.steps_down else None,
        )


def end_server(process: subprocess.Popen[bytes], *, patience_seconds: float) -> None:
    """Stop our own server: first a request, then a kill; and release its guard."""
    for number, seconds in ((signal.SIGINT, patience_seconds), (signal.SIGQUIT, 10.0), (signal.SIGKILL, 10.0)):
        if process.poll() is not None:
            break
        process.send_signal(number)
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            continue
    if process.stdin is not None:
        try:
            process.stdin.write(b"stopped\n")
            process.stdin.close()
        except BrokenPipeError:
            pass


def read_pid(data: Path) -> int | None:
    """The process that postmaster.pid names, which may be another program by now."""
    try:
        return int((data / "postmaster.pid").read_text(encoding="ascii").split("\n", 1)[0])
    except (FileNotFoundError, ValueError):
        return None


def end_ownerless_server(data: Path, *, patience_seconds: float) -> None:
    """Free a data folder whose owner is gone: wait for its server to end, or end it; remove a stale pid file.

    Called only under the folder's lock. A server that runs has the data folder as its current folder; any other
    process with that number is unrelated, and PostgreSQL would refuse to start because of it.
    """
    pid = read_pid(data)
    if pid is None:
        return
    if _is_server_of(pid, data):
        # Its guard has probably asked it to stop already; a second request does no harm.
        for number, seconds in ((signal.SIGINT, patience_seconds), (signal.SIGQUIT, 10.0)):
            _signal_if_server_of(pid, data, number)
            if _wait_until_gone(pid, data, seconds):
                return
        raise EmbeddedPostgresError(
            f"a server (process {pid}) still runs on {data} and does not stop; end it, then try again"
        )
    if _exists(pid):
        (data / "postmaster.pid").unlink(missing_ok=True)


def _is_server_of(pid: int, data: Path) -> bool:
    try:
        return Path(os.readlink(f"/proc/{pid}/cwd")) == data
    except OSError:
        return False


def _signal_if_server_of(pid: int, data: Path, number: signal.Signals) -> None:
    if _is_server_of(pid, data):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return


def _wait_until_gone(pid: int, data: Path, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while _is_server_of(pid, data):
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
