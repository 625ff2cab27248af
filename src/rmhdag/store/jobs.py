"""Jobs as their owners see them: submitted, claimed, loaded, handed over."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import orjson
from psycopg.rows import namedtuple_row

from rmhdag.models.states import NodeStatus
from rmhdag.store import payloads
from rmhdag.store.batch_rows import PieceOfFanOut, SubmissionKey, encode_rows
from rmhdag.store.channels import NEW_JOBS
from rmhdag.store.connection import Conn
from rmhdag.store.crash_points import commit_site
from rmhdag.store.job_labels import insert_labels
from rmhdag.store.queries import load_queries

SQL = load_queries(__file__)
STATUSES = [str(status) for status in NodeStatus]


# Where a job's metadata say what was asked for, if it was asked for with an idempotency key.
DIGEST = "submission_digest"


class EarlierJob(NamedTuple):
    """The job that an idempotency key stands for, and the digest of what was asked for then."""

    job_id: str
    digest: str | None


class ClaimedJob(NamedTuple):
    job_id: str
    owner_epoch: int
    namespace: str
    from_owner: str | None = None


def insert_jobs(conn: Conn, jobs: Sequence[dict[str, Any]], source_app: str) -> set[str]:
    """Insert submissions with their first event, and wake orchestrators; repeats are left out of the answer."""
    if any("payloads" in job or "labels" in job for job in jobs):
        return _insert_with_more(conn, jobs, source_app)
    return _insert_jobs(conn, jobs, source_app)


def _insert_jobs(conn: Conn, jobs: Sequence[dict[str, Any]], source_app: str) -> set[str]:
    parameters = {"jobs": orjson.dumps(list(jobs)).decode(), "source_app": source_app}
    row = conn.execute(SQL["submit_jobs"], parameters).fetchone()
    return set(row[0]) if row is not None and row[0] is not None else set()


def _insert_with_more(conn: Conn, jobs: Sequence[dict[str, Any]], source_app: str) -> set[str]:
    """Most jobs have neither labels nor payloads, and cost one statement."""
    with conn.transaction():
        inserted = _insert_jobs(conn, jobs, source_app)
        new = [job for job in jobs if job["job_id"] in inserted]
        use_payloads(conn, new)
        insert_labels(conn, {job["job_id"]: job["labels"] for job in new if "labels" in job})
    return inserted


def use_payloads(conn: Conn, inserted: Iterable[dict[str, Any]]) -> None:
    """`payloads` of a row are the hashes of what the job needs from now on, for as long as it is there: both are
    written in one transaction."""
    for job in inserted:
        payloads.add_uses(conn, job["namespace"], job["job_id"], job.get("payloads", ()))


def find_by_idempotency_keys(
    conn: Conn, namespace: str, keys: Sequence[tuple[str, str]]
) -> dict[tuple[str, str], EarlierJob]:
    """By (submitter, idempotency key)."""
    if not keys:
        return {}
    parameters = {"namespace": namespace, "keys": encode_rows(SubmissionKey(submitter, key) for submitter, key in keys)}
    rows = conn.execute(SQL["find_by_idempotency_keys"], parameters).fetchall()
    return {(submitted_by, key): EarlierJob(job_id, digest) for submitted_by, key, job_id, digest in rows}


def open_jobs_of(conn: Conn, me: str) -> list[str]:
    return [row[0] for row in conn.execute(SQL["open_jobs_of"], {"me": me}).fetchall()]


def owned_head(conn: Conn, me: str, job_id: str) -> tuple[int, str] | None:
    """Epoch and namespace of a job that is mine and open."""
    return conn.execute(SQL["owned_head"], {"me": me, "job_id": job_id}).fetchone()


@commit_site
def reclaim_from_myself(conn: Conn, me: str, job_ids: Collection[str]) -> set[str]:
    """Mint a new epoch for jobs of a transaction whose end is unknown; those of it that need no more care.

    Left out are jobs that the old transaction still holds locked: what it does to them is not yet decided.
    """
    parameters = {"me": me, "jobs": sorted(job_ids)}
    with conn.transaction():
        reclaimed = {row[0] for row in conn.execute(SQL["reclaim_from_myself"], parameters).fetchall()}
        open_still = {row[0] for row in conn.execute(SQL["open_among"], parameters).fetchall()}
    return set(job_ids) - (open_still - reclaimed)


@commit_site
def claim_unowned_jobs(conn: Conn, me: str, limit: int, after: str = "") -> list[ClaimedJob]:
    with conn.transaction():
        parameters = {"me": me, "limit": limit, "after": after}
        rows = conn.execute(SQL["claim_unowned_jobs"], parameters).fetchall()
        claimed = [ClaimedJob(*row) for row in rows]
        _take_inbox(conn, me, [""], claimed)
    return claimed


@commit_site
def claim_orphaned_jobs(conn: Conn, me: str, dead: Sequence[str], limit: int) -> list[ClaimedJob]:
    """Jobs of owners that are known to be dead."""
    with conn.transaction():
        parameters = {"me": me, "dead": list(dead), "limit": limit}
        claimed = [ClaimedJob(*row) for row in conn.execute(SQL["claim_orphaned_jobs"], parameters).fetchall()]
        _take_inbox(conn, me, ["", *dead], claimed)
    return claimed


def _take_inbox(conn: Conn, me: str, owners: list[str], claimed: list[ClaimedJob]) -> None:
    if claimed:
        conn.execute(SQL["readdress_inbox"], {"me": me, "from": owners, "jobs": [job.job_id for job in claimed]})


@commit_site
def release_jobs(conn: Conn, me: str) -> int:
    """Hand everything over: one statement frees all jobs, one notice tells the others."""
    with conn.transaction():
        released = conn.execute(SQL["release_jobs"], {"me": me}).rowcount
        conn.execute(SQL["unaddress_inbox"], {"me": me})
        conn.execute("SELECT pg_notify(%s, '')", [NEW_JOBS])
    return released


def adopt_strays(conn: Conn, me: str) -> int:
    return conn.execute(SQL["adopt_strays"], {"me": me}).rowcount


def discard_inbox_of_ended_jobs(conn: Conn, me: str) -> int:
    return conn.execute(SQL["discard_inbox_of_ended_jobs"], {"me": me}).rowcount


def load_jobs(conn: Conn, me: str, job_ids: Sequence[str], max_bytes: int) -> list[Any]:
    """Jobs of this owner. Those with `fits` false come after more than `max_bytes`, without their values."""
    return _named(conn, "load_jobs", {"me": me, "jobs": list(job_ids), "bytes": max_bytes})


class NodeKey(NamedTuple):
    """A node of a definition that is loaded. `turn` is the same for all nodes of a job and grows from job to job."""

    turn: int
    job_id: str
    node_id: str
    is_read: bool  # somebody reads the result of its task


def load_nodes(conn: Conn, keys: Sequence[NodeKey], max_bytes: int) -> list[Any]:
    """Nodes of definitions with their outputs. `fits` is false for all nodes of jobs that come after `max_bytes`."""
    if not keys:
        return []
    turns, job_ids, node_ids, are_read = map(list, zip(*keys, strict=True))
    parameters = {"turns": turns, "jobs": job_ids, "nodes": node_ids, "are_read": are_read, "bytes": max_bytes}
    return _named(conn, "load_nodes", parameters)


class ChildrenOfPiece(NamedTuple):
    """The children of a piece that have rows. A byte each: the position of the status in NodeStatus, and the attempt of
    those that failed. Of those under way: index, attempt, lease losses, next attempt, deadline. `error` is that of the
    first one that failed with a code, with its index."""

    job_id: str
    fan_out_id: str
    start: int
    statuses: bytes
    attempts: bytes
    last_index: int | None
    under_way: list[tuple[int, int, int, datetime | None, datetime | None]]
    error: tuple[int, dict[str, Any]] | None

    @property
    def has_gap(self) -> bool:
        return self.last_index is not None and self.last_index != self.start + len(self.statuses) - 1


def load_children(conn: Conn, pieces: Sequence[PieceOfFanOut]) -> list[ChildrenOfPiece]:
    """One statement, as large as the pieces together."""
    parameters = {"pieces": encode_rows(pieces), "statuses": STATUSES}
    rows = conn.execute(SQL["load_children"], parameters).fetchall()
    return [
        ChildrenOfPiece(
            job_id,
            fan_out_id,
            start,
            statuses,
            attempts,
            last_index,
            _under_way(under_way),
            None if error is None else (error_index, error),
        )
        for job_id, fan_out_id, start, statuses, attempts, last_index, under_way, error_index, error in rows
    ]


def _under_way(text: str | None) -> list[tuple[int, int, int, datetime | None, datetime | None]]:
    rows = () if text is None else orjson.loads(text)
    return [(index, attempt, losses, _time(due), _time(deadline)) for index, attempt, losses, due, deadline in rows]


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def load_outputs(conn: Conn, task_ids: Sequence[str]) -> dict[str, Any]:
    return dict(conn.execute(SQL["load_outputs"], {"tasks": list(task_ids)}).fetchall()) if task_ids else {}


def load_results(conn: Conn, job_ids: Sequence[str]) -> dict[str, Any]:
    return dict(conn.execute(SQL["load_results"], {"jobs": list(job_ids)}).fetchall()) if job_ids else {}


def load_warnings(conn: Conn, job_id: str) -> list[dict[str, Any]]:
    row = conn.execute(SQL["load_warnings"], {"job_id": job_id}).fetchone()
    return [] if row is None or row[0] is None else row[0]


def last_event_numbers(conn: Conn, job_ids: Sequence[str]) -> dict[str, int]:
    return dict(conn.execute(SQL["last_event_numbers"], {"jobs": list(job_ids)}).fetchall())


def load_definition(conn: Conn, namespace: str, workflow_id: str, version: int, content_hash: str) -> Any:
    parameters = {"namespace": namespace, "workflow_id": workflow_id, "version": version, "hash": content_hash}
    row = conn.execute(SQL["load_workflow"], parameters).fetchone()
    return None if row is None else row[0]


def _named(conn: Conn, query: str, parameters: dict[str, Any]) -> list[Any]:
    with conn.cursor(row_factory=namedtuple_row) as cursor:
        return cursor.execute(SQL[query], parameters).fetchall()
