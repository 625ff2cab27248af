"""Fakes for handlers in a workflow test: an output, an exception or a function, with delays and losses."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from rmhdag.handlers import HandlerContext, HandlerResult


@dataclass(frozen=True, slots=True)
class Step:
    """One run of a task: its duration and its outcome. Created by the functions of this module."""

    function: Callable[..., Any] | None = None
    seconds: float = 0.0
    is_lost: bool = False
    lost_after_checkpoint: str | None = None
    is_claimed: bool = True


@dataclass(frozen=True, slots=True)
class Turns:
    steps: tuple[Step, ...]


Fake = Step | Turns | Callable[..., Any] | Mapping[str, Any] | HandlerResult | BaseException | None


def takes(seconds: float, then: Fake = None) -> Step:
    """Take this long on the virtual clock. If that exceeds the node's `timeout_seconds`, the task times out."""
    if not seconds >= 0:
        raise ValueError(f"takes({seconds!r}): give seconds that are not negative")
    return replace(step_of(then), seconds=float(seconds))


def hangs() -> Step:
    """Never end: the node's time limit ends it."""
    return Step(seconds=math.inf)


def in_turn(*fakes: Fake) -> Turns:
    """Each run of a node uses the next of these; the last one repeats. Each node and child has its own count."""
    if not fakes:
        raise ValueError("in_turn(): name at least one")
    return Turns(tuple(step_of(fake) for fake in fakes))


def lost_worker(handler: Callable[..., Any] | None = None, *, after_checkpoint: str | None = None) -> Step:
    """The worker dies: at once, or after this handler has saved that checkpoint."""
    if (handler is None) != (after_checkpoint is None):
        raise TypeError("lost_worker(): give a handler and `after_checkpoint`, or neither")
    return Step(handler, is_lost=handler is None, lost_after_checkpoint=after_checkpoint)


def not_started() -> Step:
    """No worker claims it, as if none served its queue."""
    return Step(is_claimed=False)


def steps_of(fake: Fake) -> Turns:
    return fake if isinstance(fake, Turns) else Turns((step_of(fake),))


def step_of(fake: Fake) -> Step:
    if isinstance(fake, Step):
        return fake
    if isinstance(fake, Turns):
        raise TypeError("in_turn() cannot be used inside takes() or another in_turn()")
    if isinstance(fake, BaseException) or (isinstance(fake, type) and issubclass(fake, BaseException)):
        return Step(_raising(fake))
    if callable(fake):
        return Step(fake)
    if fake is None or isinstance(fake, Mapping | HandlerResult):
        return Step(_returning(dict(fake) if isinstance(fake, Mapping) else fake))
    raise TypeError(
        f"{fake!r} cannot stand in for a handler: give an output (a dict), an exception, a function, "
        "or takes(…), in_turn(…), hangs(), lost_worker(), not_started()"
    )


def _returning(value: Any) -> Callable[..., Any]:
    def fake(ctx: HandlerContext[Any]) -> Any:
        return value

    return fake


def _raising(error: BaseException | type[BaseException]) -> Callable[..., Any]:
    def fake(ctx: HandlerContext[Any]) -> Any:
        raise error if isinstance(error, type) else error.with_traceback(None)

    return fake
