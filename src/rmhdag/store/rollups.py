"""Finished jobs summed up by hours and days: a mark per namespace says how far, and moves with what it stands for.

Whatever is behind the mark is in the rollups exactly once; metrics read what is before it from the jobs themselves.
"""

from __future__ import annotations

from datetime import datetime

from rmhdag.store.connection import Conn
from rmhdag.store.crash_points import commit_site
from rmhdag.store.queries import load_queries

SQL = load_queries(__file__)

# A job's end is stamped before its transaction commits: jobs younger than this may still appear among older ones.
SETTLING_SECONDS = 60.0
# Later than that is possible after a freeze: then the hour is summed up again.
CHECKED_HOURS = 3
KEPT_DAYS = 92
MOST_ERRORS = 50
OTHER_ERRORS = "(other errors)"


def namespaces(conn: Conn) -> list[str]:
    """With those whose first job has just finished."""
    conn.execute(SQL["add_namespaces"])
    return [row[0] for row in conn.execute(SQL["namespaces"]).fetchall()]


@commit_site
def add_slice_to_rollups(conn: Conn, namespace: str, bite: int, settling_seconds: float = SETTLING_SECONDS) -> int:
    """Sum up at most about `bite` jobs more and move the mark; how many there were. Somebody else at it: 0."""
    with conn.transaction():
        locked = conn.execute(SQL["lock_mark"], {"namespace": namespace}).fetchone()
        if locked is None:
            return 0
        parameters = {"namespace": namespace, "after": locked[0], "bite": bite, "settling_seconds": settling_seconds}
        row = conn.execute(SQL["slice_end"], parameters).fetchone()
        assert row is not None
        until, count = row
        if not count:
            return 0
        errors = {"most_errors": MOST_ERRORS, "other_errors": OTHER_ERRORS}
        for name in ("add_jobs", "add_throughput", "add_nodes", "add_failures", "set_mark"):
            conn.execute(SQL[name], {"namespace": namespace, "after": locked[0], "until": until, **errors})
    return int(count)


@commit_site
def rewind_rollups_if_late(conn: Conn, namespace: str) -> datetime | None:
    """Back to the first hour that lacks jobs which were committed late; from there all is summed up anew."""
    with conn.transaction():
        locked = conn.execute(SQL["lock_mark"], {"namespace": namespace}).fetchone()
        if locked is None:
            return None
        parameters = {"namespace": namespace, "mark": locked[0], "hours": CHECKED_HOURS - 1}
        row = conn.execute(SQL["late_hour"], parameters).fetchone()
        if row is None:
            return None
        since: datetime = row[0]
        for name in ("forget_jobs_from", "forget_throughput_from", "forget_nodes_from", "forget_failures_from"):
            conn.execute(SQL[name], {"namespace": namespace, "since": since})
        # The mark itself belongs to what is summed up, the hour's first moment does not.
        conn.execute(SQL["rewind_mark"], {"namespace": namespace, "since": since})
    return since


@commit_site
def fold_rollups(conn: Conn, namespace: str) -> None:
    """Old hours become days, and what nobody can ask for any more goes."""
    with conn.transaction():
        if conn.execute(SQL["lock_mark"], {"namespace": namespace}).fetchone() is None:
            return
        parameters = {
            "namespace": namespace,
            "days": KEPT_DAYS,
            "most_errors": MOST_ERRORS,
            "other_errors": OTHER_ERRORS,
        }
        folds = ("fold_jobs", "fold_nodes", "fold_failures")
        for name in (*folds, "expire_jobs", "expire_nodes", "expire_failures", "expire_throughput"):
            conn.execute(SQL[name], parameters)
