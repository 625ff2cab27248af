"""Workflow files on disk: which files of a folder are workflows, and how much of a file is read."""

from __future__ import annotations

from pathlib import Path

from rmhdag.workflow.yaml_reader import MAX_FILE_BYTES

SUFFIXES = (".yaml", ".yml")


def read_limited(path: Path) -> bytes:
    """Reads at most one byte more than the limit: enough to detect a file that is too large."""
    with path.open("rb") as stream:
        return stream.read(MAX_FILE_BYTES + 1)


def workflow_files(folder: Path) -> list[Path]:
    """The YAML files of a folder, by name; hidden files and subfolders are ignored."""
    return sorted(
        path
        for path in folder.iterdir()
        if path.suffix in SUFFIXES and not path.name.startswith(".") and path.is_file()
    )
