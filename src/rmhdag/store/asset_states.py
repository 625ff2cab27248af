"""How jobs change revisions and assets: written only here, in the transaction that changes the job."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import orjson

from rmhdag.models.assets import ApprovalState, ProcessingStatus
from rmhdag.store.batch_rows import RevisionKey, encode_rows
from rmhdag.store.connection import Conn
from rmhdag.store.queries import load_queries
from rmhdag.store.reviews import follow_review

SQL = load_queries(__file__)


class RevisionOfJob(NamedTuple):
    job_id: str
    key: RevisionKey


def lock_assets(conn: Conn, revisions: Iterable[RevisionKey]) -> None:
    conn.execute(SQL["lock_assets"], {"revisions": encode_rows(revisions)}, prepare=True)


def follow_jobs(conn: Conn, followed: Sequence[RevisionOfJob]) -> None:
    """After the jobs' rows are written, and whatever they publish: their revisions follow, and the assets those."""
    revisions = encode_rows(revision.key for revision in followed)
    conn.execute(SQL["lock_assets"], {"revisions": revisions}, prepare=True)
    jobs = orjson.dumps([revision.job_id for revision in followed]).decode()
    reviewed = conn.execute(SQL["follow_jobs"], {"jobs": jobs}, prepare=True).fetchall()
    for *key, status, state in reviewed:
        follow_review(conn, RevisionKey(*key), ProcessingStatus(status), ApprovalState(state))
    conn.execute(SQL["show_revisions"], {"revisions": revisions}, prepare=True)


def follow_job_if_asset(conn: Conn, job_id: str) -> None:
    """The same for one job of which only the id is known."""
    row = conn.execute(SQL["revision_of_job"], {"job_id": job_id}).fetchone()
    if row is not None:
        follow_jobs(conn, [RevisionOfJob(job_id, RevisionKey(*row))])


def show_revision(conn: Conn, key: RevisionKey) -> None:
    """The asset as its revisions are now; the caller has locked it."""
    conn.execute(SQL["show_revisions"], {"revisions": encode_rows([key])}, prepare=True)
