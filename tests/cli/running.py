"""`rmhdag up` as people start it, with short leases so that deaths are noticed soon."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.cli.conftest import plain_environment
from tests.store.waiting import wait_until

SHORT_LEASES = {
    "HEARTBEAT_INTERVAL_SEC": "0.4",
    "ORPHAN_THRESHOLD_SEC": "2",
    "ORPHAN_SCAN_INTERVAL_SEC": "0.3",
    "POLL_INTERVAL_SEC": "0.5",
    # Whoever needs the libraries for rasters waits for them.
    "RMHDAG_WARM": "0",
}
SLOW = {
    "workflow_id": "slow",
    "name": "Sleeps",
    "inputs": {"seconds": {"type": "number", "default": 60}},
    "nodes": {
        "first": {"handler": "echo", "queue": "light-tasks", "next": "nap"},
        "nap": {
            "handler": "sleep",
            "queue": "light-tasks",
            "params": {"seconds": "{{ inputs.seconds }}"},
            "next": "last",
        },
        "last": {"handler": "echo", "queue": "light-tasks", "params": {"done": True}},
    },
}


class Up:
    """A running `rmhdag up`; its first line on stdout says that all is ready."""

    def __init__(self, home: Path, *arguments: str, **environment: str) -> None:
        self.home = home
        self.environment = SHORT_LEASES | environment
        self.messages = (home / "up.messages").open("w+b")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "rmhdag.cli", "up", "--json", *arguments],
            stdout=subprocess.PIPE,
            stderr=self.messages,
            cwd=home,
            env=plain_environment(home) | self.environment,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"not up: {self.told()}"
        self.facts: dict[str, Any] = json.loads(line)

    def told(self) -> str:
        self.messages.flush()
        return (self.home / "up.messages").read_text(encoding="utf-8")

    def wait_until_told(self, text: str, timeout_seconds: float = 60) -> None:
        """Until it has said so on its terminal."""
        wait_until(lambda: (text in self.told()) or None, timeout_seconds)

    def end(self, number: int = signal.SIGTERM, timeout_seconds: float = 40) -> int:
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            return self.process.wait(timeout_seconds)
        finally:
            self.process.kill()
            self.process.wait()
            assert self.process.stdout is not None
            self.process.stdout.close()
            self.messages.close()


class Watched:
    """Processes that are somebody else's children: open descriptors tell when they are gone, whatever their number."""

    def __init__(self, process_ids: list[int]) -> None:
        self._descriptors = [os.pidfd_open(process_id) for process_id in process_ids]

    def are_gone(self, timeout_seconds: float = 20) -> bool:
        left = list(self._descriptors)
        while left:
            ready, _, _ = select.select(left, [], [], timeout_seconds)
            if not ready:
                return False
            left = [one for one in left if one not in ready]
        return True

    def close(self) -> None:
        for one in self._descriptors:
            os.close(one)
