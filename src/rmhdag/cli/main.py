"""The entry of the command `rmhdag`: from arguments to an exit code, without a traceback for users."""

from __future__ import annotations

import gc
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import NoReturn, cast

from rmhdag.cli.failure import CommandFailed
from rmhdag.cli.interrupts import raise_if_interrupted, remember_interrupts
from rmhdag.cli.output import forget_warnings, mask_url, paint, say
from rmhdag.machine.private_files import keep_files_private
from rmhdag.machine.python import leave_current_folder_out
from rmhdag.models.refusals import Refusal

# Flags that work before and after the command's name.
GLOBAL_FLAGS = ("--debug", "--no-color")
COMPLETION = "_RMHDAG_COMPLETE"


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    # A start-up allocates much and frees little: collecting rarely saves 3 % of it.
    gc.set_threshold(200_000, 20, 20)
    keep_files_private()
    leave_current_folder_out()
    skip_unused_parts()
    remember_interrupts()
    words = hoist_global_flags(sys.argv[1:] if arguments is None else arguments)
    try:
        sys.exit(run(words))
    except KeyboardInterrupt:
        sys.exit(130)
    finally:
        # Else Python looks for cycles among all objects once more before it ends: a fifth of a short command.
        gc.freeze()


def skip_unused_parts() -> None:
    """Do without parts of libraries that no command uses, each by the library's own means.

    Pydantic would search all installed packages for plugins. HTTPX would import its own command line, and with it Rich
    and Pygments, which take 50 ms; it does without where that cannot be imported.
    """
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    sys.modules.setdefault("httpx._main", cast(ModuleType, None))


def parse_and_run(arguments: list[str]) -> int:
    from typer.main import get_command

    from rmhdag.cli.app import build_app, command_of

    # A shell that completes a line tells the line by a variable; which one depends on the shell.
    line = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS") if COMPLETION in os.environ else None
    name = command_of(arguments if line is None else line.split()[1:])
    has_all = line is not None or name is None
    command = get_command(build_app(() if name is None else (name,), lists_others=has_all, completion=has_all))
    try:
        command.main(args=arguments, prog_name="rmhdag")
    except SystemExit as ending:
        return ending.code if isinstance(ending.code, int) else 1
    return 0


def run(arguments: list[str], act: Callable[[list[str]], int] = parse_and_run) -> int:
    """Run one command and return its exit code, whatever happens."""
    forget_warnings()
    try:
        return act(arguments)
    except CommandFailed as failure:
        say(f"{paint('error:', '31', sys.stderr)} {failure.message}")
        if failure.remedy:
            say(f"  {failure.remedy}")
        return failure.code
    except Refusal as refusal:
        say(f"{paint('error:', '31', sys.stderr)} {refusal}")
        if refusal.remedy:
            say(f"  {refusal.remedy}")
        return refusal.exit_code
    except Exception as error:
        raise_if_interrupted()
        if "--debug" in arguments:
            say(mask_url(traceback.format_exc().rstrip()))
        else:
            say(f"{paint('error:', '31', sys.stderr)} {mask_url(describe_unexpected(error))}")
            say("  This is a defect of rmhdag. Run the command again with --debug and report what it prints.")
        return 1


def describe_unexpected(error: Exception) -> str:
    text = " ".join(str(error).split())[:300]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def hoist_global_flags(arguments: Sequence[str]) -> list[str]:
    """`rmhdag doctor --no-color` means `rmhdag --no-color doctor`."""
    end = list(arguments).index("--") if "--" in arguments else len(arguments)
    flags = [flag for flag in GLOBAL_FLAGS if flag in arguments[:end]]
    return flags + [word for place, word in enumerate(arguments) if place >= end or word not in GLOBAL_FLAGS]
