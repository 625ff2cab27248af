"""Following logs: what of the pages is new. Chunks are stamped before they are committed, so that some come late."""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import NamedTuple

from rmhdag.models.api.nodes import LogChunk

# One that comes later than this after its stamp is not followed.
LATE = timedelta(seconds=30)


class LogLine(NamedTuple):
    """One line of what a task wrote."""

    node_id: str
    task_id: str
    lease_epoch: int
    line: str

    def __str__(self) -> str:
        return f"{self.node_id} | {self.line}"


class UnseenChunks:
    """Remembers what was shown; `since` is from when on to read again."""

    def __init__(self) -> None:
        self.since: datetime | None = None
        self._seen: set[tuple[str, int, int]] = set()

    def of(self, chunks: Iterable[LogChunk]) -> Iterator[LogChunk]:
        for chunk in chunks:
            place = (chunk.task_id, chunk.lease_epoch, chunk.chunk_index)
            if place not in self._seen:
                self._seen.add(place)
                since = chunk.created_at - LATE
                self.since = since if self.since is None else max(self.since, since)
                yield chunk


def lines_of(chunk: LogChunk) -> list[LogLine]:
    return [LogLine(chunk.node_id, chunk.task_id, chunk.lease_epoch, line) for line in chunk.content.splitlines()]
