"""The entry of the command `rmhdag`: from arguments to an exit code, without a traceback for users."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import NoReturn

from rmhdag.cli.interrupts import raise_if_interrupted, remember_interrupts
from rmhdag.machine.private_files import keep_files_private
from rmhdag.machine.python import leave_current_folder_out

# Flags that work before and after the command's name.
GLOBAL_FLAGS = ("--debug", "--no-color")


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    # A start-up allocates much and frees little: collecting rarely saves 3 % of it.
    gc.set_threshold(200_000, 20, 20)
    keep_files_private()
    leave_current_folder_out()
    skip_plugin_search()
    remember_interrupts()
    given = hoist_global_flags(sys.argv[1:] if arguments is None else arguments)
    try:
        sys.exit(run(given))
    except KeyboardInterrupt:
        sys.exit(130)


def skip_plugin_search() -> None:
    """Pydantic searches all installed packages for plugins. We have none, and the search costs 5 % of a start.

    Its own switch comes too late: the imports are the cost. Should Pydantic rename the module, it searches again.
    """
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    name = "pydantic.plugin._loader"
    if "pydantic" not in sys.modules:
        loader = ModuleType(name)
        loader.__dict__["get_plugins"] = tuple
        sys.modules[name] = loader


def dispatch(arguments: list[str]) -> int:
    from rmhdag.cli.plain import run_plain

    code = run_plain(arguments)
    return parse_and_run(arguments) if code is None else code


def parse_and_run(arguments: list[str]) -> int:
    from typer.main import get_command

    from rmhdag.cli.app import build_app, command_of

    only = command_of(arguments)
    command = get_command(build_app(only=only, completion=only is None))
    try:
        command.main(args=arguments, prog_name="rmhdag")
    except SystemExit as ending:
        return ending.code if isinstance(ending.code, int) else 1
    return 0


def run(arguments: list[str], act: Callable[[list[str]], int] = dispatch) -> int:
    """Run one command and return its exit code, whatever happens."""
    from rmhdag.cli.failure import CommandFailed
    from rmhdag.cli.output import forget_warnings, mask_url, paint, say

    forget_warnings()
    try:
        return act(arguments)
    except CommandFailed as failure:
        say(f"{paint('error:', '31', sys.stderr)} {failure.message}")
        if failure.remedy:
            say(f"  {failure.remedy}")
        return failure.code
    except Exception as error:
        raise_if_interrupted()
        if "--debug" in arguments:
            import traceback

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
