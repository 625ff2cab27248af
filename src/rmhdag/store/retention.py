"""Deleting what is old, in transactions of a few thousand rows: after a crash the next one continues from the rows.

A job leaves in two steps. Its row moves to `dag_pruned_jobs`, so that nobody ever sees half of a job; then the rows
that belong to it are deleted, as many at a time as the caller allows, and the mark at the end.
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from typing import NamedTuple

from rmhdag.models.references import SECRET_MEDIA_TYPE, holder_of_revision, references_in
from rmhdag.store.connection import Conn
from rmhdag.store.crash_points import commit_site
from rmhdag.store.payloads import add_uses
from rmhdag.store.queries import load_queries

SQL = load_queries(__file__)

# What belongs to a job, in the order in which it is deleted: a node is never there without its results.
OF_JOBS = {
    "delete_nodes": "dag_node_states",
    "delete_results": "dag_task_results",
    "delete_checkpoints": "dag_checkpoints",
    "delete_commands": "dag_job_commands",
    "delete_labels": "dag_job_labels",
    "delete_callbacks": "dag_callbacks",
    "delete_queued": "dag_queue_messages",
    "delete_requests": "dag_api_requests",
    "delete_lineage": "dag_dataset_refs",
    "delete_items": "dag_revision_items",
    "delete_payload_uses": "dag_payload_uses",
}
# These go with their days, unless jobs are kept for less than a day.
OF_JOBS_BY_DAY = {"delete_events": "dag_job_events", "delete_logs": "dag_task_logs"}
# What no job owns, and the statement that deletes the oldest of it.
HISTORY = {
    "delete_old_orchestrator_events": "dag_orchestrator_events",
    "delete_old_dead_letters": "dag_dead_letters",
    "delete_old_outbox_rows": "dag_outbox",
    "delete_old_catalogue_entries": "dag_catalogue_entries",
    "delete_old_joined_requests": "dag_api_requests",
    "delete_old_api_keys": "dag_api_keys",
    "delete_old_workflows": "dag_workflows",
}
# Jobs that are looked at, and jobs whose rows are deleted, in one transaction.
LONGEST_PAGE, MOST_JOBS = 500, 1_000


class RetentionDays(NamedTuple):
    """How long things are kept: jobs, what no job owns, and stored values that nothing refers to."""

    jobs: float = 30.0
    history: float = 92.0
    payloads: float = 1.0

    def of_history(self, name: str) -> float:
        """Dead letters are for people to look at; settled messages to brokers are like results."""
        return self.jobs if name == "delete_old_outbox_rows" else self.history


class Place(NamedTuple):
    """Where the next page of expired jobs begins."""

    namespace: str = ""
    completed_at: datetime | str = "-infinity"


class Bite(NamedTuple):
    """What one transaction deleted, by table; `has_more` says that the next one may find something as well.

    `is_held_up`: something is past its time and cannot be deleted now.
    """

    rows: Counter[str]
    has_more: bool
    is_held_up: bool = False


@commit_site
def take_out_expired_jobs(conn: Conn, days: float, after: Place, limit: int) -> tuple[Bite, Place]:
    """Remove jobs that ended long ago from all lists; what belongs to them is left to `delete_pruned_jobs`."""
    limit = min(limit, LONGEST_PAGE)
    with conn.transaction():
        page = conn.execute(SQL["expired_jobs"], {"days": days, "limit": limit, **after._asdict()}).fetchall()
        old = [row[2] for row in page if row[3] is None]
        locked = [row[0] for row in conn.execute(SQL["lock_expired_jobs"], {"jobs": old}).fetchall()] if old else []
        gone = _take_out(conn, locked, days) if locked else 0
    bite = Bite(Counter(dag_jobs=gone), len(page) == limit)
    return bite, place_after(page) if bite.has_more else Place()


def _take_out(conn: Conn, job_ids: list[str], days: float) -> int:
    rows = conn.execute(SQL["take_out_jobs"], {"jobs": job_ids, "days": days}).fetchall()
    for namespace, asset_id, revision, params in rows:
        # A secret was for that job alone, and goes with it.
        digests = {reference.sha256 for reference in references_in(params) if reference.media_type != SECRET_MEDIA_TYPE}
        add_uses(conn, namespace, holder_of_revision(asset_id, revision), digests)
    return len(rows)


def place_after(page: list[tuple[str, datetime, str, str | None]]) -> Place:
    """Jobs of one batch end in the same moment: those that did not fit are on the next page, together with a few that
    did. Of a page full of them the rest waits for the next pass."""
    first, last = page[0], page[-1]
    step = timedelta(microseconds=first[:2] == last[:2])
    return Place(last[0], last[1] + step)


@commit_site
def delete_pruned_jobs(conn: Conn, limit: int, *, with_days: bool) -> Bite:
    """Delete at most `limit` rows of jobs that were taken out. `with_days`: their events and logs too."""
    tables = OF_JOBS | OF_JOBS_BY_DAY if with_days else OF_JOBS
    rows: Counter[str] = Counter()
    with conn.transaction():
        rows_locked = conn.execute(SQL["lock_pruned_jobs"], {"limit": min(limit, MOST_JOBS)}).fetchall()
        if not rows_locked:
            return Bite(rows, False)
        jobs = {"jobs": [row[0] for row in rows_locked], "namespaces": [row[1] for row in rows_locked]}
        for name, table in tables.items():
            remaining = limit - rows.total()
            rows[table] += conn.execute(SQL[name], {**jobs, "limit": remaining}).rowcount
            if rows.total() >= limit:
                return Bite(rows, True)
        conn.execute(SQL["forget_pruned_jobs"], jobs)
    return Bite(rows, True)


@commit_site
def delete_history(conn: Conn, name: str, days: float, limit: int) -> Bite:
    """The oldest of what no job owns; `name` is one of HISTORY. Another orchestrator at it: nothing."""
    with conn.transaction():
        deleted = conn.execute(SQL[name], {"days": days, "limit": limit}).rowcount if try_lock(conn, name) else 0
    return Bite(Counter({HISTORY[name]: deleted}), deleted == limit)


def try_lock(conn: Conn, what: str) -> bool:
    row = conn.execute(SQL["try_lock"], {"what": what}).fetchone()
    assert row is not None
    return bool(row[0])


def is_waiting_for_metrics(conn: Conn, days: float) -> bool:
    """Whether jobs are kept only because metrics have not counted them yet."""
    row = conn.execute(SQL["is_waiting_for_metrics"], {"days": days}).fetchone()
    assert row is not None
    return bool(row[0])


def oldest_job(conn: Conn) -> datetime | None:
    """When the first of all jobs that are still there was created."""
    row = conn.execute(SQL["oldest_job"]).fetchone()
    return None if row is None else row[0]
