"""Orders and assets, for both sides of the client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid4

from rmhdag.client import calls
from rmhdag.client.bodies import checked
from rmhdag.client.sides import Iteration, Operation
from rmhdag.client.steps import Items, Steps, ask, pages
from rmhdag.models.api.assets import (
    AssetSummary,
    AssetView,
    BlobView,
    Lineage,
    OrderAccepted,
    RequestView,
    RevisionSummary,
    RevisionView,
    RollbackRequest,
    UnpublishAnswer,
    UnpublishingView,
    UnpublishRequest,
    WorkOrderBody,
)
from rmhdag.models.api.catalogue import CatalogueRemoval
from rmhdag.models.api.platforms import PlatformBody, PlatformView
from rmhdag.models.api.previews import OrderPreview
from rmhdag.models.api.reviews import Approval, ClearanceChange, DecisionView, Rejection, ReviewView, Revocation
from rmhdag.models.reviews import ReviewStep


class AssetOperations:
    @Operation
    def submit_request(
        self,
        workflow: str,
        params: Mapping[str, Any] | None = None,
        /,
        *,
        platform_id: str | None = None,
        platform_refs: Mapping[str, str] | None = None,
        request_id: str | None = None,
        callback_url: str | None = None,
        priority: int = 0,
        idempotency_key: str | None = None,
        supersede: bool = False,
        previous_version: str | None = None,
        submitted_by: str | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> Steps[OrderAccepted]:
        """Order work for a platform. A request id is made if none is given, so that it may be sent again.

        Raises Conflict if the asset is being processed with other parameters, which `supersede` cancels; and if it
        serves another version than `previous_version`.
        """
        fields = {
            "workflow_id": workflow,
            "input_params": dict(params or {}),
            "platform_id": platform_id,
            "platform_refs": None if platform_refs is None else dict(platform_refs),
            "request_id": request_id or (None if idempotency_key else str(uuid4())),
            "callback_url": callback_url,
            "priority": priority,
            "idempotency_key": idempotency_key,
            "supersede": supersede,
            "previous_version": previous_version,
            "submitted_by": submitted_by,
            "labels": dict(labels or {}),
        }
        return (yield from ask(calls.submit_request(checked(WorkOrderBody, fields))))

    @Operation
    def preview_request(
        self,
        workflow: str,
        params: Mapping[str, Any] | None = None,
        /,
        *,
        platform_id: str | None = None,
        platform_refs: Mapping[str, str] | None = None,
        **options: Any,
    ) -> Steps[OrderPreview]:
        """What `submit_request` would do; nothing is created. `options` are its other arguments."""
        fields = {
            "workflow_id": workflow,
            "input_params": dict(params or {}),
            "platform_id": platform_id,
            "platform_refs": None if platform_refs is None else dict(platform_refs),
            **options,
        }
        return (yield from ask(calls.preview_request(checked(WorkOrderBody, fields))))

    @Operation
    def request(self, request_id: str) -> Steps[RequestView]:
        """How an order stands."""
        return (yield from ask(calls.get_request(request_id)))

    @Iteration
    def assets(
        self,
        *,
        platform_id: str | None = None,
        kind: str | None = None,
        processing_status: str | None = None,
        approval_state: str | None = None,
        refs: Mapping[str, str] | None = None,
        deleted_too: bool = False,
    ) -> Items[AssetSummary]:
        """Assets, newest first, page after page."""
        filters: dict[str, Any] = {
            "platform_id": platform_id,
            "kind": kind,
            "processing_status": processing_status,
            "approval_state": approval_state,
            "ref": [f"{name}={value}" for name, value in (refs or {}).items()],
            "deleted_too": deleted_too,
        }
        yield from pages(lambda cursor: calls.list_assets(cursor, **filters), lambda page: page.assets)

    @Operation
    def asset(self, asset_id: str) -> Steps[AssetView]:
        """One asset with its current revision."""
        return (yield from ask(calls.get_asset(asset_id)))

    @Iteration
    def revisions(self, asset_id: str) -> Items[RevisionSummary]:
        """Its revisions, newest first."""
        yield from pages(lambda cursor: calls.list_revisions(asset_id, cursor), lambda page: page.revisions)

    @Operation
    def revision(self, asset_id: str, revision: int) -> Steps[RevisionView]:
        """One revision with its outputs and its footprint."""
        return (yield from ask(calls.get_revision(asset_id, revision)))

    @Iteration
    def blobs(self, asset_id: str, revision: int) -> Items[BlobView]:
        """The files of a revision."""
        yield from pages(lambda cursor: calls.list_blobs(asset_id, revision, cursor), lambda page: page.blobs)

    @Operation
    def lineage(self, asset_id: str, revision: int) -> Steps[Lineage]:
        """What a revision was made from, and what was made from it."""
        return (yield from ask(calls.get_lineage(asset_id, revision)))

    @Operation
    def rollback(self, asset_id: str, revision: int) -> Steps[RevisionView]:
        """Go back to an earlier revision, as a new one with its content."""
        return (yield from ask(calls.rollback(asset_id, checked(RollbackRequest, {"revision": revision}))))

    @Iteration
    def reviews(self) -> Items[ReviewView]:
        """Revisions that wait for a reviewer, longest first."""
        yield from pages(calls.list_reviews, lambda page: page.reviews)

    @Operation
    def approve(
        self, asset_id: str, revision: int, *, content_hash: str, clearance: str, reason: str | None = None
    ) -> Steps[DecisionView]:
        """Let a revision be served, as `public` or `restricted`. Raises Conflict if its content is another by now."""
        fields = {"content_hash": content_hash, "clearance": clearance, "reason": reason}
        body = checked(Approval, fields)
        return (yield from ask(calls.decide_revision(asset_id, revision, ReviewStep.APPROVE, body)))

    @Operation
    def reject(self, asset_id: str, revision: int, *, content_hash: str, reason: str) -> Steps[DecisionView]:
        """A revision will never be served."""
        body = checked(Rejection, {"content_hash": content_hash, "reason": reason})
        return (yield from ask(calls.decide_revision(asset_id, revision, ReviewStep.REJECT, body)))

    @Operation
    def revoke(self, asset_id: str, revision: int, *, content_hash: str, reason: str) -> Steps[DecisionView]:
        """Take an approval back; the newest revision that is still approved is served again, or none."""
        body = checked(Revocation, {"content_hash": content_hash, "reason": reason})
        return (yield from ask(calls.decide_revision(asset_id, revision, ReviewStep.REVOKE, body)))

    @Operation
    def clear(
        self, asset_id: str, revision: int, *, content_hash: str, reason: str | None = None
    ) -> Steps[DecisionView]:
        """Make approved content public that was restricted."""
        body = checked(ClearanceChange, {"content_hash": content_hash, "reason": reason})
        return (yield from ask(calls.decide_revision(asset_id, revision, ReviewStep.CLEAR, body)))

    @Operation
    def platforms(self) -> Steps[list[PlatformView]]:
        """Platforms that may order in the namespace, by id."""
        return (yield from ask(calls.list_platforms())).platforms

    @Operation
    def platform(self, platform_id: str) -> Steps[PlatformView]:
        """One platform: its references, its version label, its review."""
        return (yield from ask(calls.get_platform(platform_id)))

    @Operation
    def set_platform(
        self,
        platform_id: str,
        identity_refs: Sequence[str],
        *,
        optional_refs: Sequence[str] = (),
        version_ref: str | None = None,
        review: str = "none",
        active: bool = True,
    ) -> Steps[PlatformView]:
        """Register a platform, or replace its definition. Raises Conflict if its assets would not be found any more."""
        fields = {
            "identity_refs": list(identity_refs),
            "optional_refs": list(optional_refs),
            "version_ref": version_ref,
            "review": review,
            "active": active,
        }
        return (yield from ask(calls.set_platform(platform_id, checked(PlatformBody, fields))))

    @Operation
    def deactivate_platform(self, platform_id: str) -> Steps[PlatformView]:
        """Take no more orders of a platform; its assets stay."""
        return (yield from ask(calls.deactivate_platform(platform_id)))

    @Operation
    def remove_item(
        self, collection_id: str, item_id: str, *, reason: str | None = None, dry_run: bool = False
    ) -> Steps[CatalogueRemoval]:
        """Take an item out of the catalogue; its files stay. Raises Conflict if an asset shows it."""
        return (yield from ask(calls.remove_item(collection_id, item_id, reason=reason, dry_run=dry_run)))

    @Operation
    def remove_items(
        self, collection_id: str, *, reason: str | None = None, dry_run: bool = False
    ) -> Steps[CatalogueRemoval]:
        """Take all items of a collection out of the catalogue, but for those that assets show."""
        return (yield from ask(calls.remove_items(collection_id, reason=reason, dry_run=dry_run)))

    @Operation
    def delete_asset(self, asset_id: str) -> Steps[AssetView]:
        """No longer show it; a new order brings it back."""
        return (yield from ask(calls.delete_asset(asset_id)))

    @Operation
    def unpublish(
        self,
        asset_id: str,
        revision: int | None = None,
        *,
        dry_run: bool = True,
        force: bool = False,
        reason: str | None = None,
    ) -> Steps[UnpublishAnswer]:
        """Delete the files of a revision, or of all, and never serve it again; by default only tell what would go.

        Raises Conflict for approved content without `force`.
        """
        fields = {"revision": revision, "dry_run": dry_run, "force": force, "reason": reason}
        return (yield from ask(calls.unpublish(asset_id, checked(UnpublishRequest, fields))))

    @Iteration
    def unpublishings(self, asset_id: str) -> Items[UnpublishingView]:
        """What was unpublished of an asset, and previews that workflows asked for, newest first."""
        yield from pages(lambda cursor: calls.list_unpublishings(asset_id, cursor), lambda page: page.unpublishings)
