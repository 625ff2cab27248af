"""Counts and durations of a period: from rollups, and from the rows of the newest jobs.

The mark between the two moves all the time, so both are read in one snapshot.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any, NamedTuple

from rmhdag.store.connection import Conn
from rmhdag.store.queries import load_queries

SQL = load_queries(__file__)

BUCKET_GROWTH = 1.1


class Period(NamedTuple):
    """`mark`: jobs that finished later are not summed up yet."""

    since: datetime
    until: datetime
    mark: datetime


class JobBucket(NamedTuple):
    workflow_id: str
    status: str
    bucket: int
    jobs: int
    duration_ms: int


class NodeBucket(NamedTuple):
    node_id: str
    is_child: bool
    status: str
    bucket: int
    nodes: int
    duration_ms: int
    retries: int


class Failure(NamedTuple):
    """`node_id` is '' where the job failed by itself."""

    workflow_id: str
    node_id: str
    error: str
    failures: int
    last_at: datetime


class Metrics(NamedTuple):
    """Reads of one snapshot."""

    conn: Conn
    namespace: str
    period: Period

    def jobs(self, workflow_id: str | None = None) -> list[JobBucket]:
        return [JobBucket(*row) for row in self._both("rolled_up_jobs", "recent_jobs", workflow_id)]

    def nodes(self, workflow_id: str) -> list[NodeBucket]:
        return [NodeBucket(*row) for row in self._both("rolled_up_nodes", "recent_nodes", workflow_id)]

    def failures(self, workflow_id: str | None = None) -> list[Failure]:
        """The same failure may be there twice, from either side of the mark."""
        return [Failure(*row) for row in self._both("rolled_up_failures", "recent_failures", workflow_id)]

    def open_jobs(self, workflow_id: str | None = None) -> dict[str, int]:
        return dict(self._read("open_jobs", workflow_id))

    def throughput(self, bucket_minutes: int) -> list[tuple[datetime, int, int]]:
        """(start, jobs completed, their milliseconds) of the buckets that are not empty."""
        return self._read("throughput", None, minutes=bucket_minutes)

    def _both(self, rolled_up: str, recent: str, workflow_id: str | None) -> list[Any]:
        return self._read(rolled_up, workflow_id) + self._read(recent, workflow_id)

    def _read(self, query: str, workflow_id: str | None, **more: Any) -> list[Any]:
        parameters = {
            "namespace": self.namespace,
            "workflow_id": workflow_id,
            "since": self.period.since,
            "mark": self.period.mark,
            **more,
        }
        # Not prepared: how much lies behind the mark decides the plan.
        return self.conn.execute(SQL[query], parameters, prepare=False).fetchall()


@contextmanager
def of_days(conn: Conn, namespace: str, days: int) -> Iterator[Metrics]:
    with _snapshot(conn):
        yield Metrics(conn, namespace, _period(conn, "period", {"namespace": namespace, "days": days}))


@contextmanager
def of_hours(conn: Conn, namespace: str, hours: int, bucket_minutes: int) -> Iterator[Metrics]:
    """The period begins with a whole bucket."""
    parameters = {"namespace": namespace, "hours": hours, "minutes": bucket_minutes}
    with _snapshot(conn):
        yield Metrics(conn, namespace, _period(conn, "throughput_period", parameters))


def node_history(conn: Conn, namespace: str, workflow_id: str, days: int) -> dict[str, dict[int, int]]:
    """node → bucket of its duration → how often."""
    parameters = {"namespace": namespace, "workflow_id": workflow_id, "days": days}
    buckets: dict[str, dict[int, int]] = {}
    for node_id, bucket, count in conn.execute(SQL["node_history"], parameters):
        buckets.setdefault(node_id, {})[bucket] = count
    return buckets


def percentile_seconds(buckets: dict[int, int], share: float) -> float | None:
    """The middle of the bucket in which it lies: right within 5 %, from a millisecond on."""
    total = sum(buckets.values())
    target, passed = share * total, 0
    for bucket in sorted(buckets):
        passed += buckets[bucket]
        if passed >= target and passed:
            return float(0.001 * BUCKET_GROWTH ** (bucket + 0.5))
    return None


@contextmanager
def _snapshot(conn: Conn) -> Iterator[None]:
    with conn.transaction():
        conn.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        yield


def _period(conn: Conn, query: str, parameters: dict[str, Any]) -> Period:
    row = conn.execute(SQL[query], parameters).fetchone()
    assert row is not None
    return Period(*row)
