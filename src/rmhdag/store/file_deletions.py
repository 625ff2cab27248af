"""The outbox of file deletions: written by `unpublishing`, claimed for a while, settled by the holder of the claim.

A name is made from content, so a task may find the very file that is to be deleted and not write it again. Publishing
a file therefore checks here, after its row is written: a deletion that has not begun is called off, and one that has
begun fails the attempt, whose retry writes the file anew.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

import orjson

from rmhdag.models.blobs import BlobAddress
from rmhdag.models.records import Zone
from rmhdag.models.unpublishing import DeletionStatus
from rmhdag.store.batch_rows import DeletionTry, encode_rows
from rmhdag.store.connection import Conn
from rmhdag.store.crash_points import commit_site
from rmhdag.store.queries import load_queries

SQL = load_queries(__file__)
REASON = "file_deletion"


class ClaimedDeletion(NamedTuple):
    file_id: str
    lease_epoch: int
    attempts: int
    namespace: str
    zone: str
    container: str
    path: str
    unpublishing_id: str

    @property
    def address(self) -> BlobAddress:
        return BlobAddress(Zone(self.zone), self.container, self.path)


class TriedDeletion(NamedTuple):
    """`delay_seconds` is for those that are tried again, which stay `deleting`."""

    claimed: ClaimedDeletion
    status: DeletionStatus
    delay_seconds: float | None = None
    error: str | None = None


def has_due(conn: Conn) -> bool:
    row = conn.execute(SQL["has_due"], prepare=True).fetchone()
    return row is not None and bool(row[0])


@commit_site
def claim_deletions(conn: Conn, *, limit: int, lease_seconds: float) -> list[ClaimedDeletion]:
    values = {"limit": limit, "lease_seconds": lease_seconds}
    return [ClaimedDeletion(*row) for row in conn.execute(SQL["claim_deletions"], values).fetchall()]


def needed_places(conn: Conn, claimed: Sequence[ClaimedDeletion]) -> set[str]:
    return {row[0] for row in conn.execute(SQL["needed_places"], {"files": [claim.file_id for claim in claimed]})}


@commit_site
def settle_deletions(conn: Conn, tried: Sequence[TriedDeletion]) -> int:
    """How many were still ours. What is dead becomes a dead letter, in the same transaction."""
    rows = [
        DeletionTry(
            file_id=deletion.claimed.file_id,
            lease_epoch=deletion.claimed.lease_epoch,
            status=deletion.status,
            delay_seconds=deletion.delay_seconds,
            error=deletion.error,
        )
        for deletion in tried
    ]
    with conn.transaction():
        settled = {row[0] for row in conn.execute(SQL["settle_deletions"], {"tries": encode_rows(rows)}).fetchall()}
        for deletion in tried:
            if deletion.status is DeletionStatus.DEAD and deletion.claimed.file_id in settled:
                _bury(conn, deletion)
        complete_unpublishings(conn, [deletion.claimed.unpublishing_id for deletion in tried])
    return len(settled)


def keep_files(conn: Conn, files: Sequence[str], job_id: str, node_id: str) -> str | None:
    """Within the transaction that records files at these places, after it has written their rows. The name of a file
    that this node cannot rely on.
    """
    values = {"files": list(files), "job_id": job_id, "node_id": node_id}
    # Nearly always none: one statement is all that it costs.
    if conn.execute(SQL["find_deletions"], values).fetchone() is None:
        return None
    rows = conn.execute(SQL["keep_files"], values).fetchall()
    if rows:
        complete_unpublishings(conn, [row[0] for row in rows])
    row = conn.execute(SQL["vanished_files"], values).fetchone()
    return None if row is None else str(row[0])


def revive_deletion(conn: Conn, namespace: str, file_id: str) -> bool:
    """A dead one gets another chance."""
    return conn.execute(SQL["revive_deletion"], {"namespace": namespace, "file_id": file_id}).rowcount == 1


def complete_unpublishings(conn: Conn, unpublishings: Sequence[str]) -> None:
    """Those of which nothing is left to delete."""
    conn.execute(SQL["complete_unpublishings"], {"unpublishings": sorted(set(unpublishings))})


def _bury(conn: Conn, deletion: TriedDeletion) -> None:
    claimed = deletion.claimed
    text = orjson.dumps([claimed.file_id, claimed.lease_epoch])
    place = {"zone": claimed.zone, "container": claimed.container, "path": claimed.path, "file_id": claimed.file_id}
    values = {
        "letter": f"dl-{hashlib.sha256(text).hexdigest()[:56]}",
        "namespace": claimed.namespace,
        "reason": REASON,
        "error": deletion.error,
        "body": orjson.dumps(place).decode(),
    }
    conn.execute(SQL["bury_deletion"], values)
