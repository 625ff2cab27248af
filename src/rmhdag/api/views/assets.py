"""Assets, revisions and requests as they are shown, by routes and by the command line."""

from __future__ import annotations

from typing import Any

import psycopg

from rmhdag.api.views.progress import job_progress
from rmhdag.models.api.assets import (
    AssetSummary,
    AssetView,
    BlobView,
    Descendant,
    Lineage,
    LineageSource,
    OrderAccepted,
    RequestProgress,
    RequestView,
    RevisionSummary,
    RevisionView,
)
from rmhdag.models.states import JobStatus
from rmhdag.store import assets, views
from rmhdag.store.asset_states import RevisionKey
from rmhdag.store.assets import AssetFilters, AssetLine, RevisionLine, StoredRequest

Conn = psycopg.Connection[Any]
SUMMARY = frozenset(RevisionSummary.model_fields)


def accepted(request: StoredRequest) -> OrderAccepted:
    return OrderAccepted(
        request_id=request.request_id,
        workflow_id=request.workflow_id,
        submitted_at=request.created_at,
        job_id=request.job_id,
        asset_id=request.asset_id,
        revision=request.revision,
        joined=request.joined,
    )


def read_request(conn: Conn, namespace: str, request_id: str) -> RequestView | None:
    """As its newest job stands. When the job is pruned, its revision still tells how it ended."""
    request = assets.find_request(conn, namespace, request_id)
    if request is None:
        return None
    job = None if request.job_id is None else views.job(conn, namespace, request.job_id)
    stands = _from_revision(conn, namespace, request) if job is None else _from_job(conn, namespace, job)
    return RequestView(
        request_id=request.request_id,
        workflow_id=request.workflow_id,
        submitted_at=request.created_at,
        platform_id=request.platform_id,
        submitted_by=request.submitted_by,
        job_id=request.job_id,
        asset_id=request.asset_id,
        revision=request.revision,
        joined=request.joined,
        **stands,
    )


def _from_job(conn: Conn, namespace: str, job: dict[str, Any]) -> dict[str, Any]:
    cancelled = job["status"] == JobStatus.CANCELLED
    head = views.job_head(conn, namespace, job["job_id"])
    percent = 0.0 if head is None else job_progress(conn, head).overall_percent
    return {
        "status": "failed" if cancelled else job["status"],
        "completed_at": job["completed_at"],
        "result": job["result_data"],
        "error": "cancelled" if cancelled else job["error_message"],
        "error_detail": None if cancelled else job["error"],
        "warnings": job["warnings"],
        "progress": RequestProgress(percent=percent),
    }


def _from_revision(conn: Conn, namespace: str, request: StoredRequest) -> dict[str, Any]:
    found = None
    if request.asset_id is not None and request.revision is not None:
        found = assets.find_revision(conn, RevisionKey(namespace, request.asset_id, request.revision))
    if found is None:
        gone = "its job is older than this installation keeps jobs"
        return {
            "status": "failed",
            "completed_at": None,
            "result": None,
            "error": gone,
            "progress": RequestProgress(percent=0),
        }
    done = found.status == "completed"
    return {
        "status": "completed" if done else "failed",
        "completed_at": found.completed_at,
        "result": found.outputs if done else None,
        "error": None if done else found.error_message or found.status,
        "error_detail": found.error,
        "warnings": found.warnings,
        "progress": RequestProgress(percent=100 if done else 0),
    }


def page_of_assets(conn: Conn, namespace: str, filters: AssetFilters) -> list[AssetSummary]:
    return [summary(line) for line in assets.list_assets(conn, namespace, filters)]


def summary(line: AssetLine) -> AssetSummary:
    return AssetSummary.model_validate(line._asdict())


def read_asset(conn: Conn, namespace: str, asset_id: str) -> AssetView | None:
    line = assets.find_asset(conn, namespace, asset_id)
    if line is None:
        return None
    current = None
    if line.current_revision is not None:
        current = read_revision(conn, RevisionKey(namespace, asset_id, line.current_revision))
    return AssetView(**line._asdict(), current=current)


def read_revision(conn: Conn, key: RevisionKey) -> RevisionView | None:
    line = assets.find_revision(conn, key)
    return None if line is None else RevisionView(asset_id=key.asset_id, **line._asdict())


def page_of_revisions(
    conn: Conn, namespace: str, asset_id: str, *, before: int | None, limit: int
) -> list[RevisionSummary]:
    found = assets.list_revisions(conn, namespace, asset_id, before=before, limit=limit)
    return [revision_summary(line) for line in found]


def revision_summary(line: RevisionLine) -> RevisionSummary:
    return RevisionSummary(**{name: value for name, value in line._asdict().items() if name in SUMMARY})


def page_of_blobs(conn: Conn, key: RevisionKey, *, after: str, limit: int) -> list[BlobView]:
    return [BlobView(**line._asdict()) for line in assets.list_blobs(conn, key, after=after, limit=limit)]


def read_lineage(conn: Conn, key: RevisionKey) -> Lineage:
    return Lineage(
        asset_id=key.asset_id,
        revision=key.revision,
        sources=[LineageSource(**line._asdict()) for line in assets.sources_of(conn, key)],
        descendants=[Descendant(**line._asdict()) for line in assets.descendants_of(conn, key)],
    )
