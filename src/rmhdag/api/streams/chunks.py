"""Consecutive events between two places, written once for all who listen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, TypeVar

import orjson

from rmhdag.models.api.timeline import event_fields
from rmhdag.models.events import EventType
from rmhdag.store.streams import JobPage, Page, Place, StreamRow

# In the stream of all jobs a place is a Place; in a job's stream it is the number of an event.
P = TypeVar("P", Place, int)

# The last event of a job, but for notes of its reruns, and the status that it brings.
ENDINGS: dict[str, str] = {
    EventType.JOB_COMPLETED: "completed",
    EventType.JOB_FAILED: "failed",
    EventType.JOB_CANCELLED: "cancelled",
}


@dataclass(frozen=True, slots=True)
class Message(Generic[P]):
    place: P
    body: bytes

    def as_sse(self) -> bytes:
        return b"id: %s\ndata: %s\n\n" % (str(self.place).encode(), self.body)

    def as_json(self) -> str:
        return f'{{"event":"message","id":"{self.place}","data":{self.body.decode()}}}'


@dataclass(frozen=True)
class Chunk(Generic[P]):
    """Everything that a listener wants between two places: a listener at `after` or beyond misses nothing."""

    after: P
    until: P
    messages: tuple[Message[P], ...]
    # The status with which the job ended, if this is the end of its stream.
    end: str | None = None

    @cached_property
    def sse(self) -> bytes:
        return b"".join(message.as_sse() for message in self.messages)

    @cached_property
    def size_bytes(self) -> int:
        return sum(len(message.body) for message in self.messages)

    def beyond(self, place: P) -> Chunk[P]:
        """Without what somebody at this place has seen."""
        if not self.messages or self.messages[0].place > place:
            return self
        rest = tuple(message for message in self.messages if message.place > place)
        return Chunk(max(place, self.after), self.until, rest, self.end)


def event_body(row: StreamRow) -> bytes:
    """An event as a timeline shows it, with its job."""
    return orjson.dumps({"job_id": row.job_id, **event_fields(row._asdict())}, option=orjson.OPT_UTC_Z)


def chunk_of_all(after: Place, page: Page) -> Chunk[Place]:
    return Chunk(after, page.until, tuple(Message(row.place, event_body(row)) for row in page.rows))


def chunk_of_job(after: int, page: JobPage) -> Chunk[int]:
    messages = tuple(Message(row.seq, event_body(row)) for row in page.rows)
    # It may have ended after its status was read.
    end = page.status if page.ended else _status_after(page.rows)
    return Chunk(after, messages[-1].place if messages else after, messages, end if page.is_last else None)


def chunks_of_rows(rows: Sequence[tuple[StreamRow, bytes]]) -> Iterator[Chunk[int]]:
    """Of one job. Its numbers have no gaps, so the first one says what a chunk follows; behind a gap another begins."""
    ordered = sorted(rows, key=lambda pair: pair[0].seq)
    first = 0
    for index in range(1, len(ordered) + 1):
        if index == len(ordered) or ordered[index][0].seq != ordered[index - 1][0].seq + 1:
            run = ordered[first:index]
            messages = tuple(Message(row.seq, body) for row, body in run)
            end = _status_after([row for row, _ in run])
            yield Chunk(messages[0].place - 1, messages[-1].place, messages, end)
            first = index


def _status_after(rows: Sequence[StreamRow]) -> str | None:
    return next((ENDINGS[row.event_type] for row in rows if row.event_type in ENDINGS), None)
