"""The workflows that come with rmhdag, written for the queues that an installation has."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import rmhdag
from rmhdag.workflow import workflow_files

# The names of queues in the files.
LIGHT, HEAVY = "light-tasks", "heavy-tasks"
_QUEUE = re.compile(rf"^(\s*queue: )({LIGHT}|{HEAVY})$", re.MULTILINE)


def shipped_folder() -> Path:
    return Path(rmhdag.__file__).parent / "workflows"


def shipped_workflows(queues: Mapping[str, str]) -> dict[str, bytes]:
    """Their texts by the names of their files."""
    files = workflow_files(shipped_folder())
    return {str(file): in_queues(file.read_text(encoding="utf-8"), queues).encode() for file in files}


def in_queues(text: str, queues: Mapping[str, str]) -> str:
    """The same workflow with other queues; `queues` are by their names in the files."""
    return _QUEUE.sub(lambda match: f'{match[1]}"{queues.get(match[2], match[2])}"', text)
