"""Every call of the API that the client makes, described once: method, path, what is sent, what comes back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, TypeVar
from urllib.parse import quote

from pydantic import BaseModel

from rmhdag.models.api.approvals import ApprovalPage
from rmhdag.models.api.assets import (
    AssetPage,
    AssetView,
    BlobPage,
    Lineage,
    OrderAccepted,
    RequestView,
    RevisionPage,
    RevisionView,
    RollbackRequest,
    WorkOrderBody,
)
from rmhdag.models.api.audit import AuditPage
from rmhdag.models.api.callbacks import CallbackPage, CallbackView
from rmhdag.models.api.catalogue import CatalogueRemoval
from rmhdag.models.api.health import Health
from rmhdag.models.api.jobs import (
    BatchAnswers,
    CancelRequest,
    CommandAnswerBody,
    JobBatch,
    JobPage,
    JobSubmission,
    JobView,
    RerunAnswer,
    RerunRequest,
)
from rmhdag.models.api.keys import KeyMade, KeyPage, KeyRequest, KeyView, Me, RotationRequest
from rmhdag.models.api.nodes import Decision, JobGraph, LogPage, NodePage, NodeView, StoredValue
from rmhdag.models.api.overviews import JobOverview
from rmhdag.models.api.processes import DrainAnswer, OrchestratorList, WorkerList
from rmhdag.models.api.progress import JobProgress
from rmhdag.models.api.queues import DeadLetterPage, Discarded, QueueStatusList, Requeued
from rmhdag.models.api.quotas import QuotaChanges, QuotaList
from rmhdag.models.api.retention import Pruned, PrunePreview
from rmhdag.models.api.timeline import StreamedEvent, Timeline
from rmhdag.models.api.workflows import Registration, WorkflowCheck, WorkflowDetail, WorkflowPage, WorkflowSummary

M = TypeVar("M", bound=BaseModel)
YAML = "application/yaml"
JSON = "application/json"
# The largest workflow takes some seconds to check.
CHECK_SECONDS = 10
PAGE = 500


@dataclass(frozen=True, slots=True)
class Call(Generic[M]):
    """`repeatable`: done twice it does no more than once, so that it may be sent again without knowing its fate."""

    method: str
    path: str
    model: type[M]
    query: Mapping[str, Any] = field(default_factory=dict)
    content: bytes | None = None
    media_type: str = JSON
    repeatable: bool = True
    # Refusals that are answers.
    accepts: frozenset[int] = frozenset()
    # How long the server may work on it, where it would stop earlier otherwise.
    wait_seconds: int | None = None

    def parameters(self) -> dict[str, list[str]]:
        """What is None is not given; lists are repeated."""
        values = {name: value if isinstance(value, list) else [value] for name, value in self.query.items()}
        return {name: [_written(one) for one in given if one is not None] for name, given in values.items()}


def me() -> Call[Me]:
    return _get("me", Me)


def health() -> Call[Health]:
    return Call("GET", "/api/v1/health", Health, accepts=frozenset({503}))


def submit(body: JobSubmission) -> Call[JobView]:
    return _post("jobs", JobView, body, repeatable=body.idempotency_key is not None)


def submit_batch(bodies: Sequence[JobSubmission]) -> Call[BatchAnswers]:
    batch = JobBatch(jobs=[body.model_dump(mode="json", exclude_defaults=True) for body in bodies])
    return _post("jobs/batch", BatchAnswers, batch, repeatable=all(body.idempotency_key for body in bodies))


def list_jobs(cursor: str | None = None, limit: int = PAGE, **filters: Any) -> Call[JobPage]:
    return _get("jobs", JobPage, cursor=cursor, limit=limit, **filters)


def get_job(job_id: str) -> Call[JobView]:
    return _get(_of(job_id), JobView)


def get_overview(job_id: str, *, reasons: bool = False) -> Call[JobOverview]:
    return _get(f"{_of(job_id)}/overview", JobOverview, reasons=reasons)


def get_progress(job_id: str) -> Call[JobProgress]:
    return _get(f"{_of(job_id)}/progress", JobProgress)


def get_graph(job_id: str) -> Call[JobGraph]:
    return _get(f"{_of(job_id)}/graph", JobGraph)


def list_nodes(job_id: str, cursor: str | None = None, limit: int = PAGE, **filters: Any) -> Call[NodePage]:
    return _get(f"{_of(job_id)}/nodes", NodePage, cursor=cursor, limit=limit, **filters)


def get_node(job_id: str, node_id: str) -> Call[NodeView]:
    return _get(_of(job_id, node_id), NodeView)


def get_stored_value(job_id: str, sha256: str) -> Call[StoredValue]:
    return _get(f"{_of(job_id)}/payloads/{_part(sha256)}", StoredValue)


def get_timeline(job_id: str, after: int = 0, limit: int = 1_000) -> Call[Timeline]:
    return _get(f"{_of(job_id)}/timeline", Timeline, after=after, limit=limit)


def get_logs(
    job_id: str, node_id: str | None = None, *, since: datetime | None = None, cursor: str | None = None
) -> Call[LogPage]:
    return _get(f"{_of(job_id, node_id)}/logs", LogPage, since=since, cursor=cursor)


def stream_job(job_id: str) -> Call[StreamedEvent]:
    return _get(f"{_of(job_id)}/stream", StreamedEvent)


def stream_all(since: datetime | None = None, event_types: Sequence[str] = ()) -> Call[StreamedEvent]:
    return _get("events/stream", StreamedEvent, since=since, event_types=list(event_types))


def cancel(job_id: str, reason: str | None = None) -> Call[CommandAnswerBody]:
    return _post(f"{_of(job_id)}/cancel", CommandAnswerBody, CancelRequest(reason=reason), repeatable=False)


def rerun(job_id: str, body: RerunRequest) -> Call[RerunAnswer]:
    repeatable = body.dry_run or body.idempotency_key is not None
    return _post(f"{_of(job_id)}/rerun", RerunAnswer, body, repeatable=repeatable)


def retry_node(job_id: str, node_id: str) -> Call[CommandAnswerBody]:
    return _post(f"{_of(job_id, node_id)}/retry", CommandAnswerBody, None, repeatable=False)


def decide(job_id: str, node_id: str, body: Decision) -> Call[CommandAnswerBody]:
    return _post(f"{_of(job_id, node_id)}/decide", CommandAnswerBody, body, repeatable=False)


def list_approvals(cursor: str | None = None) -> Call[ApprovalPage]:
    return _get("approvals", ApprovalPage, cursor=cursor, limit=PAGE)


def list_workflows(
    cursor: str | None = None, text: str | None = None, *, retired_too: bool = False
) -> Call[WorkflowPage]:
    return _get("workflows", WorkflowPage, cursor=cursor, limit=PAGE, text=text, retired_too=retired_too)


def retire_workflow(workflow_id: str) -> Call[WorkflowSummary]:
    return _post(f"workflows/{_part(workflow_id)}/retire", WorkflowSummary, None)


def restore_workflow(workflow_id: str) -> Call[WorkflowSummary]:
    return _post(f"workflows/{_part(workflow_id)}/restore", WorkflowSummary, None)


def get_workflow(workflow_id: str, version: int | None = None) -> Call[WorkflowDetail]:
    return _get(f"workflows/{_part(workflow_id)}", WorkflowDetail, version=version)


def register(source: bytes, media_type: str = YAML) -> Call[Registration]:
    """Repeatable: the same content again is no new one."""
    return Call(
        "POST",
        "/api/v1/workflows",
        Registration,
        content=source,
        media_type=media_type,
        wait_seconds=CHECK_SECONDS,
    )


def validate(source: bytes, media_type: str = YAML) -> Call[WorkflowCheck]:
    return Call(
        "POST",
        "/api/v1/workflows/validate",
        WorkflowCheck,
        content=source,
        media_type=media_type,
        wait_seconds=CHECK_SECONDS,
    )


def preview_retention() -> Call[PrunePreview]:
    return _get("retention", PrunePreview)


def prune() -> Call[Pruned]:
    return _post("retention/prune", Pruned, None)


def read_quotas() -> Call[QuotaList]:
    return _get("quotas", QuotaList)


def change_quotas(namespace: str, quotas: Mapping[str, int | None]) -> Call[QuotaList]:
    return _post(f"quotas/{quote(namespace, safe='')}", QuotaList, QuotaChanges(quotas=dict(quotas)))


def list_queues() -> Call[QueueStatusList]:
    return _get("queues/status", QueueStatusList)


def list_workers() -> Call[WorkerList]:
    return _get("workers", WorkerList)


def list_orchestrators() -> Call[OrchestratorList]:
    return _get("orchestrators", OrchestratorList)


def drain_worker(worker_id: str) -> Call[DrainAnswer]:
    return _post(f"workers/{_part(worker_id)}/drain", DrainAnswer, None)


def drain_orchestrator(owner_id: str) -> Call[DrainAnswer]:
    return _post(f"orchestrators/{_part(owner_id)}/drain", DrainAnswer, None)


def list_dead_letters(cursor: str | None = None, **filters: Any) -> Call[DeadLetterPage]:
    return _get("dead-letters", DeadLetterPage, cursor=cursor, limit=PAGE, **filters)


def requeue(dead_letter_id: str) -> Call[Requeued]:
    return _post(f"dead-letters/{_part(dead_letter_id)}/requeue", Requeued, None, repeatable=False)


def discard(dead_letter_id: str) -> Call[Discarded]:
    return _post(f"dead-letters/{_part(dead_letter_id)}/discard", Discarded, None)


def list_callbacks(cursor: str | None = None, limit: int = PAGE, **filters: Any) -> Call[CallbackPage]:
    return _get("callbacks", CallbackPage, cursor=cursor, limit=limit, **filters)


def get_callback(callback_id: str) -> Call[CallbackView]:
    return _get(f"callbacks/{_part(callback_id)}", CallbackView)


def redeliver(callback_id: str) -> Call[CallbackView]:
    return _post(f"callbacks/{_part(callback_id)}/redeliver", CallbackView, None, repeatable=False)


def list_keys(cursor: str | None = None, *, dead_too: bool = False) -> Call[KeyPage]:
    return _get("keys", KeyPage, cursor=cursor, limit=PAGE, dead_too=dead_too)


def list_audit(cursor: str | None = None, *, action: str | None = None, subject: str | None = None) -> Call[AuditPage]:
    return _get("audit", AuditPage, cursor=cursor, limit=PAGE, action=action, subject=subject)


def create_key(body: KeyRequest) -> Call[KeyMade]:
    return _post("keys", KeyMade, body, repeatable=False)


def rotate_key(key_id: str, body: RotationRequest) -> Call[KeyMade]:
    return _post(f"keys/{_part(key_id)}/rotate", KeyMade, body, repeatable=False)


def revoke_key(key_id: str) -> Call[KeyView]:
    return _post(f"keys/{_part(key_id)}/revoke", KeyView, None)


def submit_request(body: WorkOrderBody) -> Call[OrderAccepted]:
    repeatable = body.request_id is not None or body.idempotency_key is not None
    return _post("submit", OrderAccepted, body, repeatable=repeatable)


def get_request(request_id: str) -> Call[RequestView]:
    return _get(f"requests/{_part(request_id)}", RequestView)


def list_assets(cursor: str | None = None, limit: int = PAGE, **filters: Any) -> Call[AssetPage]:
    return _get("assets", AssetPage, cursor=cursor, limit=limit, **filters)


def get_asset(asset_id: str) -> Call[AssetView]:
    return _get(f"assets/{_part(asset_id)}", AssetView)


def delete_asset(asset_id: str) -> Call[AssetView]:
    return Call("DELETE", f"/api/v1/assets/{_part(asset_id)}", AssetView)


def remove_item(collection_id: str, item_id: str, **query: Any) -> Call[CatalogueRemoval]:
    return Call("DELETE", f"{_items(collection_id)}/{_part(item_id)}", CatalogueRemoval, query)


def remove_items(collection_id: str, **query: Any) -> Call[CatalogueRemoval]:
    return Call("DELETE", _items(collection_id), CatalogueRemoval, query)


def rollback(asset_id: str, body: RollbackRequest) -> Call[RevisionView]:
    return _post(f"assets/{_part(asset_id)}/rollback", RevisionView, body, repeatable=False)


def list_revisions(asset_id: str, cursor: str | None = None, limit: int = PAGE) -> Call[RevisionPage]:
    return _get(f"assets/{_part(asset_id)}/revisions", RevisionPage, cursor=cursor, limit=limit)


def get_revision(asset_id: str, revision: int) -> Call[RevisionView]:
    return _get(_revision(asset_id, revision), RevisionView)


def list_blobs(asset_id: str, revision: int, cursor: str | None = None) -> Call[BlobPage]:
    return _get(f"{_revision(asset_id, revision)}/blobs", BlobPage, cursor=cursor, limit=PAGE)


def get_lineage(asset_id: str, revision: int) -> Call[Lineage]:
    return _get(f"{_revision(asset_id, revision)}/lineage", Lineage)


def _revision(asset_id: str, revision: int) -> str:
    return f"assets/{_part(asset_id)}/revisions/{revision}"


def _get(path: str, model: type[M], **query: Any) -> Call[M]:
    return Call("GET", f"/api/v1/{path}", model, query)


def _post(path: str, model: type[M], body: BaseModel | None, *, repeatable: bool = True) -> Call[M]:
    content = None if body is None else body.model_dump_json(exclude_defaults=True).encode()
    return Call("POST", f"/api/v1/{path}", model, content=content, repeatable=repeatable)


def _items(collection_id: str) -> str:
    return f"/api/v1/catalogue/{_part(collection_id)}/items"


def _of(job_id: str, node_id: str | None = None) -> str:
    return f"jobs/{_part(job_id)}" + ("" if node_id is None else f"/nodes/{_part(node_id)}")


def _part(text: str) -> str:
    """One segment of a path, whatever is in it; a server would read `.` and `..` as places."""
    return quote(text, safe="").replace(".", "%2E") if text.strip(".") == "" else quote(text, safe="")


def _written(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.isoformat() if isinstance(value, datetime) else str(value)
