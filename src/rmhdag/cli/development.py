"""What `rmhdag up` writes down for a machine that has no configuration: visible, editable, never a silent default."""

from __future__ import annotations

import os
from pathlib import Path

from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.failure import CommandFailed
from rmhdag.cli.settings import Settings, load_settings, variables_of
from rmhdag.cli.settings_files import CONFIG_VARIABLE, development_file, read_file
from rmhdag.cli.shipped_workflows import HEAVY, LIGHT
from rmhdag.machine.private_files import make_home, write_private

JOBS = "jobs"
QUEUES = {"job_queue_name": JOBS, "dag_worker_queue": LIGHT, "worker_queue": HEAVY}

STORAGE_FOLDER = "storage"

HEAD = """\
# Written by `rmhdag up`, for development. Every command that uses this data folder reads it, unless RMHDAG_CONFIG names
# another file; the environment and your own settings file win over it. You may edit it; it is not written again while
# it names all queues and a place for files.
"""


def ensure_configuration(flags: dict[str, str | None], home: Path) -> tuple[Settings, Path | None]:
    """Settings that name all queues and a place for files, and the file that was written for it, if any."""
    settings = load_settings(flags).settings
    missing = find_missing(settings, home)
    if not missing:
        return settings, None
    path = development_file(home)
    values = missing | (read_file(path, Settings.model_fields).values if path.is_file() else {})
    lines = [
        f"{name} = {'true' if value is True else 'false' if value is False else quote(value)}"
        for name, value in values.items()
    ]
    make_home(home)
    write_private(path, HEAD + "\n".join(lines) + "\n")
    settings = load_settings(flags).settings
    still = [variables_of(field)[-1] for field in QUEUES if getattr(settings, field) is None]
    if still:
        raise CommandFailed(
            f"no queue is configured by {', '.join(still)}, and RMHDAG_CONFIG keeps {path} from being read",
            remedy="Name the queues in your settings file, or unset RMHDAG_CONFIG.",
            code=ExitCode.INVALID,
        )
    return settings, path


def find_missing(settings: Settings, home: Path) -> dict[str, object]:
    """What development needs and nobody has named."""
    values: dict[str, object] = {}
    if any(getattr(settings, field) is None for field in QUEUES):
        values |= {"development": True, **QUEUES}
    # A named file is used alone, and needs no place for files.
    if not settings.storage_settings().is_given and not os.environ.get(CONFIG_VARIABLE):
        values["storage"] = str((home / STORAGE_FOLDER).resolve())
    return values


def quote(value: object) -> str:
    if isinstance(value, int | float):
        return str(value)
    return '"' + str(value).replace("\\", "\\\\").replace('"', '\\"') + '"'
