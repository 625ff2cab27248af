"""In whose name a command acts: the name that `--as` gives, or the user's."""

from __future__ import annotations

import getpass
import os

from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.failure import CommandFailed
from rmhdag.models.local_callers import NAME_CHARACTERS
from rmhdag.models.plain_text import DECEIVING_IN_LINE


def who(name: str | None) -> str:
    if name is not None:
        if not 0 < len(name) <= NAME_CHARACTERS or DECEIVING_IN_LINE.search(name):
            raise CommandFailed("a name has 1 to 64 characters, all of them visible", code=ExitCode.USAGE)
        return name
    try:
        return getpass.getuser()[:NAME_CHARACTERS]
    except (KeyError, OSError):
        return f"user {os.getuid()}"
