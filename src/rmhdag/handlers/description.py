"""Finds the handlers that modules declare by importing them in a separate process.

A check of a workflow needs names and schemas, but not the side effects of such an import: it may take seconds, start
threads, print or exit. Run as `python -m rmhdag.handlers.description DESCRIPTOR MODULE…`, like children of workers, so
that modules are searched in the same places.
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
from rmhdag.machine.process_ends import describe_end
from rmhdag.machine.python import python_command

LONGEST_SECONDS = 120.0
TAIL_CHARACTERS = 500


def describe_modules(modules: Sequence[str]) -> list[dict[str, Any]]:
    """The handlers as workers would register them. Raises RegistrationError, which says what is wrong and where."""
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
            f"handlers of {named} cannot be loaded: the process that imported them {describe_end(done.returncode)}"
            f"{f': {tail}' if tail else ''}",
            "Let the module be imported without ending the process.",
        )
    reply = orjson.loads(text)
    if "error" in reply:
        raise RegistrationError(*reply["error"])
    handlers: list[dict[str, Any]] = reply["handlers"]
    return handlers


def main(descriptor: int, modules: Sequence[str]) -> None:
    from rmhdag.handlers.manifest import shipped_manifest
    from rmhdag.handlers.registry import load_handlers

    try:
        ours = {entry["handler"] for entry in shipped_manifest()}
        description: dict[str, Any] = {
            "handlers": [manifest for manifest in load_handlers(modules).manifests() if manifest["handler"] not in ours]
        }
    except RegistrationError as error:
        description = {"error": [error.message, error.remedy]}
    with os.fdopen(descriptor, "wb") as answer:
        answer.write(orjson.dumps(description))
    # Threads that a module has started would keep the process alive.
    os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
