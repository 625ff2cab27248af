"""What jobs bring about in revisions and assets: written in the transaction that changes the job, by nobody else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import orjson
import psycopg

from rmhdag.store.queries import load_queries

SQL = load_queries(__file__)


class RevisionKey(NamedTuple):
    namespace: str
    asset_id: str
    revision: int


class RevisionOfJob(NamedTuple):
    job_id: str
    key: RevisionKey


def follow_jobs(conn: psycopg.Connection[Any], followed: Sequence[RevisionOfJob]) -> None:
    """After the jobs' rows are written, and whatever they publish: their revisions follow, and the assets those."""
    revisions = _text([one.key for one in followed])
    conn.execute(SQL["lock_assets"], {"revisions": revisions}, prepare=True)
    conn.execute(SQL["follow_jobs"], {"jobs": _text([one.job_id for one in followed])}, prepare=True)
    conn.execute(SQL["show_revisions"], {"revisions": revisions}, prepare=True)


def follow_job_if_asset(conn: psycopg.Connection[Any], job_id: str) -> None:
    """The same for one job of which only the id is known."""
    row = conn.execute(SQL["revision_of_job"], {"job_id": job_id}).fetchone()
    if row is not None:
        follow_jobs(conn, [RevisionOfJob(job_id, RevisionKey(*row))])


def show_revision(conn: psycopg.Connection[Any], key: RevisionKey) -> None:
    """The asset as its revisions are now; the caller has locked it."""
    conn.execute(SQL["show_revisions"], {"revisions": _text([key])}, prepare=True)


def _text(rows: Sequence[Any]) -> str:
    return orjson.dumps([list(row) if isinstance(row, tuple) else row for row in rows]).decode()
