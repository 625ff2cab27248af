"""Deletes payloads without uses, and unfinished uploads.

Uses go with their job; that one was the last is not noticed then. Instead all payloads are walked in the order of their
key, a page at a time: so what never got a use is found as well, and the cost of a page does not depend on how many
there are.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from rmhdag.store.connection import Conn
from rmhdag.store.crash_points import commit_site
from rmhdag.store.queries import load_queries
from rmhdag.store.retention import Bite, try_lock

SQL = load_queries(__file__)
LONGEST_PAGE = 500
# A chunk of 1 MB is some 500 rows for the database.
MOST_BYTES = 16 * 1024 * 1024
MOST_CHUNKS = 16


class PayloadPlace(NamedTuple):
    """Where a page of payloads ended."""

    namespace: str = ""
    sha256: str = ""


@commit_site
def delete_unused_payloads(conn: Conn, days: float, after: PayloadPlace, limit: int) -> tuple[Bite, PayloadPlace]:
    """One page: those that have no use and were not written or renewed for so many days."""
    parameters = {"days": days, "limit": min(limit, LONGEST_PAGE), **after._asdict()}
    with conn.transaction():
        page = conn.execute(SQL["next_payloads"], parameters).fetchall()
        place = PayloadPlace(*page[-1][:2]) if len(page) == parameters["limit"] else PayloadPlace()
        unused: list[tuple[str, str]] = []
        size_bytes = 0
        for namespace, digest, payload_bytes, is_unused in page:
            if is_unused and unused and size_bytes + payload_bytes > MOST_BYTES:
                place = PayloadPlace(*unused[-1])
                break
            if is_unused:
                unused.append((namespace, digest))
                size_bytes += payload_bytes
        locked = conn.execute(SQL["lock_payloads"], _columns(unused)).fetchall() if unused else []
        deleted = 0
        if locked:
            deleted = conn.execute(SQL["delete_payloads_if_unused"], {"days": days, **_columns(locked)}).rowcount
    return Bite(Counter(dag_payloads=deleted), place != PayloadPlace()), place


@commit_site
def delete_old_uploads(conn: Conn, days: float) -> Bite:
    with conn.transaction():
        parameters = {"days": days, "limit": MOST_CHUNKS}
        deleted = conn.execute(SQL["delete_old_uploads"], parameters).rowcount if try_lock(conn, "uploads") else 0
    return Bite(Counter(dag_payloads=deleted), deleted == MOST_CHUNKS)


def _columns(payloads: list[tuple[str, str]]) -> dict[str, list[str]]:
    return {"namespaces": [payload[0] for payload in payloads], "digests": [payload[1] for payload in payloads]}
