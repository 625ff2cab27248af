"""The catalogue's outbox: entries to publish, claimed for a while, settled by the process that holds the claim."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import orjson
import psycopg

from rmhdag.models.catalogue import EntryStatus
from rmhdag.store.batch_rows import EntryClaim, EntryTry, encode_rows
from rmhdag.store.connection import Conn
from rmhdag.store.crash_points import commit_site
from rmhdag.store.pgstac import put_in_pgstac
from rmhdag.store.queries import load_queries

SQL = load_queries(__file__)
REASON = "catalogue"


class ClaimedEntry(NamedTuple):
    collection_id: str
    item_id: str
    removed: bool
    body: dict[str, Any]
    version: int
    lease_epoch: int
    attempts: int
    namespace: str
    job_id: str | None
    node_id: str | None

    @property
    def key(self) -> tuple[str, str, str]:
        return self.namespace, self.collection_id, self.item_id

    @property
    def claim(self) -> EntryClaim:
        return EntryClaim(*self.key, lease_epoch=self.lease_epoch, version=self.version)


class TriedEntry(NamedTuple):
    """What became of one try; `delay_seconds` is for those that stay pending, `newer_version` for those that the
    catalogue did not take because it has one."""

    claimed: ClaimedEntry
    status: EntryStatus
    delay_seconds: float | None = None
    error: str | None = None
    newer_version: int | None = None


def has_due(conn: Conn) -> bool:
    row = conn.execute(SQL["has_due"], prepare=True).fetchone()
    return row is not None and bool(row[0])


@commit_site
def claim_entries(conn: Conn, *, limit: int, lease_seconds: float) -> list[ClaimedEntry]:
    """What is due and nobody else is telling."""
    parameters = {"limit": limit, "lease_seconds": lease_seconds}
    return [ClaimedEntry(*row) for row in conn.execute(SQL["claim_entries"], parameters, prepare=True).fetchall()]


@commit_site
def keep_entries(conn: Conn, claimed: Sequence[ClaimedEntry], *, lease_seconds: float) -> list[ClaimedEntry]:
    """Those that are still ours, for a while longer. The others have a newer version or another teller."""
    parameters = {"claims": encode_rows(entry.claim for entry in claimed), "lease_seconds": lease_seconds}
    keys = set(conn.execute(SQL["keep_entries"], parameters, prepare=True).fetchall())
    return [entry for entry in claimed if entry.key in keys]


@commit_site
def settle_entries(conn: Conn, tried: Sequence[TriedEntry]) -> int:
    """How many were still as they were claimed. What is dead becomes a dead letter, in the same transaction."""
    with conn.transaction():
        return _settle(conn, tried)


@commit_site
def settle_entries_in_pgstac(conn: Conn, claimed: Sequence[ClaimedEntry]) -> int:
    """Write to pgSTAC and settle, in one transaction; an entry whose claim was lost is not written."""
    settled = 0
    with conn.transaction() as transaction:
        if _settle(conn, [TriedEntry(entry, EntryStatus.PUBLISHED) for entry in claimed]) < len(claimed):
            raise psycopg.Rollback(transaction)
        put_in_pgstac(conn, [entry.key for entry in claimed])
        settled = len(claimed)
    return settled


def revive_entry(conn: Conn, namespace: str, collection_id: str, item_id: str) -> bool:
    """A dead one gets another chance."""
    parameters = {"namespace": namespace, "collection_id": collection_id, "item_id": item_id}
    return conn.execute(SQL["revive_entry"], parameters).rowcount == 1


def _settle(conn: Conn, tried: Sequence[TriedEntry]) -> int:
    rows = [
        EntryTry(
            **entry.claimed.claim._asdict(),
            status=entry.status,
            delay_seconds=entry.delay_seconds,
            error=entry.error,
            newer_version=entry.newer_version,
        )
        for entry in tried
    ]
    settled = set(conn.execute(SQL["settle_entries"], {"tries": encode_rows(rows)}).fetchall())
    for entry in tried:
        claimed = entry.claimed
        if entry.status is EntryStatus.DEAD and claimed.key in settled:
            place = {"collection_id": claimed.collection_id, "item_id": claimed.item_id, "version": claimed.version}
            text = orjson.dumps([claimed.namespace, *place.values(), claimed.lease_epoch])
            conn.execute(
                SQL["bury_entry"],
                {
                    "letter": f"dl-{hashlib.sha256(text).hexdigest()[:56]}",
                    "namespace": claimed.namespace,
                    "reason": REASON,
                    "error": entry.error,
                    "job_id": claimed.job_id,
                    "node_id": claimed.node_id,
                    "body": orjson.dumps(place).decode(),
                },
            )
    return len(settled)
