"""A job's events as a timeline: a page of sentences, and a summary of all of them that stays cheap in large jobs."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from psycopg.rows import dict_row

from rmhdag.models.api.timeline import Timeline, TimelineSummary, read_event
from rmhdag.models.events import EventType
from rmhdag.store.connection import Conn
from rmhdag.store.queries import load_queries
from rmhdag.views.memory import Memory
from rmhdag.views.reading import labels

SQL = load_queries(__file__)
MOST_RETRIED = 100


class EventCount(NamedTuple):
    """`retried` are the nodes that were tried again; only one type of event names them."""

    event_type: str
    events: int
    first_at: datetime
    last_at: datetime
    last_seq: int
    retried: list[str] | None


def timeline(
    conn: Conn,
    job_id: str,
    *,
    node_id: str | None = None,
    after: int = 0,
    event_types: Collection[EventType] = (),
    limit: int = 100,
) -> Timeline:
    """The job is known to exist. The page is read first, so that the summary counts at least what it shows."""
    rows = read_events(conn, job_id, node_id=node_id, after=after, event_types=event_types, limit=limit + 1)
    return Timeline(
        job_id=job_id,
        node_id=node_id,
        summary=summarise(conn, job_id, node_id),
        events=[read_event(row) for row in rows[:limit]],
        next_after=rows[limit - 1]["seq"] if len(rows) > limit else None,
    )


def read_events(
    conn: Conn,
    job_id: str,
    *,
    node_id: str | None = None,
    after: int = 0,
    event_types: Collection[str] = (),
    limit: int = 100,
) -> list[dict[str, Any]]:
    """Oldest first; `after` is the `seq` of the last one seen."""
    parameters = {
        "job_id": job_id,
        "node_id": node_id,
        "after": after,
        "event_types": labels(event_types),
        "limit": limit,
    }
    with conn.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(SQL["timeline"], parameters).fetchall()


def count_events(conn: Conn, job_id: str, node_id: str | None, after: int) -> list[EventCount]:
    parameters = {"job_id": job_id, "node_id": node_id, "after": after}
    return [EventCount(*row) for row in conn.execute(SQL["timeline_summary"], parameters).fetchall()]


@dataclass
class Counted:
    """Of the events up to `last_seq`. They are numbered under the job's lock, so none can come in below it later."""

    last_seq: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    first_at: datetime | None = None
    last_at: datetime | None = None
    retried: set[str] = field(default_factory=set)

    def plus(self, lines: Collection[EventCount]) -> Counted:
        more = Counted(self.last_seq, dict(self.counts), self.first_at, self.last_at, set(self.retried))
        for line in lines:
            more.counts[line.event_type] = more.counts.get(line.event_type, 0) + line.events
            more.first_at = line.first_at if more.first_at is None else min(more.first_at, line.first_at)
            more.last_at = line.last_at if more.last_at is None else max(more.last_at, line.last_at)
            more.last_seq = max(more.last_seq, line.last_seq)
            more.retried.update(line.retried or ())
        more.retried = set(sorted(more.retried)[:MOST_RETRIED])
        return more

    def as_summary(self) -> TimelineSummary:
        took = None
        if self.first_at is not None and self.last_at is not None:
            took = (self.last_at - self.first_at).total_seconds()
        return TimelineSummary(
            total_events=sum(self.counts.values()),
            first_event=self.first_at,
            last_event=self.last_at,
            duration_seconds=took,
            event_counts={EventType(name): self.counts[name] for name in sorted(self.counts)},
            nodes_with_retries=sorted(self.retried),
        )


class Summaries:
    """A fan-out of 100,000 leaves half a million events: the summary of so many is remembered, and only what is new is
    read.
    """

    def __init__(self, *, remembered_events: int = 2_000) -> None:
        self._remembered_events = remembered_events
        self._known: Memory[tuple[str, str | None], Counted] = Memory(500)

    def __call__(self, conn: Conn, job_id: str, node_id: str | None = None) -> TimelineSummary:
        before = self._known.recall((job_id, node_id)) or Counted()
        now = before.plus(count_events(conn, job_id, node_id, before.last_seq))
        if sum(now.counts.values()) >= self._remembered_events:
            self._known.keep((job_id, node_id), now)
        return now.as_summary()


summarise = Summaries()
