"""Assets, revisions and requests as they are shown, by routes and by the command line."""

from __future__ import annotations

from typing import Any

from rmhdag.models.api.assets import (
    AssetView,
    Lineage,
    OrderAccepted,
    RequestProgress,
    RequestView,
    RevisionSummary,
    RevisionView,
)
from rmhdag.models.assets import ApprovalState
from rmhdag.models.states import JobStatus
from rmhdag.store import assets
from rmhdag.store.assets import RevisionLine, StoredRequest
from rmhdag.store.batch_rows import RevisionKey
from rmhdag.store.connection import Conn
from rmhdag.store.data_tables import list_tables, table_boxes
from rmhdag.store.unpublishing import list_unpublishings
from rmhdag.views.jobs import JobRow, find_job
from rmhdag.views.progress import job_progress
from rmhdag.views.reading import shown_as
from rmhdag.views.shapes import shape_of, shape_of_boxes

UNPUBLISHINGS_SHOWN = 10
SUMMARY = frozenset(RevisionSummary.model_fields)


def accepted(request: StoredRequest) -> OrderAccepted:
    return OrderAccepted(
        request_id=request.client_request_id,
        workflow_id=request.workflow_id,
        submitted_at=request.created_at,
        job_id=request.job_id,
        asset_id=request.asset_id,
        revision=request.revision,
        joined=request.joined,
    )


def read_request(conn: Conn, namespace: str, request_id: str) -> RequestView | None:
    """As its newest job stands. When the job is pruned, its revision still tells how it ended.

    By the platform's id, or by what its client calls it: then the newest, if several clients call one so.
    """
    request = assets.find_request(conn, namespace, request_id) or assets.find_newest_request(
        conn, namespace, request_id
    )
    if request is None:
        return None
    job = None if request.job_id is None else find_job(conn, namespace, request.job_id)
    line = None
    if request.asset_id is not None and request.revision is not None:
        line = assets.find_revision(conn, RevisionKey(namespace, request.asset_id, request.revision))
    stands = _from_revision(line) if job is None else _from_job(conn, job)
    if job is not None and job.status is JobStatus.RUNNING and assets.waits_for_person(conn, job.job_id):
        stands["status"] = "awaiting_approval"
    elif line is not None and stands["status"] == "completed":
        stands |= _reviewed(line)
    return RequestView(
        request_id=request.request_id,
        client_id=request.client_id,
        client_request_id=request.client_request_id,
        workflow_id=request.workflow_id,
        submitted_at=request.created_at,
        platform_id=request.platform_id,
        submitted_by=request.submitted_by,
        job_id=request.job_id,
        asset_id=request.asset_id,
        revision=request.revision,
        joined=request.joined,
        labels=request.labels,
        **stands,
    )


def _from_job(conn: Conn, job: JobRow) -> dict[str, Any]:
    cancelled = job.status is JobStatus.CANCELLED
    return {
        "status": "failed" if cancelled else job.status,
        "completed_at": job.completed_at,
        "result": job.result_data,
        "error": "cancelled" if cancelled else job.error_message,
        "error_detail": None if cancelled else job.error,
        "warnings": job.warnings,
        "progress": RequestProgress(percent=job_progress(conn, job).overall_percent),
    }


def _reviewed(line: RevisionLine) -> dict[str, Any]:
    """What a review changes in how a completed order stands: nobody gets the result of what is not approved."""
    state = ApprovalState(line.review_state)
    if state is ApprovalState.NONE:
        return {}
    if state is ApprovalState.APPROVED:
        return {"completed_at": max(filter(None, (line.completed_at, line.decided_at)), default=None)}
    if state is ApprovalState.PENDING_REVIEW:
        return {"status": "awaiting_approval", "completed_at": None, "result": None}
    reason = f": {line.decision_reason}" if line.decision_reason else ""
    return {"status": "failed", "completed_at": line.decided_at, "result": None, "error": f"{state}{reason}"}


def _from_revision(revision: RevisionLine | None) -> dict[str, Any]:
    if revision is None:
        gone = "its job is older than this installation keeps jobs"
        return {
            "status": "failed",
            "completed_at": None,
            "result": None,
            "error": gone,
            "progress": RequestProgress(percent=0),
        }
    done = revision.status == "completed"
    return {
        "status": "completed" if done else "failed",
        "completed_at": revision.completed_at,
        "result": revision.outputs if done else None,
        "error": None if done else revision.error_message or revision.status,
        "error_detail": revision.error,
        "warnings": revision.warnings,
        "progress": RequestProgress(percent=100 if done else 0),
    }


def read_asset(conn: Conn, namespace: str, asset_id: str) -> AssetView | None:
    line = assets.find_asset(conn, namespace, asset_id)
    if line is None:
        return None
    current = None
    if line.current_revision is not None:
        current = read_revision(conn, RevisionKey(namespace, asset_id, line.current_revision))
    # Asked for by itself: the served one may be older than those that are listed.
    served = line.current_revision
    latest = None if served is None else assets.version_label_of(conn, RevisionKey(namespace, asset_id, served))
    return shown_as(
        AssetView,
        line,
        current=current,
        latest_version=latest,
        versions=assets.list_versions(conn, namespace, asset_id),
        unpublishings=list_unpublishings(conn, namespace, asset_id, previews_too=False, limit=UNPUBLISHINGS_SHOWN),
    )


def read_revision(conn: Conn, key: RevisionKey) -> RevisionView | None:
    line = assets.find_revision(conn, key)
    if line is None:
        return None
    view = RevisionView(asset_id=key.asset_id, tables=list_tables(conn, key), **line._asdict())
    if view.footprint is None:
        # Stored is only where the items are. Vector data may have none, and yet be somewhere.
        boxes = table_boxes(conn, key) if view.tables else ()
        shape = shape_of_boxes(boxes) or shape_of(None, view.outputs.get("bbox"))
        view.footprint = None if shape is None else shape.geometry()
    return view


def page_of_revisions(
    conn: Conn, namespace: str, asset_id: str, *, before: int | None, limit: int
) -> list[RevisionSummary]:
    lines = assets.list_revisions(conn, namespace, asset_id, before=before, limit=limit)
    return [revision_summary(line) for line in lines]


def revision_summary(line: RevisionLine) -> RevisionSummary:
    return RevisionSummary(**{name: value for name, value in line._asdict().items() if name in SUMMARY})


def read_lineage(conn: Conn, key: RevisionKey) -> Lineage:
    return Lineage(
        asset_id=key.asset_id,
        revision=key.revision,
        sources=assets.sources_of(conn, key),
        descendants=assets.descendants_of(conn, key),
    )
