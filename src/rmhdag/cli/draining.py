"""Draining a process from afar: it finishes or gives back what it has, and ends."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Annotated

import typer

from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.failure import CommandFailed
from rmhdag.cli.output import emit_json, say

LOOK_SECONDS = 0.5
SHORTEST_START = 4
WaitOption = Annotated[
    float | None,
    typer.Option(
        "--wait",
        metavar="SECONDS",
        min=0,
        max=86_400,
        help="Wait until it has ended; exit code 8 if it has not by then.",
    ),
]


def drain(
    kind: str,
    text: str,
    ids: Callable[[], Sequence[str]],
    ask: Callable[[str], bool],
    wait_seconds: float | None,
    *,
    as_json: bool,
) -> None:
    """`kind` is what it is called, `ids` are those that are there, `ask` is False if it has gone meanwhile."""
    found = find(kind, text, ids())
    if not ask(found):
        raise not_there(kind, text)
    has_ended = False if wait_seconds is None else wait_for_end(found, ids, wait_seconds)
    if as_json:
        emit_json({"process": found, "draining": True, "has_ended": has_ended})
    elif has_ended:
        say(f"{kind} {found} was drained and has ended")
    else:
        say(f"{kind} {found} takes no more work and ends when it has finished or given back what it has")
        say(f"`rmhdag {kind}s` shows it until then")
    if wait_seconds is not None and not has_ended:
        raise CommandFailed(
            f"{kind} {found} has not ended within {wait_seconds:g} s",
            remedy="It goes on draining; the time that its tasks have is RMHDAG_WORKER_STOP_SECONDS.",
            code=ExitCode.WAIT_TIMEOUT,
        )


def find(kind: str, text: str, ids: Sequence[str]) -> str:
    start = text.strip().lower()
    fitting = [one for one in ids if one == start] or [one for one in ids if one.startswith(start)]
    if len(start) < SHORTEST_START or not fitting:
        raise not_there(kind, text)
    if len(fitting) > 1:
        raise CommandFailed(
            f"several {kind}s begin with {start}: {', '.join(fitting)}",
            remedy="Give more of the id.",
            code=ExitCode.CONFLICT,
        )
    return fitting[0]


def not_there(kind: str, text: str) -> CommandFailed:
    return CommandFailed(
        f"there is no {kind} {text!r}",
        remedy=f"`rmhdag {kind}s` lists them; the first {SHORTEST_START} characters of an id are enough if no other "
        "begins so.",
        code=ExitCode.NOT_FOUND,
    )


def wait_for_end(process: str, ids: Callable[[], Sequence[str]], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while process in ids():
        left = deadline - time.monotonic()
        if left <= 0:
            return False
        time.sleep(min(LOOK_SECONDS, left))
    return True
