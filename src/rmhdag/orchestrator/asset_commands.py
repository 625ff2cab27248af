"""What people ask of an asset that is there: back to an earlier revision, and away with it."""

from __future__ import annotations

from typing import Any

import psycopg

from rmhdag.assets.revisions import check_idle, check_rollback, rollback_source
from rmhdag.models.assets import ProcessingStatus
from rmhdag.orchestrator.requests import state_of
from rmhdag.store import assets
from rmhdag.store.asset_states import RevisionKey, show_revision
from rmhdag.store.audit import add_audit
from rmhdag.store.revision_items import CompletedRevision, show_current, withdraw_asset

Conn = psycopg.Connection[Any]


class UnknownAssetError(Exception):
    """No such asset."""


def roll_back(conn: Conn, namespace: str, asset_id: str, revision: int, *, issued_by: str) -> int:
    """Make a revision with the content of an earlier one: the same files, outputs and catalogue record. Returns its
    number. Raises AssetConflict.
    """
    with conn.transaction():
        locked = assets.lock_asset(conn, namespace, asset_id)
        if locked is None:
            raise UnknownAssetError(f"there is no asset {asset_id}")
        found = assets.find_revision(conn, RevisionKey(namespace, asset_id, revision))
        status = None if found is None else ProcessingStatus(found.status)
        number = check_rollback(state_of(locked), revision, status, locked.current_revision, locked.current_source)
        key = RevisionKey(namespace, asset_id, number)
        assets.copy_revision(conn, key, revision, source=rollback_source(revision), created_by=issued_by)
        show_revision(conn, key)
        show_current(conn, [CompletedRevision(key)])
        before = {"revision": locked.current_revision}
        after = {"revision": number, "content_of": revision}
        add_audit(conn, namespace, issued_by, "asset.rollback", f"asset {asset_id}", before=before, after=after)
    return number


def delete_asset(conn: Conn, namespace: str, asset_id: str, *, issued_by: str) -> None:
    """It is no longer shown, and no longer in the catalogue; its files and history stay. Again, it changes nothing."""
    with conn.transaction():
        locked = assets.lock_asset(conn, namespace, asset_id)
        if locked is None:
            raise UnknownAssetError(f"there is no asset {asset_id}")
        check_idle(state_of(locked), "it cannot be deleted now")
        is_first = assets.delete_asset(conn, namespace, asset_id, issued_by)
        withdraw_asset(conn, namespace, asset_id)
        if is_first:
            before = {"revision": locked.current_revision}
            add_audit(conn, namespace, issued_by, "asset.delete", f"asset {asset_id}", before=before)
