"""Processes that are looked after are started again, also if that fails at first."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from rmhdag.cli.supervisor import Supervisor


def test_a_process_that_cannot_be_started_for_a_moment_is_started_later(tmp_path: Path) -> None:
    """The error ended whoever looked after the processes, and with it all of them."""
    logs = tmp_path / "logs"
    told: list[str] = []
    watcher = Supervisor(logs, os.environ, told.append)
    try:
        brief = watcher.start("brief", [sys.executable, "-c", ""])
        shutil.rmtree(logs)
        while len(told) < 2:
            watcher.turn(1.0)
        assert told[0].startswith("the brief ended")
        assert told[1].startswith("the brief could not be started: ")
        logs.mkdir()
        while brief.process_id is None:
            watcher.turn(1.0)
        assert len(told) == 2
    finally:
        watcher.close()
