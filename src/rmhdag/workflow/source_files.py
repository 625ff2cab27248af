"""Workflow files on disk: which files of a folder they are, and how much of one is read."""

from __future__ import annotations

from pathlib import Path

from rmhdag.workflow.yaml_reader import MAX_FILE_BYTES

SUFFIXES = (".yaml", ".yml")


def read_limited(path: Path) -> bytes:
    """At most one byte more than a workflow may have: enough to see that it is too large."""
    with path.open("rb") as stream:
        return stream.read(MAX_FILE_BYTES + 1)


def workflow_files(folder: Path) -> list[Path]:
    """The YAML files of a folder, by name; hidden ones and folders inside it are left alone."""
    return sorted(
        path
        for path in folder.iterdir()
        if path.suffix in SUFFIXES and not path.name.startswith(".") and path.is_file()
    )
