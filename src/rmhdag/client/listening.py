"""Live events: one stream after another, each going on where the one before was cut off."""

from __future__ import annotations

import time

import httpx

from rmhdag.client.call import Call
from rmhdag.client.steps import (
    Answer,
    Item,
    Items,
    NextLine,
    Open,
    Pause,
    pause_after,
    pause_asked_for,
    refusal_of,
    unreachable,
)
from rmhdag.models.api.timeline import StreamedEvent

# A server that restarts is back by then.
LOST_SECONDS = 60.0
END = "end"


class EventLines:
    """The lines of a stream as events (https://html.spec.whatwg.org/multipage/server-sent-events.html)."""

    def __init__(self, last_id: str | None) -> None:
        self.last_id = last_id
        self._id = last_id
        self._event = ""
        self._data: list[str] = []

    def feed(self, line: str) -> tuple[str, str] | None:
        """(event, data) once one is complete."""
        if line:
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if name == "id":
                self._id = value
            elif name == "event":
                self._event = value
            elif name == "data":
                self._data.append(value)
            return None
        self.last_id = self._id
        event = (self._event or "message", "\n".join(self._data)) if self._data else None
        self._event, self._data = "", []
        return event


def listen(call: Call[StreamedEvent], last_id: str | None = None) -> Items[StreamedEvent]:
    """Until the stream says that there is no more; a server that goes away and comes back is not noticed."""
    failures, heard_at = 0, time.monotonic()
    while True:
        lines = EventLines(last_id)
        try:
            answer: Answer = yield Open(call, last_id)
            if answer.status >= 400:
                failures += 1
                pause = pause_asked_for(answer, failures)
                if time.monotonic() - heard_at > LOST_SECONDS:
                    raise refusal_of(answer)
            else:
                failures, pause = 0, 0.0
            line: str | None = ""
            while answer.status < 400 and line is not None:
                line = yield NextLine()
                heard_at = time.monotonic()
                event = None if line is None else lines.feed(line)
                if event is not None:
                    kind, data = event
                    if kind == END:
                        return
                    yield Item(StreamedEvent.model_validate_json(data))
                    heard_at = time.monotonic()
                last_id = lines.last_id
        except httpx.TransportError as error:
            if time.monotonic() - heard_at > LOST_SECONDS:
                raise unreachable(error) from error
            failures += 1
            pause = pause_after(failures)
        yield Pause(pause)
