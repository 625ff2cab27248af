"""Commands for an existing asset: roll back to an earlier revision, and delete."""

from __future__ import annotations

from rmhdag.assets.reviews import check_reviewed_content
from rmhdag.assets.revisions import check_files_kept, check_idle, check_rollback, check_tables_kept, rollback_source
from rmhdag.models.assets import ApprovalState, ProcessingStatus
from rmhdag.models.refusals import Kind, Refusal
from rmhdag.services.requests import state_of
from rmhdag.services.reviews import refuse_taken_names, supersede_reviews
from rmhdag.store import assets
from rmhdag.store.asset_states import show_revision
from rmhdag.store.audit import add_audit
from rmhdag.store.batch_rows import RevisionKey
from rmhdag.store.connection import Conn
from rmhdag.store.data_tables import has_lost_tables
from rmhdag.store.reviews import open_review
from rmhdag.store.revision_items import CompletedRevision, show_current, withdraw_asset
from rmhdag.store.service_calls import announce_approval, announce_withdrawal, announced_revisions


class UnknownAssetError(Refusal):
    """No such asset."""

    def __init__(self, asset_id: str) -> None:
        super().__init__(
            Kind.NOT_FOUND, "not_found", f"there is no asset {asset_id!r}", remedy="`GET /api/v1/assets` lists them."
        )


def roll_back(conn: Conn, namespace: str, asset_id: str, revision: int, *, issued_by: str) -> int:
    """Create a revision with the content of an earlier one: the same files, outputs and catalogue record. Returns its
    number. Raises AssetConflict.
    """
    with conn.transaction():
        locked = assets.lock_asset(conn, namespace, asset_id)
        if locked is None:
            raise UnknownAssetError(asset_id)
        stored = assets.find_revision(conn, RevisionKey(namespace, asset_id, revision))
        status = None if stored is None else ProcessingStatus(stored.status)
        number = check_rollback(state_of(locked), revision, status, locked.current_revision, locked.current_source)
        if stored is not None:
            is_unpublished = stored.unpublished_at is not None
            check_files_kept(asset_id, revision, is_unpublished=is_unpublished, what="it cannot be rolled back to")
            check_reviewed_content(asset_id, revision, ApprovalState(stored.review_state))
            check_tables_kept(
                asset_id, revision, is_lost=has_lost_tables(conn, RevisionKey(namespace, asset_id, revision))
            )
            refuse_taken_names(conn, RevisionKey(namespace, asset_id, revision))
        key = RevisionKey(namespace, asset_id, number)
        assets.copy_revision(conn, key, revision, source=rollback_source(revision), created_by=issued_by)
        supersede_reviews(conn, key, issued_by=issued_by)
        open_review(conn, key)
        show_revision(conn, key)
        show_current(conn, [CompletedRevision(key)])
        if stored is not None and stored.review_state == ApprovalState.APPROVED:
            announce_approval(conn, key, stored.clearance, requested_by=issued_by)
        before = {"revision": locked.current_revision}
        after = {"revision": number, "content_of": revision}
        add_audit(conn, namespace, issued_by, "asset.rollback", f"asset {asset_id}", before=before, after=after)
    return number


def delete_asset(conn: Conn, namespace: str, asset_id: str, *, issued_by: str) -> None:
    """Remove the asset from lists and from the catalogue; its files and history stay. A repetition changes nothing."""
    with conn.transaction():
        locked = assets.lock_asset(conn, namespace, asset_id)
        if locked is None:
            raise UnknownAssetError(asset_id)
        check_idle(state_of(locked), "it cannot be deleted now")
        is_first = assets.delete_asset(conn, namespace, asset_id, issued_by)
        withdraw_asset(conn, namespace, asset_id)
        if is_first:
            for number in announced_revisions(conn, namespace, asset_id):
                announce_withdrawal(conn, RevisionKey(namespace, asset_id, number), requested_by=issued_by)
            before = {"revision": locked.current_revision}
            add_audit(conn, namespace, issued_by, "asset.delete", f"asset {asset_id}", before=before)
