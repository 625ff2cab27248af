"""Inbox rows that are read and not yet handled: every job gets its turn, however much one of them has to say.

Rows are only read here; they are consumed in the transaction that handles them. So what is in memory may be forgotten
at any moment and is read again.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Collection
from datetime import datetime
from operator import attrgetter
from time import monotonic
from typing import Any

import psycopg

from rmhdag.store import inbox
from rmhdag.store.inbox import InboxEntry

READ_AHEAD = 2_000


class WaitingEntries:
    """Entries by job; the job that was served last is the last of the next round."""

    def __init__(self) -> None:
        self._by_job: OrderedDict[str, deque[InboxEntry]] = OrderedDict()
        self._ids: set[int] = set()
        self._mark = 0
        self.whole_read_seconds = 0.0

    def __len__(self) -> int:
        return len(self._ids)

    def read(self, conn: psycopg.Connection[Any], me: str, *, whole: bool) -> datetime:
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
                waiting = self._by_job.setdefault(entry.job_id, deque())
                if waiting and waiting[-1].inbox_id > entry.inbox_id:
                    late.add(entry.job_id)
                waiting.append(entry)
        # What was taken and not handled comes back behind what its job was told after it.
        for job_id in late:
            self._by_job[job_id] = deque(sorted(self._by_job[job_id], key=attrgetter("inbox_id")))
        if entries:
            self._mark = max(self._mark, entries[-1].inbox_id)
        if whole:
            self.whole_read_seconds = monotonic() - began
        return now

    def take(
        self, limit: int, due: Collection[tuple[str, str]] = (), most_of_a_job: int | None = None
    ) -> list[InboxEntry]:
        """What the nodes in `due` have, then a share of every job, in the order in which they came."""
        taken = [entry for job_id, node_id in due for entry in self._take_of_node(job_id, node_id)]
        room = limit
        served: Counter[str] = Counter()
        # With so many jobs each gets one entry, and there is nothing to count.
        is_capped = most_of_a_job is not None and len(self._by_job) < limit
        while self._by_job and room > 0:
            share = max(1, room // len(self._by_job))
            before = room
            for job_id in list(self._by_job)[:room]:
                waiting = self._by_job[job_id]
                count = min(share, len(waiting))
                if is_capped and most_of_a_job is not None:
                    count = min(count, most_of_a_job - served[job_id])
                    served[job_id] += count
                taken += [waiting.popleft() for _ in range(count)]
                room -= count
                if waiting:
                    self._by_job.move_to_end(job_id)
                else:
                    del self._by_job[job_id]
            if room == before:
                break  # all have had their share
        self._ids.difference_update([entry.inbox_id for entry in taken])
        return taken

    def _take_of_node(self, job_id: str, node_id: str) -> list[InboxEntry]:
        waiting = self._by_job.pop(job_id, None)
        if waiting is None:
            return []
        rest = deque(entry for entry in waiting if entry.node_id != node_id)
        if rest:
            self._by_job[job_id] = rest
        return [entry for entry in waiting if entry.node_id == node_id]

    def read_again(self) -> None:
        """Something taken was not handled: its rows are still there."""
        self._mark = 0
