"""Assets under review on a platform in one process, and what must hold of their rows at every moment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rmhdag.models.assets import Classification, PlatformReview
from rmhdag.services import reviews
from rmhdag.services.requests import Ordered
from rmhdag.services.reviews import Decided
from rmhdag.store.batch_rows import RevisionKey
from rmhdag.store.connection import Conn
from rmhdag.workflow.definition import ApprovalNode, WorkflowDefinition
from tests.orchestrator.assets import place_order, raster_workflow
from tests.orchestrator.platform import Platform, Seat
from tests.orchestrator.test_publishing import blob, item, report, task

PUBLIC, RESTRICTED = Classification.PUBLIC, Classification.RESTRICTED


def reviewed_workflow() -> WorkflowDefinition:
    return raster_workflow().model_copy(update={"review": "required"})


def gated_workflow(**gate: Any) -> WorkflowDefinition:
    """Makes something, asks, and goes on."""
    nodes = {"make": task("echo", "ask"), "ask": ApprovalNode(next=("last",), **gate), "last": task()}
    return raster_workflow("gated").model_copy(update={"nodes": nodes})


def set_platform(conn: Conn, review: PlatformReview, namespace: str = "default") -> None:
    conn.execute(
        "INSERT INTO dag_platforms (namespace, platform_id, identity_refs, review, created_by)"
        " VALUES (%s, 'ddh', '[\"dataset_id\", \"resource_id\"]', %s, 'test')"
        " ON CONFLICT (namespace, platform_id) DO UPDATE SET review = EXCLUDED.review",
        [namespace, review],
    )


def make_revision(platform: Platform, seat: Seat, number: int = 1, **order: Any) -> Ordered:
    """Order the asset and publish one file and two items; the revision is completed afterwards."""
    ordered = place_order(platform.conn, input_params={"n": number}, **order)
    seat.work()
    [claimed] = platform.claim()
    report(platform, claimed, content(number))
    seat.work()
    return ordered


def content(number: int) -> tuple[Any, ...]:
    return blob(f"{number}.tif", sha=f"{number}" * 64), item("both", n=number), item(f"of-{number}", n=number)


def key_of(ordered: Ordered, revision: int | None = None) -> RevisionKey:
    return RevisionKey("default", ordered.request.asset_id or "", revision or ordered.request.revision or 0)


def revision_row(platform: Platform, key: RevisionKey) -> dict[str, Any]:
    names = ("status", "review_state", "clearance", "content_hash", "decided_by", "decision_reason")
    query = f"SELECT {', '.join(names)} FROM dag_asset_revisions WHERE asset_id = %s AND revision = %s"
    row = platform.conn.execute(query.encode(), [key.asset_id, key.revision]).fetchone()
    assert row is not None
    return dict(zip(names, row, strict=True))


def hash_of(platform: Platform, key: RevisionKey) -> str:
    return str(revision_row(platform, key)["content_hash"])


def approve(platform: Platform, key: RevisionKey, by: str = "rita", clearance: Classification = PUBLIC) -> Decided:
    return reviews.approve(platform.conn, key, content_hash=hash_of(platform, key), issued_by=by, clearance=clearance)


def reject(platform: Platform, key: RevisionKey, reason: str = "clouds") -> Decided:
    return reviews.reject(platform.conn, key, content_hash=hash_of(platform, key), issued_by="rita", reason=reason)


def revoke(platform: Platform, key: RevisionKey, reason: str = "licence") -> Decided:
    return reviews.revoke(platform.conn, key, content_hash=hash_of(platform, key), issued_by="rita", reason=reason)


def clear(platform: Platform, key: RevisionKey) -> Decided:
    return reviews.clear(platform.conn, key, content_hash=hash_of(platform, key), issued_by="rita")


STEPS: dict[str, Callable[[Platform, RevisionKey], Decided]] = {
    "approve": approve,
    "reject": reject,
    "revoke": revoke,
    "clear": clear,
}


def shown(conn: Conn) -> list[tuple[Any, ...]]:
    """What readers of the catalogue find: item, number and revision."""
    query = """SELECT item_id, body->'n', revision FROM dag_catalogue_entries
        WHERE item_id <> '' AND NOT removed ORDER BY collection_id, item_id"""
    return conn.execute(query).fetchall()


def served(conn: Conn) -> int | None:
    row = conn.execute("SELECT current_revision FROM dag_geospatial_assets").fetchone()
    assert row is not None
    return None if row[0] is None else int(row[0])


def audited(platform: Platform) -> list[tuple[str, str]]:
    rows = platform.conn.execute("SELECT action, actor FROM dag_audit WHERE action LIKE 'review.%' ORDER BY seq")
    return [(row[0], row[1]) for row in rows]


def told(platform: Platform) -> list[tuple[str, str]]:
    """What the callbacks say: on which occasion, and how the order stands."""
    rows = platform.conn.execute("SELECT occasion, body->>'status' FROM dag_callbacks ORDER BY created_at")
    return [(row[0], row[1]) for row in rows]


DISAGREEMENTS = {
    "an asset serves another revision than the newest completed one that needs no approval or has one": """
        SELECT a.asset_id FROM dag_geospatial_assets AS a
        WHERE a.current_revision IS DISTINCT FROM (
            SELECT max(v.revision) FROM dag_asset_revisions AS v
            WHERE v.namespace = a.namespace AND v.asset_id = a.asset_id AND v.status = 'completed'
                AND v.review_state IN ('none', 'approved'))""",
    "the catalogue shows an item that its asset does not serve": """
        SELECT e.item_id FROM dag_catalogue_entries AS e
        JOIN dag_geospatial_assets AS a ON a.namespace = e.namespace AND a.asset_id = e.asset_id
        WHERE NOT e.removed AND (a.deleted_at IS NOT NULL OR a.current_revision IS DISTINCT FROM e.revision)""",
    "the catalogue lacks an item of what is served": """
        SELECT i.item_id FROM dag_revision_items AS i
        JOIN dag_geospatial_assets AS a ON a.namespace = i.namespace AND a.asset_id = i.asset_id
            AND a.current_revision = i.revision AND a.deleted_at IS NULL
        WHERE NOT EXISTS (
            SELECT FROM dag_catalogue_entries AS e
            WHERE e.namespace = i.namespace AND e.collection_id = i.collection_id AND e.item_id = i.item_id
                AND e.revision = i.revision AND NOT e.removed AND e.body = i.body)""",
    "a completed revision waits for a review that nobody is asked for, or the reverse": """
        SELECT v.revision FROM dag_asset_revisions AS v
        WHERE v.status = 'completed' AND (v.review_state = 'pending_review') <> EXISTS (
            SELECT FROM dag_approvals AS p
            WHERE p.namespace = v.namespace AND p.asset_id = v.asset_id AND p.revision = v.revision
                AND p.decided_at IS NULL AND p.content_hash = v.content_hash)""",
    "two reviews of one revision are open": """
        SELECT revision FROM dag_approvals WHERE decided_at IS NULL
        GROUP BY namespace, asset_id, revision HAVING count(*) > 1""",
    "a decision is not in the audit trail": """
        SELECT v.revision FROM dag_asset_revisions AS v
        WHERE v.review_state IN ('approved', 'rejected', 'revoked') AND v.source = 'processed' AND NOT EXISTS (
            SELECT FROM dag_audit AS d
            WHERE d.subject = concat('asset ', v.asset_id, ', revision ', v.revision)
                AND d.after->>'review_state' = v.review_state::text
                OR d.subject = concat('asset ', v.asset_id) AND d.action = 'asset.unpublish'
                AND d.before->>'revision' = v.revision::text)""",
    "the files of a completed revision are gone": """
        SELECT v.revision FROM dag_asset_revisions AS v
        WHERE v.status = 'completed' AND v.unpublished_at IS NULL AND NOT EXISTS (
            SELECT FROM dag_blob_assets AS b
            WHERE b.namespace = v.namespace AND b.asset_id = v.asset_id AND b.revision = v.revision
                AND b.state = 'present')""",
    "what is unpublished is served, or its files are recorded as present": """
        SELECT v.revision FROM dag_asset_revisions AS v
        JOIN dag_geospatial_assets AS a ON a.namespace = v.namespace AND a.asset_id = v.asset_id
        WHERE v.unpublished_at IS NOT NULL AND (a.current_revision = v.revision OR EXISTS (
            SELECT FROM dag_blob_assets AS b
            WHERE b.namespace = v.namespace AND b.asset_id = v.asset_id AND b.revision = v.revision
                AND b.state = 'present'))""",
    "an asset says something else about its review than its revision": """
        SELECT a.asset_id FROM dag_geospatial_assets AS a
        JOIN LATERAL (
            SELECT v.review_state, v.clearance FROM dag_asset_revisions AS v
            WHERE v.namespace = a.namespace AND v.asset_id = a.asset_id AND v.review_state <> 'none'
                AND (v.review_state <> 'pending_review' OR v.status IN ('pending', 'processing', 'completed'))
            ORDER BY v.revision DESC LIMIT 1) AS n ON true
        WHERE (a.approval_state, a.classification) <> (n.review_state, n.clearance)""",
}


def check_agreement(conn: Conn) -> None:
    """Revisions, asset, catalogue, reviews, audit trail and files say the same."""
    for what, query in DISAGREEMENTS.items():
        rows = conn.execute(query.encode()).fetchall()
        assert rows == [], f"{what}: {rows}"
