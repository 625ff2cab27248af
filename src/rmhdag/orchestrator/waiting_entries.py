"""Inbox rows that are read and not yet handled: every namespace and job gets its turn, however much one has to say.

Rows are only read here; they are consumed in the transaction that handles them. So what is in memory may be forgotten
at any moment and is read again.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection
from datetime import datetime
from operator import attrgetter
from time import monotonic

from rmhdag.orchestrator.shares import JobLine, one_namespace
from rmhdag.store import inbox
from rmhdag.store.connection import Conn
from rmhdag.store.inbox import InboxEntry

READ_AHEAD = 2_000


class WaitingEntries:
    """Entries by job; the job that was served last is the last of the next round of its namespace."""

    def __init__(self, namespace_of: Callable[[str], str] = one_namespace) -> None:
        self._line: JobLine[deque[InboxEntry]] = JobLine(namespace_of, deque)
        self._ids: set[int] = set()
        self._mark = 0
        self.whole_read_seconds = 0.0

    def __len__(self) -> int:
        return len(self._ids)

    def read(self, conn: Conn, me: str, *, whole: bool) -> datetime:
        """Read what is new, `whole` also below the mark; returns the database's time."""
        began = monotonic()
        mark = 0 if whole else self._mark
        now, entries = inbox.read_inbox(
            conn, me, mark, READ_AHEAD if mark == 0 else max(0, READ_AHEAD - len(self._ids))
        )
        late: set[str] = set()
        for entry in entries:
            if entry.inbox_id not in self._ids:
                self._ids.add(entry.inbox_id)
                waiting = self._line.of(entry.job_id)
                if waiting and waiting[-1].inbox_id > entry.inbox_id:
                    late.add(entry.job_id)
                waiting.append(entry)
        # What was taken and not handled comes back behind what its job was told after it.
        for job_id in late:
            self._line.replace(job_id, deque(sorted(self._line.of(job_id), key=attrgetter("inbox_id"))))
        if entries:
            self._mark = max(self._mark, entries[-1].inbox_id)
        if whole:
            self.whole_read_seconds = monotonic() - began
        return now

    def take(
        self, limit: int, due: Collection[tuple[str, str]] = (), most_of_a_job: int | None = None
    ) -> list[InboxEntry]:
        """What the nodes in `due` have, then a share of every namespace and job, in the order in which they came."""
        entries = [entry for job_id, node_id in due for entry in self._take_of_node(job_id, node_id)]
        served: Counter[str] = Counter()
        # With so many jobs each gets one entry, and there is nothing to count.
        most = most_of_a_job if len(self._line) < limit else None

        def take_of_job(job_id: str, waiting: deque[InboxEntry], share: int) -> list[InboxEntry]:
            count = min(share, len(waiting))
            if most is not None:
                count = min(count, most - served[job_id])
                served[job_id] += count
            return [waiting.popleft() for _ in range(count)]

        entries += self._line.take(limit, take_of_job)
        self._ids.difference_update([entry.inbox_id for entry in entries])
        return entries

    def _take_of_node(self, job_id: str, node_id: str) -> list[InboxEntry]:
        if job_id not in self._line:
            return []
        waiting = self._line.of(job_id)
        self._line.replace(job_id, deque(entry for entry in waiting if entry.node_id != node_id))
        return [entry for entry in waiting if entry.node_id == node_id]

    def read_again(self) -> None:
        """Something taken was not handled: its rows are still there."""
        self._mark = 0
