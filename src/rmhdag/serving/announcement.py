"""A running `rmhdag serve` says in the data folder where it is, so that addresses given to partners lead there."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rmhdag.machine.private_files import make_home, write_private

FILE = "services.json"


@contextmanager
def announced(home: Path, url: str) -> Iterator[None]:
    make_home(home)
    write_private(home / FILE, json.dumps({"url": url, "process_id": os.getpid()}))
    try:
        yield
    finally:
        (home / FILE).unlink(missing_ok=True)


def running_url(home: Path) -> str | None:
    """None if none runs on this data folder; one that was killed is recognised."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        facts = json.loads((home / FILE).read_text(encoding="utf-8"))
        os.kill(int(facts["process_id"]), 0)
        return str(facts["url"])
    return None
