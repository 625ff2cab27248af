"""The operating-system account of the server: PostgreSQL refuses to run as root, so root switches to another one.

Never to `nobody`: other programs under that account could read the data and the password.
"""

import os
import pwd
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rmhdag.embedded.failure import EmbeddedPostgresError

OWN_ACCOUNT = "rmhdag-postgres"
SHARED_ACCOUNT = "nobody"
ADMINISTRATORS_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Account:
    """The account of the server. `steps_down` is true if this process is root and must switch to it."""

    uid: int
    gid: int
    name: str
    steps_down: bool

    def run(self, command: Sequence[str | Path]) -> subprocess.CompletedProcess[str]:
        """Run a short command as this account and return its output; raises OSError if it cannot be started."""
        return subprocess.run(
            [str(part) for part in command],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            cwd="/",
            env=server_environment(),
            user=self.uid if self.steps_down else None,
            group=self.gid if self.steps_down else None,
            extra_groups=[] if self.steps_down else None,
        )

    def own(self, path: Path) -> None:
        if self.steps_down:
            os.chown(path, self.uid, self.gid)

    def own_all(self, folder: Path) -> None:
        """Take over a whole tree from another account; links are not followed."""
        if self.steps_down and folder.exists() and folder.stat().st_uid != self.uid:
            for place, folders, names in os.walk(folder):
                for name in (*folders, *names):
                    os.chown(Path(place, name), self.uid, self.gid, follow_symlinks=False)
            self.own(folder)

    def can_enter(self, folder: Path) -> bool:
        return self.run(["/bin/sh", "-c", 'cd -- "$1"', "sh", folder]).returncode == 0


def server_environment() -> dict[str, str]:
    # The caller's environment is not passed on: its PGDATA, PGPORT or PGOPTIONS must not reach the server.
    return {"LC_ALL": "C.UTF-8", "PATH": "/usr/local/bin:/usr/bin:/bin", "TZ": "UTC"}


def choose_account(data_folder: Path) -> Account:
    """The account that owns the data, if any; otherwise the current user, or as root `postgres` or our own."""
    me = os.geteuid()
    owner = data_folder.stat().st_uid if data_folder.exists() else None
    if me != 0:
        if owner not in (None, me):
            raise EmbeddedPostgresError(
                f"{data_folder} belongs to {_name_of(owner)}, not to {_name_of(me)}, who is starting the server; "
                f"start it as that user or choose another data folder"
            )
        return Account(uid=me, gid=os.getegid(), name=_name_of(me), steps_down=False)
    entry = _lookup(owner) if owner else None
    if entry is not None and entry.pw_name == SHARED_ACCOUNT:
        # Left by an earlier version; the data is handed over to the account that is chosen now.
        entry = None
    entry = entry or _find("postgres") or _find(OWN_ACCOUNT) or make_account(OWN_ACCOUNT)
    return Account(uid=entry.pw_uid, gid=entry.pw_gid, name=entry.pw_name, steps_down=True)


def make_account(name: str) -> pwd.struct_passwd:
    """A system account without a login that owns only the server's files."""
    command = ["useradd", "--system", "--user-group", "--no-create-home"]
    command += ["--home-dir", "/nonexistent", "--shell", "/usr/sbin/nologin", name]
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"PATH": ADMINISTRATORS_PATH})
        reason = done.stderr.strip()
    except OSError as error:
        reason = f"useradd cannot be run ({error.strerror})"
    # Another process may have created it at the same moment.
    entry = _find(name)
    if entry is None:
        raise EmbeddedPostgresError(
            f"PostgreSQL refuses to run as root, this system has no user `postgres`, and the user `{name}` cannot be "
            f"made: {reason}; add one of them, start this as an ordinary user, or name a server by RMHDAG_DATABASE_URL"
        )
    return entry


def _find(name: str) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(name)
    except KeyError:
        return None


def _lookup(uid: int) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwuid(uid)
    except KeyError:
        return None


def _name_of(uid: int | None) -> str:
    entry = _lookup(uid) if uid is not None else None
    return f"user {entry.pw_name}" if entry else f"uid {uid}"
