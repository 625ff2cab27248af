"""Orders and assets, for both sides of the client."""

from __future__ import annotations

from collections.abc import Mapping
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
    WorkOrderBody,
)
from rmhdag.models.api.catalogue import CatalogueRemoval


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
        submitted_by: str | None = None,
    ) -> Steps[OrderAccepted]:
        """Order work for a platform. A request id is made if none is given, so that it may be sent again.

        Raises Conflict if the asset is being processed with other parameters; `supersede` cancels that.
        """
        given = {
            "workflow_id": workflow,
            "input_params": dict(params or {}),
            "platform_id": platform_id,
            "platform_refs": None if platform_refs is None else dict(platform_refs),
            "request_id": request_id or (None if idempotency_key else str(uuid4())),
            "callback_url": callback_url,
            "priority": priority,
            "idempotency_key": idempotency_key,
            "supersede": supersede,
            "submitted_by": submitted_by,
        }
        return (yield from ask(calls.submit_request(checked(WorkOrderBody, given))))

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
        refs: Mapping[str, str] | None = None,
        deleted_too: bool = False,
    ) -> Items[AssetSummary]:
        """Assets, newest first, page after page."""
        filters: dict[str, Any] = {
            "platform_id": platform_id,
            "kind": kind,
            "processing_status": processing_status,
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
