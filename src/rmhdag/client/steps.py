"""What the client does, as steps: scripts are generators that yield requests and pauses and are sent the answers.

So each operation, each retry and each reconnection is written once. Who runs a script decides whether a step blocks or
is awaited (`sides`).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Generic, TypeVar

import httpx
from pydantic import BaseModel, ValidationError

from rmhdag.client.call import Call
from rmhdag.client.errors import RmhdagError, ServerError, Unavailable, error_of
from rmhdag.models.api.problems import ProblemBody

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)
P = TypeVar("P", bound=BaseModel)

MOST_TRIES = 6
FIRST_PAUSE_SECONDS = 0.2
MOST_PAUSE_SECONDS = 5.0
# A caller that should retry later than this gets the refusal instead of a wait.
MOST_RETRY_AFTER_SECONDS = 30.0
AGAIN = frozenset({429, 502, 503, 504})
# The server has not seen any of it.
NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    content: bytes


@dataclass(frozen=True, slots=True)
class Send:
    """Answered with an Answer; transport errors are thrown into the script."""

    call: Call[Any]


@dataclass(frozen=True, slots=True)
class Pause:
    """`after` is what the caller would be told if nobody tried again."""

    seconds: float
    after: RmhdagError | None = None


@dataclass(frozen=True, slots=True)
class Open:
    """A stream. Answered with an Answer, whose content is empty unless it is a refusal."""

    call: Call[Any]
    last_event_id: str | None


@dataclass(frozen=True, slots=True)
class NextLine:
    """Of the open stream; answered with the line, or None at its end."""


@dataclass(frozen=True, slots=True)
class Item(Generic[T]):
    """For callers that iterate."""

    value: T


Step = Send | Pause | Open | NextLine
Steps = Generator[Step, Any, T]
Items = Generator[Step | Item[T], Any, None]


def ask(call: Call[M]) -> Steps[M]:
    """Send it until it is answered, as often as that is safe."""
    tries = 0
    while True:
        tries += 1
        try:
            answer: Answer = yield Send(call)
        except httpx.TransportError as error:
            refusal: RmhdagError = unreachable(error)
            if tries == MOST_TRIES or not (call.repeatable or isinstance(error, NEVER_SENT)):
                raise refusal from error
            pause = pause_after(tries)
        else:
            if answer.status < 400 or answer.status in call.accepts:
                return read(call, answer)
            pause = pause_asked_for(answer, tries)
            refusal = refusal_of(answer)
            # 429 comes before anything was done.
            if tries == MOST_TRIES or not (call.repeatable or answer.status == 429):
                raise refusal
        yield Pause(pause, refusal)


def read(call: Call[M], answer: Answer) -> M:
    try:
        return call.model.model_validate_json(answer.content)
    except ValidationError as error:
        if answer.status >= 400:
            raise refusal_of(answer) from None
        raise ServerError(
            "unreadable_answer",
            f"{call.method} {call.path} was answered with something that is not a {call.model.__name__}",
            remedy="Check that the URL is that of an rmhdag server, of about this version.",
            status=answer.status,
        ) from error


def pages(page: Callable[[str | None], Call[P]], items_of: Callable[[P], list[T]]) -> Items[T]:
    """All items of a list, page after page."""
    cursor: str | None = None
    while True:
        answer = yield from ask(page(cursor))
        for item in items_of(answer):
            yield Item(item)
        cursor = getattr(answer, "next_cursor", None)
        if cursor is None:
            return


def pause_after(tries: int) -> float:
    """Longer each time, and not the same for all who lost the same server."""
    return min(FIRST_PAUSE_SECONDS * 2.0 ** (tries - 1), MOST_PAUSE_SECONDS) * random.uniform(0.5, 1)


def pause_asked_for(answer: Answer, tries: int) -> float:
    """Raises what the answer says, if it is not worth another try."""
    if answer.status not in AGAIN:
        raise refusal_of(answer)
    try:
        seconds = float(answer.headers.get("retry-after", ""))
    except ValueError:
        return pause_after(tries)
    if not 0 <= seconds <= MOST_RETRY_AFTER_SECONDS:
        raise refusal_of(answer)
    return seconds + random.uniform(0, 0.2)


def refusal_of(answer: Answer) -> RmhdagError:
    try:
        return error_of(ProblemBody.model_validate_json(answer.content))
    except ValidationError:
        # Not one of ours: a proxy, or another server.
        has_phrase = answer.status in HTTPStatus.__members__.values()
        phrase = HTTPStatus(answer.status).phrase if has_phrase else "?"
        return error_of(
            ProblemBody(
                type="about:blank",
                title=phrase,
                status=answer.status,
                code=phrase.lower().replace(" ", "_"),
                detail=f"the answer was {answer.status} {phrase}",
                remedy="Check that the URL is that of an rmhdag server.",
            )
        )


def unreachable(error: Exception) -> Unavailable:
    what = " ".join(str(error).split()) or type(error).__name__
    return Unavailable(
        "unreachable", f"the server does not answer: {what}", remedy="Check that it runs and that the URL names it."
    )
