"""What modules of handlers declare, found out by importing them in a process of its own.

Whoever checks a workflow wants names and schemas, and none of what such an import may do: take seconds, start threads,
print, exit. Run as `python -m rmhdag.handlers.description DESCRIPTOR MODULE…`, as children of workers are, so that
modules are searched in the same places.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

import orjson

from rmhdag.handlers.registry import RegistrationError
from rmhdag.machine.python import python_command

LONGEST_SECONDS = 120.0
TAIL_CHARACTERS = 500


def describe_modules(modules: Sequence[str]) -> list[dict[str, Any]]:
    """Their handlers as workers would register them. Raises RegistrationError, with what is wrong and where."""
    named = ", ".join(map(repr, modules))
    with tempfile.TemporaryFile() as answer:
        command = python_command("rmhdag.handlers.description", str(answer.fileno()), *modules)
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                pass_fds=[answer.fileno()],
                timeout=LONGEST_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise RegistrationError(
                f"handlers of {named} were not loaded within {LONGEST_SECONDS:g} s",
                "Let the module be imported without waiting for anything.",
            ) from None
        answer.seek(0)
        text = answer.read()
    if not text:
        tail = done.stderr.decode("utf-8", "replace").strip()[-TAIL_CHARACTERS:]
        raise RegistrationError(
            f"handlers of {named} cannot be loaded: the process that imported them ended with exit code "
            f"{done.returncode}{f': {tail}' if tail else ''}",
            "Let the module be imported without ending the process.",
        )
    told = orjson.loads(text)
    if "error" in told:
        raise RegistrationError(*told["error"])
    handlers: list[dict[str, Any]] = told["handlers"]
    return handlers


def main(descriptor: int, modules: Sequence[str]) -> None:
    from rmhdag.handlers.manifest import shipped_manifest
    from rmhdag.handlers.registry import load_handlers

    try:
        ours = {entry["handler"] for entry in shipped_manifest()}
        told: dict[str, Any] = {
            "handlers": [one for one in load_handlers(modules).manifests() if one["handler"] not in ours]
        }
    except RegistrationError as error:
        told = {"error": [error.message, error.remedy]}
    with os.fdopen(descriptor, "wb") as answer:
        answer.write(orjson.dumps(told))
    # Threads that a module has started would keep the process.
    os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
