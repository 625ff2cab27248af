"""Looking after what lies around: lost rows, silent jobs, and who has more jobs than its share."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from rmhdag.store.channels import NEW_JOBS
from rmhdag.store.connection import Conn
from rmhdag.store.crash_points import commit_site
from rmhdag.store.queries import load_queries

SQL = load_queries(__file__)


class SilentJob(NamedTuple):
    job_id: str
    owner_epoch: int
    namespace: str
    changed_at: Any
    silence: timedelta


class Wait(NamedTuple):
    """`only_for_workers`: all its tasks lie in queues, and no clock will move another one."""

    waits_for: str
    only_for_workers: bool


def tasks_without_a_row(conn: Conn, me: str, seconds: float) -> list[tuple[str, str, int, str]]:
    """(job, node, attempt, task) of dispatched nodes that nobody will ever run."""
    return conn.execute(SQL["tasks_without_a_row"], {"me": me, "seconds": seconds}).fetchall()


def jobs_without_progress(conn: Conn, me: str, seconds: float, *, after: str, limit: int) -> list[SilentJob]:
    """Those whose id is larger than `after`, in the order of their ids."""
    parameters = {"me": me, "seconds": seconds, "after": after, "limit": limit}
    return [SilentJob(*row) for row in conn.execute(SQL["jobs_without_progress"], parameters).fetchall()]


def what_jobs_wait_for(conn: Conn, job_ids: Sequence[str]) -> dict[str, Wait]:
    """Jobs of which somebody or the clock will move the next node, with who or when that is."""
    rows = conn.execute(SQL["what_jobs_wait_for"], {"jobs": list(job_ids)}).fetchall()
    return {job_id: Wait(waits_for, only_for_workers) for job_id, waits_for, only_for_workers in rows}


def open_nodes(conn: Conn, job_id: str) -> list[tuple[str, str]]:
    return conn.execute(SQL["open_nodes"], {"job_id": job_id}).fetchall()


def jobs_not_begun(conn: Conn, me: str, seconds: float, limit: int) -> list[str]:
    """My jobs that are pending although they were made that long ago."""
    parameters = {"me": me, "seconds": seconds, "limit": limit}
    return [row[0] for row in conn.execute(SQL["jobs_not_begun"], parameters, prepare=True).fetchall()]


def unfinished_fans(conn: Conn, me: str, seconds: float, limit: int) -> list[tuple[str, str]]:
    """(job, node): fan-ins that are ready, and fan-outs without their last child, unchanged for that long."""
    parameters = {"me": me, "seconds": seconds, "limit": limit}
    return conn.execute(SQL["unfinished_fans"], parameters, prepare=True).fetchall()


def definition_key(conn: Conn, job_id: str) -> tuple[str, str, int, str]:
    row = conn.execute(SQL["job_definition_key"], {"job_id": job_id}).fetchone()
    assert row is not None
    return row[0], row[1], row[2], row[3]


def mark_processed_results(conn: Conn, job_ids: Sequence[str], limit: int) -> int:
    return conn.execute(SQL["mark_processed_results"], {"jobs": list(job_ids), "limit": limit}).rowcount


@commit_site
def release_some_jobs(conn: Conn, me: str, limit: int, busy: Sequence[str] = ()) -> Sequence[str]:
    """Give jobs that are not busy away to orchestrators that have fewer."""
    parameters = {"me": me, "limit": limit, "busy": list(busy)}
    with conn.transaction():
        released = [row[0] for row in conn.execute(SQL["release_some_jobs"], parameters).fetchall()]
        if released:
            conn.execute(SQL["unaddress_inbox_of"], {"me": me, "jobs": released})
            conn.execute("SELECT pg_notify(%s, '')", [NEW_JOBS])
    return released


def jobs_per_owner(conn: Conn) -> dict[str, int]:
    return dict(conn.execute(SQL["jobs_per_owner"]).fetchall())
