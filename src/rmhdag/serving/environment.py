"""The environment of the services: their own packages, pinned by hash, installed once into the user's cache.

`python -m rmhdag.serving.environment` installs it and prints its folder.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

CACHE_VARIABLE = "XDG_CACHE_HOME"
READY = "ready"
PINS = "services.txt"
# The services run under another account if rmhdag runs as root, and must reach their packages.
REACHABLE_UMASK = 0o022
TAIL_LINES = 12
SYSTEM_PYTHONS = ("/usr/bin/python3.11", "/usr/bin/python3", "/usr/local/bin/python3")
NEW_ENOUGH = "import sys, venv; sys.exit(sys.version_info < (3, 11))"


class EnvironmentMissing(Exception):
    """The services cannot be installed; the message says why, and what to do."""


def pins_file() -> Path:
    """In the wheel beside this file; in a clone where all pins are."""
    shipped = Path(__file__).with_name(PINS)
    return shipped if shipped.is_file() else Path(__file__).resolve().parents[3] / "requirements" / PINS


def cache_folder() -> Path:
    """Not in root's home, which other accounts cannot enter."""
    named = os.environ.get(CACHE_VARIABLE)
    if named:
        return Path(named) / "rmhdag"
    return Path("/var/cache/rmhdag") if os.geteuid() == 0 else Path.home() / ".cache" / "rmhdag"


def environment_folder() -> Path:
    """Named after its pins, so that other versions of rmhdag keep theirs."""
    return cache_folder() / f"services-{hashlib.sha256(pins_file().read_bytes()).hexdigest()[:12]}"


def find_python() -> Path | None:
    """The interpreter of the installed environment; None if it is not there."""
    python = environment_folder() / READY / "bin" / "python"
    return python if python.exists() else None


def ensure_python(say: Callable[[str], None]) -> Path:
    """Installs the environment if it is not there. Raises EnvironmentMissing."""
    return find_python() or _install(say)


def _install(say: Callable[[str], None]) -> Path:
    folder = environment_folder()
    say(f"installing the services into {folder} (once; about 250 MB)")
    before = os.umask(REACHABLE_UMASK)
    part: Path | None = None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # An environment cannot be renamed, so a link says that it is complete.
        part = Path(tempfile.mkdtemp(prefix="env-", dir=folder))
        part.chmod(0o755)
        _fill(part)
        link = folder / f"{part.name}.link"
        link.symlink_to(part.name)
        link.replace(folder / READY)
    except (OSError, EnvironmentMissing) as error:
        if part is not None:
            shutil.rmtree(part, ignore_errors=True)
        if isinstance(error, EnvironmentMissing):
            raise
        raise EnvironmentMissing(
            f"{folder} cannot be written ({error.strerror}): set {CACHE_VARIABLE} to a folder that can"
        ) from error
    finally:
        os.umask(before)
    return folder / READY / "bin" / "python"


def is_reachable(path: Path) -> bool:
    """Whether every account can enter the folders above it, and above what it links to."""
    folders = {*path.absolute().parents, *path.resolve().parents}
    return all(folder.stat().st_mode & stat.S_IXOTH for folder in folders)


def _base_python() -> str:
    """The interpreter that ours is made from; as root one that other accounts reach, if there is one."""
    own = Path(getattr(sys, "_base_executable", None) or sys.executable)
    if os.geteuid() != 0 or is_reachable(own):
        return str(own)
    for other in SYSTEM_PYTHONS:
        if os.access(other, os.X_OK) and subprocess.run([other, "-c", NEW_ENOUGH], capture_output=True).returncode == 0:
            return other
    return str(own)


def _fill(part: Path) -> None:
    """By uv if it is there, which takes seconds; by pip otherwise. Both check the hashes."""
    python = part / "bin" / "python"
    pins = str(pins_file())
    uv = _find_uv()
    if uv is not None:
        _run([_base_python(), "-m", "venv", "--without-pip", str(part)])
        words = ["pip", "sync", "-q", "--require-hashes", "--compile-bytecode", "--python", str(python), pins]
        _run([uv, *words])
    else:
        _run([_base_python(), "-m", "venv", str(part)])
        _run([str(python), "-m", "pip", "install", "-q", "--require-hashes", "-r", pins])


def _find_uv() -> str | None:
    beside = Path(sys.executable).with_name("uv")
    return str(beside) if beside.exists() else shutil.which("uv")


def _run(command: list[str]) -> None:
    environment = os.environ | {
        "UV_PYTHON_DOWNLOADS": "never",
        "UV_SYSTEM_CERTS": os.environ.get("UV_SYSTEM_CERTS", "1"),
    }
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        tail = "\n".join((done.stderr or done.stdout).strip().splitlines()[-TAIL_LINES:])
        raise EnvironmentMissing(
            f"{pins_file()} cannot be installed: check the network, the proxy and the certificates "
            f"(HTTPS_PROXY, SSL_CERT_FILE)\n{tail}"
        )


def main() -> int:
    try:
        print(ensure_python(lambda text: print(text, file=sys.stderr)).parent.parent)
    except EnvironmentMissing as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
