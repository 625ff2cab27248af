"""Lines of logs by their number, and which of them match.

Rows hold chunks with the number of their lines, so an index of a job's chunks is read without their text, and only the
chunks of the lines that are shown are read whole. A chunk never changes: what was read is remembered. Chunks are
stamped before they are committed, so the newest part of the index is read again.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

from rmhdag.models.api.log_lines import MOST_MATCHES, LogLevel, LogLines, LogMatches, LogPiece
from rmhdag.models.api.log_reading import LATE
from rmhdag.store.connection import Conn
from rmhdag.store.queries import load_queries
from rmhdag.views.logs import PAGE_BYTES, log_scope
from rmhdag.views.memory import Memory

SQL = load_queries(__file__)
BEGIN = datetime(1970, 1, 1, tzinfo=UTC)
# A chunk has 64 KB at most.
CHUNKS_PER_LOOK = 100
# Above it the rest is not searched: about two seconds of one processor.
MOST_SCANNED_BYTES = 256 * 1024 * 1024
MOST_KEPT = 500_000

_LEVEL = re.compile(r"\b(?:(DEBUG|TRACE)|(INFO|NOTICE)|(WARN(?:ING)?)|(ERROR|CRITICAL|FATAL))\b")
_ERROR_WITHOUT_LEVEL = re.compile(r"(?:Traceback \(most recent|[A-Za-z_][\w.]*(?:Error|Exception)\b)")
# A level stands near the beginning of its line; a word in a message is none.
_LEVEL_END = 60


class Chunk(NamedTuple):
    created_at: datetime
    task_id: str
    lease_epoch: int
    chunk_index: int
    node_id: str
    line_count: int


@dataclass(frozen=True)
class LogIndex:
    """`ends[i]` is the number of lines up to and with chunk i."""

    chunks: Sequence[Chunk]
    ends: Sequence[int]

    @property
    def total(self) -> int:
        return self.ends[-1] if self.ends else 0

    def begin_of(self, place: int) -> int:
        return self.ends[place - 1] if place else 0


@dataclass(frozen=True)
class Filter:
    """Lines of these levels (all, if none is named) that hold this text, in lower case."""

    levels: frozenset[str] = frozenset()
    text: str | None = None

    @property
    def takes_all(self) -> bool:
        return not self.levels and self.text is None

    def takes(self, level: str, line: str) -> bool:
        return (not self.levels or level in self.levels) and (self.text is None or self.text in line.lower())


class Matches(NamedTuple):
    """The numbers of the lines that a filter takes."""

    numbers: array[int]
    is_complete: bool


class Scope(NamedTuple):
    job_id: str
    node_id: str | None
    is_fan_out: bool


_indexes: Memory[Scope, LogIndex] = Memory(20)
_matches: Memory[tuple[Scope, Filter, int, int], Matches] = Memory(40)


def make_filter(levels: Collection[LogLevel], text: str | None = None) -> Filter:
    return Filter(frozenset(level[0] for level in levels), text.lower() if text else None)


def levels_of(lines: Sequence[str]) -> str:
    """A letter per line. A line without a level that is indented, or ends a traceback, has that of the line before."""
    letters = []
    before = "i"
    for line in lines:
        level = _LEVEL.search(line, 0, _LEVEL_END)
        if level is not None:
            before = "diwe"[(level.lastindex or 2) - 1]
        elif _ERROR_WITHOUT_LEVEL.match(line):
            before = "e"
        elif not line[:1].isspace():
            before = "i"
        letters.append(before)
    return "".join(letters)


def read_index(conn: Conn, scope: Scope) -> LogIndex:
    cached = _indexes.recall(scope)
    older: list[Chunk] = []
    if cached is not None and cached.chunks:
        newest = cached.chunks[-1].created_at - LATE
        older = list(cached.chunks[: bisect_right(cached.chunks, newest, key=lambda chunk: chunk.created_at)])
    tasks, fan_out = log_scope(conn, *scope)
    parameters = {
        "job_id": scope.job_id,
        "fan_out": fan_out,
        "tasks": tasks,
        "after": older[-1].created_at if older else BEGIN,
    }
    query = SQL["index_of_job" if tasks is None else "index_of_tasks"]
    chunks = [*older, *(Chunk(*row) for row in conn.execute(query, parameters))]
    ends = []
    total = 0
    for chunk in chunks:
        total += chunk.line_count
        ends.append(total)
    return _indexes.keep(scope, LogIndex(chunks, ends))


class Text(NamedTuple):
    """A chunk with its lines; `place` is its position in the index."""

    place: int
    truncated: bool
    lines: list[str]


def read_texts(conn: Conn, index: LogIndex, places: Sequence[int], text: str | None = None) -> Iterator[Text]:
    """Of these chunks, or of those among them that hold the text; in the order of the index."""
    chunks = [index.chunks[place] for place in places]
    parameters = {
        "tasks": [chunk.task_id for chunk in chunks],
        "epochs": [chunk.lease_epoch for chunk in chunks],
        "chunks": [chunk.chunk_index for chunk in chunks],
        "times": [chunk.created_at for chunk in chunks],
        "text": text,
    }
    for order, truncated, content in conn.execute(SQL["contents"], parameters):
        place = places[order - 1]
        yield Text(place, truncated, content.split("\n")[: index.chunks[place].line_count])


def find_matches(conn: Conn, scope: Scope, index: LogIndex, selection: Filter) -> Matches:
    key = (scope, selection, len(index.chunks), index.total)
    cached = _matches.recall(key)
    if cached is not None:
        return cached
    numbers = array("L")
    scanned = 0
    is_complete = True
    for start in range(0, len(index.chunks), CHUNKS_PER_LOOK):
        places = range(start, min(start + CHUNKS_PER_LOOK, len(index.chunks)))
        for text in read_texts(conn, index, places, selection.text):
            begin = index.begin_of(text.place)
            letters = levels_of(text.lines) if selection.levels else "i" * len(text.lines)
            for offset, line in enumerate(text.lines):
                if selection.takes(letters[offset], line):
                    numbers.append(begin + offset)
            scanned += sum(map(len, text.lines))
        if scanned > MOST_SCANNED_BYTES or len(numbers) > MOST_KEPT:
            is_complete = places[-1] == len(index.chunks) - 1
            break
    return _matches.keep(key, Matches(numbers, is_complete))


def read_lines(conn: Conn, scope: Scope, selection: Filter, *, first: int, limit: int) -> LogLines:
    """From the line at `first` on; a negative one counts from the end."""
    index = read_index(conn, scope)
    matches = None if selection.takes_all else find_matches(conn, scope, index, selection)
    total = index.total if matches is None else len(matches.numbers)
    begin = max(0, total + first) if first < 0 else min(first, total)
    end = min(total, begin + limit)
    numbers: Sequence[int] = range(begin, end) if matches is None else matches.numbers[begin:end]
    return LogLines(
        job_id=scope.job_id,
        node_id=scope.node_id,
        total=total,
        first=begin,
        is_complete=matches is None or matches.is_complete,
        pieces=_pieces(conn, index, numbers),
    )


def _pieces(conn: Conn, index: LogIndex, numbers: Sequence[int]) -> list[LogPiece]:
    places = sorted({bisect_right(index.ends, number) for number in numbers})
    pieces: list[LogPiece] = []
    size = 0
    for text in read_texts(conn, index, places):
        chunk, begin = index.chunks[text.place], index.begin_of(text.place)
        own = numbers[bisect_left(numbers, begin) : bisect_left(numbers, begin + len(text.lines))]
        letters = levels_of(text.lines)
        lines = [text.lines[number - begin] for number in own]
        size += sum(map(len, lines))
        pieces.append(
            LogPiece(
                node_id=chunk.node_id,
                task_id=chunk.task_id,
                lease_epoch=chunk.lease_epoch,
                created_at=chunk.created_at,
                truncated=text.truncated,
                numbers=list(own),
                levels="".join(letters[number - begin] for number in own),
                lines=lines,
            )
        )
        if size >= PAGE_BYTES:
            break
    return pieces


def search_lines(conn: Conn, scope: Scope, levels: Collection[LogLevel], text: str) -> LogMatches:
    """Where the text stands among the lines of these levels."""
    index = read_index(conn, scope)
    matches = find_matches(conn, scope, index, make_filter(levels, text))
    numbers = matches.numbers[:MOST_MATCHES]
    places: Sequence[int] = numbers
    if levels:
        selected_numbers = find_matches(conn, scope, index, make_filter(levels)).numbers
        places = [bisect_left(selected_numbers, number) for number in numbers]
    return LogMatches(
        job_id=scope.job_id,
        node_id=scope.node_id,
        text=text,
        total=len(matches.numbers),
        is_complete=matches.is_complete,
        places=list(places),
    )
