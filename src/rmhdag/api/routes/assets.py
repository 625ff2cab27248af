"""Assets and their revisions: list, show, roll back, delete."""

from __future__ import annotations

import re
from typing import Annotated, Any

import psycopg
from fastapi import APIRouter, Path, Query

from rmhdag.api.context import ApiContext
from rmhdag.api.identity import Caller, Operator, Reader
from rmhdag.api.pages import CursorParameter, read_cursor, write_cursor
from rmhdag.api.problems import Problem, not_found
from rmhdag.api.routes.jobs import moment, plain
from rmhdag.api.routes.requests import conflict
from rmhdag.api.views import assets as shown
from rmhdag.assets.identity import compose
from rmhdag.assets.revisions import AssetConflict
from rmhdag.models.api.assets import (
    AssetPage,
    AssetView,
    BlobPage,
    Lineage,
    RevisionPage,
    RevisionView,
    RollbackRequest,
)
from rmhdag.models.assets import AssetKind, ProcessingStatus
from rmhdag.models.columns import Name
from rmhdag.orchestrator.asset_commands import UnknownAssetError, delete_asset, roll_back
from rmhdag.store.asset_states import RevisionKey
from rmhdag.store.assets import AssetFilters

router = APIRouter(prefix="/api/v1", tags=["assets"])
Conn = psycopg.Connection[Any]

AN_ID = re.compile(r"[0-9a-f]{32}")
A_REFERENCE = r"^[^=\x00]{1,64}=[^\x00]{1,512}$"
LAST = 2**31 - 1
AssetName = Annotated[str, Path(description="The id of an asset", examples=["b8a9f715dbb64fd5c56e7783c6820a61"])]
RevisionName = Annotated[int, Path(ge=1, le=LAST, description="The number of a revision")]
Limit = Annotated[int, Query(ge=1, le=500)]


@router.get("/assets")
def list_assets(
    caller: Reader,
    api: ApiContext,
    platform_id: Annotated[Name | None, Query()] = None,
    kind: Annotated[AssetKind | None, Query()] = None,
    processing_status: Annotated[ProcessingStatus | None, Query()] = None,
    ref: Annotated[
        list[Annotated[str, Query(pattern=A_REFERENCE)]] | None,
        Query(max_length=20, description="`name=value`, as the platform calls it; all that are given must fit"),
    ] = None,
    deleted_too: Annotated[bool, Query(description="Also those that were deleted")] = False,
    cursor: CursorParameter = None,
    limit: Limit = 50,
) -> AssetPage:
    """Assets, newest first."""
    filters = AssetFilters(
        platform_id=platform_id,
        kind=kind,
        processing_status=processing_status,
        refs=None if ref is None else dict(_reference(one) for one in ref),
        deleted_too=deleted_too,
        before=read_cursor(cursor, lambda created_at, asset_id: (moment(created_at), plain(asset_id))),
        limit=limit + 1,
    )
    with api.connection() as conn:
        found = shown.page_of_assets(conn, caller.namespace, filters)
    page = found[:limit]
    more = len(found) > limit
    return AssetPage(assets=page, next_cursor=write_cursor(page[-1].created_at, page[-1].asset_id) if more else None)


@router.get("/assets/{asset_id}")
def get_asset(asset_id: AssetName, caller: Reader, api: ApiContext) -> AssetView:
    """An asset with its current revision; also one that was deleted."""
    with api.connection() as conn:
        return _find(conn, caller, asset_id)


@router.delete("/assets/{asset_id}")
def remove_asset(asset_id: AssetName, caller: Operator, api: ApiContext) -> AssetView:
    """No longer show it, nor its catalogue record; files and history stay, and a new submission brings it back."""
    with api.connection() as conn:
        _find(conn, caller, asset_id)
        try:
            delete_asset(conn, caller.namespace, asset_id, issued_by=caller.name)
        except AssetConflict as error:
            raise conflict(error) from None
        return _find(conn, caller, asset_id)


@router.post("/assets/{asset_id}/rollback", status_code=201)
def rollback_asset(asset_id: AssetName, body: RollbackRequest, caller: Operator, api: ApiContext) -> RevisionView:
    """Go back to an earlier revision, as a new one with the same content. 409 if it is not completed, or current."""
    with api.connection() as conn:
        try:
            if not AN_ID.fullmatch(asset_id):
                raise UnknownAssetError(asset_id)
            number = roll_back(conn, caller.namespace, asset_id, body.revision, issued_by=caller.name)
        except UnknownAssetError:
            raise no_asset(asset_id) from None
        except AssetConflict as error:
            raise conflict(error) from None
        return _find_revision(conn, caller, asset_id, number)


@router.get("/assets/{asset_id}/revisions")
def list_revisions(
    asset_id: AssetName, caller: Reader, api: ApiContext, cursor: CursorParameter = None, limit: Limit = 50
) -> RevisionPage:
    """Its revisions, newest first."""
    before = read_cursor(cursor, _number)
    with api.connection() as conn:
        _find(conn, caller, asset_id)
        found = shown.page_of_revisions(conn, caller.namespace, asset_id, before=before, limit=limit + 1)
    page = found[:limit]
    return RevisionPage(revisions=page, next_cursor=write_cursor(page[-1].revision) if len(found) > limit else None)


@router.get("/assets/{asset_id}/revisions/{revision}")
def get_revision(asset_id: AssetName, revision: RevisionName, caller: Reader, api: ApiContext) -> RevisionView:
    """One revision with its outputs and its footprint."""
    with api.connection() as conn:
        return _find_revision(conn, caller, asset_id, revision)


@router.get("/assets/{asset_id}/revisions/{revision}/blobs")
def list_blobs(
    asset_id: AssetName,
    revision: RevisionName,
    caller: Reader,
    api: ApiContext,
    cursor: CursorParameter = None,
    limit: Limit = 50,
) -> BlobPage:
    """The files of a revision, each with its size and hash."""
    after = read_cursor(cursor, plain)
    with api.connection() as conn:
        _find_revision(conn, caller, asset_id, revision)
        key = RevisionKey(caller.namespace, asset_id, revision)
        found = shown.page_of_blobs(conn, key, after=after or "", limit=limit + 1)
    page = found[:limit]
    return BlobPage(blobs=page, next_cursor=write_cursor(page[-1].blob_id) if len(found) > limit else None)


@router.get("/assets/{asset_id}/revisions/{revision}/lineage")
def get_lineage(asset_id: AssetName, revision: RevisionName, caller: Reader, api: ApiContext) -> Lineage:
    """What a revision was made from, and what was made from it."""
    with api.connection() as conn:
        _find_revision(conn, caller, asset_id, revision)
        return shown.read_lineage(conn, RevisionKey(caller.namespace, asset_id, revision))


def _find(conn: Conn, caller: Caller, asset_id: str) -> AssetView:
    found = shown.read_asset(conn, caller.namespace, asset_id) if AN_ID.fullmatch(asset_id) else None
    if found is None:
        raise no_asset(asset_id)
    return found


def _find_revision(conn: Conn, caller: Caller, asset_id: str, revision: int) -> RevisionView:
    known = AN_ID.fullmatch(asset_id)
    found = shown.read_revision(conn, RevisionKey(caller.namespace, asset_id, revision)) if known else None
    if found is None:
        raise not_found(
            f"revision {revision} of asset {asset_id!r}", remedy="`GET /api/v1/assets` lists assets with their newest."
        )
    return found


def no_asset(asset_id: str) -> Problem:
    return not_found(f"asset {asset_id!r}", remedy="`GET /api/v1/assets` lists them.")


def _reference(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return compose(name), compose(value)


def _number(place: Any) -> int:
    if not isinstance(place, int) or isinstance(place, bool) or not 1 <= place <= LAST:
        raise ValueError(place)
    return place
