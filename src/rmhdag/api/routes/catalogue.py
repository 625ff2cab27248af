"""Items of the catalogue, taken out by people."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query

from rmhdag.api.context import ApiContext
from rmhdag.api.identity import Caller, Operator
from rmhdag.api.problems import Problem, not_found
from rmhdag.models.api.catalogue import CatalogueRemoval
from rmhdag.store.catalogue_removals import NotInCatalogue, ShownByAsset, remove_from_catalogue

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
    """Take an item out of the catalogue; its files stay. 409 if an asset shows it."""
    return _remove(caller, api, collection_id, item_id, reason, dry_run)


@router.delete("/catalogue/{collection_id}/items")
def remove_items(
    collection_id: CollectionName, caller: Operator, api: ApiContext, reason: Reason = None, dry_run: DryRun = False
) -> CatalogueRemoval:
    """Take all items of a collection out of the catalogue, but for those that assets show; files stay."""
    return _remove(caller, api, collection_id, None, reason, dry_run)


def _remove(
    caller: Caller, api: ApiContext, collection_id: str, item_id: str | None, reason: str | None, dry_run: bool
) -> CatalogueRemoval:
    with api.connection() as conn:
        try:
            done = remove_from_catalogue(
                conn, caller.namespace, collection_id, item_id, actor=caller.name, reason=reason, dry_run=dry_run
            )
        except NotInCatalogue:
            what = f"collection {collection_id!r}" if item_id is None else f"item {item_id!r} in {collection_id!r}"
            raise not_found(what) from None
        except ShownByAsset as error:
            remedy = f"Delete the asset (`DELETE /api/v1/assets/{error.asset_id}`), or roll it back."
            raise Problem(409, "shown_by_asset", str(error), remedy=remedy) from None
    return CatalogueRemoval(collection_id=collection_id, dry_run=dry_run, **done._asdict())
