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
        help="Wait until it has exited; exit code 8 if it takes longer.",
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
    process_id = find(kind, text, ids())
    if not ask(process_id):
        raise not_there(kind, text)
    has_ended = False if wait_seconds is None else wait_for_end(process_id, ids, wait_seconds)
    if as_json:
        emit_json({"process": process_id, "draining": True, "has_ended": has_ended})
    elif has_ended:
        say(f"{kind} {process_id} was drained and has exited")
    else:
        say(f"{kind} {process_id} accepts no more work and exits when it has finished or returned its work")
        say(f"`rmhdag {kind}s` shows it until then")
    if wait_seconds is not None and not has_ended:
        raise CommandFailed(
            f"{kind} {process_id} has not ended within {wait_seconds:g} s",
            remedy="It continues to drain; RMHDAG_WORKER_STOP_SECONDS sets how long its tasks may take.",
            code=ExitCode.WAIT_TIMEOUT,
        )


def find(kind: str, text: str, ids: Sequence[str]) -> str:
    start = text.strip().lower()
    fitting = [name for name in ids if name == start] or [name for name in ids if name.startswith(start)]
    if len(start) < SHORTEST_START or not fitting:
        raise not_there(kind, text)
    if len(fitting) > 1:
        raise CommandFailed(
            f"several {kind}s begin with {start}: {', '.join(fitting)}",
            remedy="Use more characters of the id.",
            code=ExitCode.CONFLICT,
        )
    return fitting[0]


def not_there(kind: str, text: str) -> CommandFailed:
    return CommandFailed(
        f"there is no {kind} {text!r}",
        remedy=f"`rmhdag {kind}s` lists them; the first {SHORTEST_START} characters of an id are enough if they are "
        f"unique.",
        code=ExitCode.NOT_FOUND,
    )


def wait_for_end(process: str, ids: Callable[[], Sequence[str]], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while process in ids():
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            return False
        time.sleep(min(LOOK_SECONDS, remaining))
    return True
