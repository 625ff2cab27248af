"""Items of the catalogue, taken out by people."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query

from rmhdag.api.context import ApiContext
from rmhdag.api.identity import Caller, Operator
from rmhdag.models.api.catalogue import CatalogueRemoval
from rmhdag.store.catalogue_removals import remove_from_catalogue

router = APIRouter(prefix="/api/v1", tags=["catalogue"])

CollectionName = Annotated[
    str, Path(max_length=64, pattern=r"^[^\x00]+$", description="The id of a STAC collection", examples=["survey"])
]
ItemName = Annotated[
    str, Path(max_length=255, pattern=r"^[^\x00]+$", description="The id of an item of it", examples=["dem"])
]
Reason = Annotated[
    str | None, Query(max_length=1000, pattern=r"^[^\x00]*$", description="Why; kept in the audit records")
]
DryRun = Annotated[bool, Query(description="Only say what would be removed")]


@router.delete("/catalogue/{collection_id}/items/{item_id}")
def remove_item(
    collection_id: CollectionName,
    item_id: ItemName,
    caller: Operator,
    api: ApiContext,
    reason: Reason = None,
    dry_run: DryRun = False,
) -> CatalogueRemoval:
    """Remove an item from the catalogue; its files stay. 409 if it belongs to an asset."""
    return _remove(caller, api, collection_id, item_id, reason, dry_run)


@router.delete("/catalogue/{collection_id}/items")
def remove_items(
    collection_id: CollectionName, caller: Operator, api: ApiContext, reason: Reason = None, dry_run: DryRun = False
) -> CatalogueRemoval:
    """Remove all items of a collection from the catalogue, except those of assets; files stay."""
    return _remove(caller, api, collection_id, None, reason, dry_run)


def _remove(
    caller: Caller, api: ApiContext, collection_id: str, item_id: str | None, reason: str | None, dry_run: bool
) -> CatalogueRemoval:
    with api.connection() as conn:
        done = remove_from_catalogue(
            conn, caller.namespace, collection_id, item_id, actor=caller.name, reason=reason, dry_run=dry_run
        )
    return CatalogueRemoval(collection_id=collection_id, dry_run=dry_run, **done._asdict())
