"""The API that `rmhdag up` runs, as commands on the same machine find it: a file in the data folder.

It holds the address and a secret, and only its owner can read it. `up` keeps it locked: what a killed one left behind
is not locked any more, and not used. Nor is an API whose settings would answer otherwise than those of the command.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import rmhdag
from rmhdag.cli.settings import Settings
from rmhdag.embedded import default_folder
from rmhdag.machine.private_files import PRIVATE_FILE
from rmhdag.models.local_callers import new_local_secret

FILE = "api.json"
MOST_BYTES = 64 * 1024
# What the API decides by; a command with other settings answers for itself.
DECISIVE = (
    "schema_name",
    "development",
    "dag_worker_queue",
    "worker_queue",
    "template_env",
    "callback_hosts",
    "callback_refused_ports",
    "public_url",
    "platforms",
    "quotas",
    "retention_days",
    "retention_history_days",
    "retention_payload_days",
)


class Door(NamedTuple):
    url: str
    secret: str


@contextmanager
def open_door(home: Path, url: str | None, settings: Settings) -> Iterator[Path | None]:
    """Let commands in while the block runs. None if the API is not to be reached over loopback."""
    if url is None:
        yield None
        return
    path, secret = home / FILE, new_local_secret()
    facts = {"url": url, "secret": secret, "settings": digest(settings, secret), "handlers": settings.handlers}
    fresh = path.with_name(f"{FILE}.new")
    fresh.unlink(missing_ok=True)
    file = os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE_FILE)
    try:
        # Locked before anybody can see it.
        fcntl.flock(file, fcntl.LOCK_EX)
        os.write(file, json.dumps(facts).encode())
        fresh.rename(path)
        yield path
    finally:
        path.unlink(missing_ok=True)
        os.close(file)


def read_secret(path: Path) -> str:
    """For the API process itself, whose parent holds the lock."""
    return str(json.loads(path.read_bytes())["secret"])


def find_door(settings: Settings) -> Door | None:
    """Of an `up` that runs now, on the same data folder, with settings that mean the same."""
    path = (settings.home or default_folder()) / FILE
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        status = os.fstat(file)
        is_ours = status.st_uid == os.geteuid() and not stat.S_IMODE(status.st_mode) & 0o077
        if not stat.S_ISREG(status.st_mode) or not is_ours or not is_locked(file):
            return None
        facts = json.loads(os.read(file, MOST_BYTES))
        url, secret = str(facts["url"]), str(facts["secret"])
        fits = hmac.compare_digest(str(facts["settings"]), digest(settings, secret))
        knows_handlers = settings.handlers in ("", facts["handlers"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    finally:
        os.close(file)
    return Door(url, secret) if fits and knows_handlers else None


def is_locked(file: int) -> bool:
    """By somebody else. Taking it for a moment hurts nobody: `up` locks a new file before it shows it."""
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


def digest(settings: Settings, secret: str) -> str:
    """Of all that the API decides by; with the secret, for there are passwords in it."""
    values = [rmhdag.__version__, settings.server_url, *(getattr(settings, name) for name in DECISIVE)]
    return hmac.new(secret.encode(), repr(values).encode(), hashlib.sha256).hexdigest()
