"""Retention: what is old enough to be deleted, and deleting it now instead of within minutes."""

from __future__ import annotations

from fastapi import APIRouter

from rmhdag.api.context import ApiContext
from rmhdag.api.identity import PlatformOperator
from rmhdag.api.pruning import prune
from rmhdag.models.api.retention import Pruned, PrunePreview
from rmhdag.store.retention_preview import preview

router = APIRouter(prefix="/api/v1/retention", tags=["retention"])
# Well below what a client waits for.
PRUNE_SECONDS = 2.0


@router.get("", summary="What retention would delete now")
def preview_retention(caller: PlatformOperator, api: ApiContext) -> PrunePreview:
    """Rows by table, each with the reason, and the jobs that are old enough and have to stay. Nothing is changed."""
    with api.connection() as conn:
        return preview(conn, api.settings.retention)


@router.post("/prune", summary="Delete now what retention would delete")
def prune_now(caller: PlatformOperator, api: ApiContext) -> Pruned:
    """Delete for a few seconds; call it again while `has_more` is true. Orchestrators do the same by themselves."""
    with api.connection() as conn:
        return prune(conn, api.settings.schema_name, api.settings.retention, PRUNE_SECONDS)
