"""Every call of the API that the client makes: method, path, body, and the model of the answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from pydantic import BaseModel

from rmhdag.client.call import Call
from rmhdag.client.call import get as _get
from rmhdag.client.call import post as _post
from rmhdag.client.call import put as _put
from rmhdag.client.call import segment as _part
from rmhdag.models.api.about import About
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
    UnpublishAnswer,
    UnpublishingPage,
    UnpublishRequest,
    WorkOrderBody,
)
from rmhdag.models.api.attention import Attention, Pulse
from rmhdag.models.api.audit import AuditPage
from rmhdag.models.api.callbacks import CallbackPage, CallbackView
from rmhdag.models.api.catalogue import CatalogueRemoval
from rmhdag.models.api.children import FanOutChildren
from rmhdag.models.api.clients import (
    ClientChanges,
    ClientPage,
    ClientView,
    IdentityList,
    IdentityRequest,
    IdentityView,
)
from rmhdag.models.api.dashboard import Dashboard
from rmhdag.models.api.health import Health
from rmhdag.models.api.jobs import (
    BatchAnswers,
    CancelRequest,
    CommandAnswerBody,
    JobBatch,
    JobCounts,
    JobLabels,
    JobPage,
    JobSubmission,
    JobView,
    LabelChanges,
    RerunAnswer,
    RerunRequest,
    SubmissionRequest,
)
from rmhdag.models.api.keys import KeyMade, KeyPage, KeyRequest, KeyView, Me, RotationRequest
from rmhdag.models.api.log_lines import LogLines, LogMatches
from rmhdag.models.api.maps import ContainerList, FileContent, FolderView, FootprintPage, ItemPage
from rmhdag.models.api.nodes import Decision, JobGraph, LogPage, NodePage, NodeView, StoredValue
from rmhdag.models.api.overviews import JobOverview
from rmhdag.models.api.platforms import PlatformBody, PlatformList, PlatformView
from rmhdag.models.api.previews import JobPreview, OrderPreview
from rmhdag.models.api.processes import DrainAnswer, OrchestratorList, WorkerList
from rmhdag.models.api.progress import JobProgress
from rmhdag.models.api.promoted import Gallery, GalleryOrder, PromotedPage, PromotedView, PromotionRequest
from rmhdag.models.api.queues import DeadLetterPage, Discarded, QueueStatusList, Requeued
from rmhdag.models.api.quotas import QuotaChanges, QuotaList
from rmhdag.models.api.retention import Pruned, PrunePreview
from rmhdag.models.api.reviews import DecisionView, ReviewPage
from rmhdag.models.api.search import SearchHits
from rmhdag.models.api.services import (
    ServiceCallPage,
    ServiceCallView,
    ServiceDeleted,
    ServiceList,
    ServicePutAnswer,
    ServiceRequest,
    ServiceView,
)
from rmhdag.models.api.timeline import StreamedEvent, Timeline
from rmhdag.models.api.workflows import (
    JobDefinition,
    Registration,
    WorkflowCheck,
    WorkflowDetail,
    WorkflowPage,
    WorkflowSummary,
)
from rmhdag.models.reviews import ReviewStep

YAML = "application/yaml"
# The largest workflow takes some seconds to check.
CHECK_SECONDS = 10
PAGE = 500
# Items are large.
ITEM_PAGE = 100


def me() -> Call[Me]:
    return _get("me", Me)


def health() -> Call[Health]:
    return Call("GET", "/api/v1/health", Health, accepts=frozenset({503}))


def about() -> Call[About]:
    return _get("about", About)


def submit(body: JobSubmission) -> Call[JobView]:
    return _post("jobs", JobView, body, repeatable=body.idempotency_key is not None)


def preview(body: SubmissionRequest) -> Call[JobPreview]:
    return _post("jobs", JobPreview, body.model_copy(update={"dry_run": True}))


def submit_batch(bodies: Sequence[JobSubmission]) -> Call[BatchAnswers]:
    batch = JobBatch(jobs=[body.model_dump(mode="json", exclude_defaults=True) for body in bodies])
    return _post("jobs/batch", BatchAnswers, batch, repeatable=all(body.idempotency_key for body in bodies))


def list_jobs(cursor: str | None = None, limit: int = PAGE, **filters: Any) -> Call[JobPage]:
    return _get("jobs", JobPage, cursor=cursor, limit=limit, **filters)


def get_job(job_id: str) -> Call[JobView]:
    return _get(_of(job_id), JobView)


def get_overview(job_id: str, *, reasons: bool = False, progress: bool = False) -> Call[JobOverview]:
    return _get(f"{_of(job_id)}/overview", JobOverview, reasons=reasons, progress=progress)


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


def get_children(job_id: str, node_id: str, first: int = 0, keys: bool = False) -> Call[FanOutChildren]:
    return _get(f"{_of(job_id, node_id)}/children", FanOutChildren, first=first, keys=keys)


def get_log_lines(job_id: str, **filters: Any) -> Call[LogLines]:
    return _get(f"{_of(job_id)}/logs/lines", LogLines, **filters)


def find_in_logs(job_id: str, text: str, **filters: Any) -> Call[LogMatches]:
    return _get(f"{_of(job_id)}/logs/matches", LogMatches, text=text, **filters)


def get_definition(job_id: str) -> Call[JobDefinition]:
    return _get(f"{_of(job_id)}/definition", JobDefinition)


def stream_job(job_id: str) -> Call[StreamedEvent]:
    return _get(f"{_of(job_id)}/stream", StreamedEvent)


def stream_all(since: datetime | None = None, event_types: Sequence[str] = ()) -> Call[StreamedEvent]:
    return _get("events/stream", StreamedEvent, since=since, event_types=list(event_types))


def label_job(job_id: str, body: LabelChanges) -> Call[JobLabels]:
    return _post(f"{_of(job_id)}/labels", JobLabels, body)


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


def list_clients(cursor: str | None = None) -> Call[ClientPage]:
    return _get("clients", ClientPage, cursor=cursor, limit=PAGE)


def get_client(client_id: str) -> Call[ClientView]:
    return _get(f"clients/{_part(client_id)}", ClientView)


def change_client(client_id: str, body: ClientChanges) -> Call[ClientView]:
    return _post(f"clients/{_part(client_id)}", ClientView, body)


def list_client_identities(client_id: str) -> Call[IdentityList]:
    return _get(f"clients/{_part(client_id)}/identities", IdentityList)


def bind_client(client_id: str, body: IdentityRequest) -> Call[IdentityView]:
    return _post(f"clients/{_part(client_id)}/identities", IdentityView, body, repeatable=False)


def unbind_client(client_id: str, identity_id: str) -> Call[IdentityView]:
    path = f"/api/v1/clients/{_part(client_id)}/identities/{_part(identity_id)}"
    return Call("DELETE", path, IdentityView, repeatable=False)


def read_quotas() -> Call[QuotaList]:
    return _get("quotas", QuotaList)


def change_quotas(namespace: str, quotas: Mapping[str, int | None]) -> Call[QuotaList]:
    return _post(f"quotas/{_part(namespace)}", QuotaList, QuotaChanges(quotas=dict(quotas)))


def search(text: str) -> Call[SearchHits]:
    return _get("search", SearchHits, q=text)


def get_attention(hours: int) -> Call[Attention]:
    return _get("attention", Attention, hours=hours)


def get_pulse(hours: int) -> Call[Pulse]:
    return _get("pulse", Pulse, hours=hours)


def get_dashboard(hours: int, bucket_minutes: int) -> Call[Dashboard]:
    return _get("dashboard", Dashboard, hours=hours, bucket_minutes=bucket_minutes)


def count_jobs(**filters: Any) -> Call[JobCounts]:
    return _get("jobs/counts", JobCounts, **filters)


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


def preview_request(body: WorkOrderBody) -> Call[OrderPreview]:
    return _post("submit", OrderPreview, body.model_copy(update={"dry_run": True}))


def get_request(request_id: str) -> Call[RequestView]:
    return _get(f"requests/{_part(request_id)}", RequestView)


def list_assets(cursor: str | None = None, limit: int = PAGE, **filters: Any) -> Call[AssetPage]:
    return _get("assets", AssetPage, cursor=cursor, limit=limit, **filters)


def get_asset(asset_id: str) -> Call[AssetView]:
    return _get(f"assets/{_part(asset_id)}", AssetView)


def delete_asset(asset_id: str) -> Call[AssetView]:
    return Call("DELETE", f"/api/v1/assets/{_part(asset_id)}", AssetView)


def list_platforms() -> Call[PlatformList]:
    return _get("platforms", PlatformList)


def get_platform(platform_id: str) -> Call[PlatformView]:
    return _get(f"platforms/{_part(platform_id)}", PlatformView)


def set_platform(platform_id: str, body: PlatformBody) -> Call[PlatformView]:
    content = body.model_dump_json(exclude_defaults=True).encode()
    return Call("PUT", f"/api/v1/platforms/{_part(platform_id)}", PlatformView, content=content)


def deactivate_platform(platform_id: str) -> Call[PlatformView]:
    return _post(f"platforms/{_part(platform_id)}/deactivate", PlatformView, None)


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


def list_revision_items(asset_id: str, revision: int, cursor: str | None = None) -> Call[ItemPage]:
    return _get(f"{_revision(asset_id, revision)}/items", ItemPage, cursor=cursor, limit=ITEM_PAGE)


def list_job_items(job_id: str, cursor: str | None = None) -> Call[ItemPage]:
    return _get(f"{_of(job_id)}/items", ItemPage, cursor=cursor, limit=ITEM_PAGE)


def list_job_files(job_id: str, cursor: str | None = None) -> Call[BlobPage]:
    return _get(f"{_of(job_id)}/files", BlobPage, cursor=cursor, limit=PAGE)


def get_file(blob_id: str) -> Call[FileContent]:
    return _get(f"files/{_part(blob_id)}", FileContent)


def list_footprints(cursor: str | None = None, **filters: Any) -> Call[FootprintPage]:
    return _get("footprints", FootprintPage, cursor=cursor, limit=PAGE, **filters)


def list_containers(zone: str) -> Call[ContainerList]:
    return _get(f"storage/{_part(zone)}", ContainerList)


def list_folder(zone: str, container: str, folder: str = "") -> Call[FolderView]:
    return _get(f"storage/{_part(zone)}/{_part(container)}", FolderView, folder=folder or None)


def list_reviews(cursor: str | None = None) -> Call[ReviewPage]:
    return _get("reviews", ReviewPage, cursor=cursor, limit=PAGE)


def decide_revision(asset_id: str, revision: int, step: ReviewStep, body: BaseModel) -> Call[DecisionView]:
    return _post(f"{_revision(asset_id, revision)}/{step}", DecisionView, body, repeatable=False)


def unpublish(asset_id: str, body: UnpublishRequest) -> Call[UnpublishAnswer]:
    return _post(f"assets/{_part(asset_id)}/unpublish", UnpublishAnswer, body)


def list_unpublishings(asset_id: str, cursor: str | None = None) -> Call[UnpublishingPage]:
    return _get(f"assets/{_part(asset_id)}/unpublishings", UnpublishingPage, cursor=cursor, limit=PAGE)


def list_services() -> Call[ServiceList]:
    return _get("services", ServiceList)


def get_service(name: str) -> Call[ServiceView]:
    return _get(f"services/{_part(name)}", ServiceView)


def put_service(name: str, body: ServiceRequest) -> Call[ServicePutAnswer]:
    """Not repeatable: a generated secret is shown once."""
    return _put(f"services/{_part(name)}", ServicePutAnswer, body, repeatable=False)


def delete_service(name: str) -> Call[ServiceDeleted]:
    return Call("DELETE", f"/api/v1/services/{_part(name)}", ServiceDeleted, repeatable=False)


def list_service_calls(name: str, cursor: str | None = None, **filters: Any) -> Call[ServiceCallPage]:
    return _get(f"services/{_part(name)}/calls", ServiceCallPage, cursor=cursor, limit=PAGE, **filters)


def retry_service_call(name: str, call_id: str) -> Call[ServiceCallView]:
    path = f"services/{_part(name)}/calls/{_part(call_id)}/retry"
    return _post(path, ServiceCallView, None, repeatable=False)


def list_promoted(cursor: str | None = None, **filters: Any) -> Call[PromotedPage]:
    return _get("promoted", PromotedPage, cursor=cursor, limit=PAGE, **filters)


def get_promoted(promoted_id: str) -> Call[PromotedView]:
    return _get(f"promoted/{_part(promoted_id)}", PromotedView)


def promote(promoted_id: str, body: PromotionRequest) -> Call[PromotedView]:
    return _put(f"promoted/{_part(promoted_id)}", PromotedView, body)


def demote(promoted_id: str, *, confirm_system: bool = False) -> Call[PromotedView]:
    query = {"confirm_system": confirm_system}
    return Call("DELETE", f"/api/v1/promoted/{_part(promoted_id)}", PromotedView, query, repeatable=False)


def get_gallery(*, outside: bool = False) -> Call[Gallery]:
    return _get("promoted-gallery", Gallery, outside=outside)


def order_gallery(body: GalleryOrder) -> Call[Gallery]:
    return _post("promoted-gallery", Gallery, body)


def _revision(asset_id: str, revision: int) -> str:
    return f"assets/{_part(asset_id)}/revisions/{revision}"


def _items(collection_id: str) -> str:
    return f"/api/v1/catalogue/{_part(collection_id)}/items"


def _of(job_id: str, node_id: str | None = None) -> str:
    return f"jobs/{_part(job_id)}" + ("" if node_id is None else f"/nodes/{_part(node_id)}")
