"""Assets and their revisions: list, show, roll back, delete."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query

from rmhdag.api.context import ApiContext
from rmhdag.api.identity import Caller, Operator, Reader
from rmhdag.api.pages import CursorParameter, read_cursor, write_cursor
from rmhdag.api.problems import not_found
from rmhdag.api.routes.jobs import moment, plain
from rmhdag.assets.identity import Platforms, compose
from rmhdag.models.api.assets import (
    AssetPage,
    AssetView,
    BlobPage,
    Lineage,
    RevisionPage,
    RevisionView,
    RollbackRequest,
    UnpublishAnswer,
    UnpublishingPage,
    UnpublishRequest,
)
from rmhdag.models.assets import ApprovalState, AssetKind, ProcessingStatus
from rmhdag.models.columns import Name
from rmhdag.services.asset_commands import UnknownAssetError, delete_asset, roll_back
from rmhdag.services.unpublishing import preview_unpublishing, unpublish
from rmhdag.store import assets, unpublishing
from rmhdag.store.assets import AssetFilters, VersionFilter
from rmhdag.store.batch_rows import RevisionKey
from rmhdag.store.connection import Conn
from rmhdag.store.unpublishing import Unpublish, Unpublished
from rmhdag.views import assets as shown
from rmhdag.views.unpublishing import answer_of

router = APIRouter(prefix="/api/v1", tags=["assets"])

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
    approval_state: Annotated[
        ApprovalState | None, Query(description="Of the newest revision that is under review, or has been")
    ] = None,
    ref: Annotated[
        list[Annotated[str, Query(pattern=A_REFERENCE)]] | None,
        Query(max_length=20, description="`name=value`, as the platform calls it; all that are given must fit"),
    ] = None,
    deleted_too: Annotated[bool, Query(description="Also those that were deleted")] = False,
    cursor: CursorParameter = None,
    limit: Limit = 50,
) -> AssetPage:
    """Assets, newest first."""
    refs = None if ref is None else dict(_reference(text) for text in ref)
    filters = AssetFilters(
        platform_id=platform_id,
        kind=kind,
        processing_status=processing_status,
        approval_state=approval_state,
        refs=refs,
        deleted_too=deleted_too,
        before=read_cursor(cursor, lambda created_at, asset_id: (moment(created_at), plain(asset_id))),
        limit=limit + 1,
    )
    with api.connection() as conn:
        if refs:
            filters = with_versions(filters, refs, api.platforms.read(conn, caller.namespace))
        lines = assets.list_assets(conn, caller.namespace, filters)
    page = lines[:limit]
    more = len(lines) > limit
    return AssetPage(assets=page, next_cursor=write_cursor(page[-1].created_at, page[-1].asset_id) if more else None)


@router.get("/assets/{asset_id}")
def get_asset(asset_id: AssetName, caller: Reader, api: ApiContext) -> AssetView:
    """An asset with its current revision; also one that was deleted."""
    with api.connection() as conn:
        return _find(conn, caller, asset_id)


@router.delete("/assets/{asset_id}")
def remove_asset(asset_id: AssetName, caller: Operator, api: ApiContext) -> AssetView:
    """Delete an asset and its catalogue record; files and history stay, and a new submission restores it."""
    with api.connection() as conn:
        _find(conn, caller, asset_id)
        delete_asset(conn, caller.namespace, asset_id, issued_by=caller.name)
        return _find(conn, caller, asset_id)


@router.post("/assets/{asset_id}/rollback", status_code=201)
def rollback_asset(asset_id: AssetName, body: RollbackRequest, caller: Operator, api: ApiContext) -> RevisionView:
    """Restore an earlier revision, as a new one with the same content. 409 if it is not completed, or is current."""
    with api.connection() as conn:
        if not AN_ID.fullmatch(asset_id):
            raise UnknownAssetError(asset_id)
        number = roll_back(conn, caller.namespace, asset_id, body.revision, issued_by=caller.name)
        return _find_revision(conn, caller, asset_id, number)


@router.post("/assets/{asset_id}/unpublish")
def unpublish_asset(asset_id: AssetName, body: UnpublishRequest, caller: Operator, api: ApiContext) -> UnpublishAnswer:
    """Delete the files of a revision, or of all, and never serve it again. By default only a preview, which names
    approved revisions. Otherwise 409 for approved content without `force`; and always while the asset is processed.
    """
    if not AN_ID.fullmatch(asset_id):
        raise UnknownAssetError(asset_id)
    request = Unpublish(caller.namespace, asset_id, body.revision, caller.name, body.force, body.reason)
    with api.connection() as conn:
        if body.dry_run:
            return answer_of(Unpublished(preview_unpublishing(conn, request), None, {}, []), dry_run=True)
        return answer_of(unpublish(conn, request), dry_run=False)


@router.get("/assets/{asset_id}/unpublishings")
def list_unpublishings(
    asset_id: AssetName, caller: Reader, api: ApiContext, cursor: CursorParameter = None, limit: Limit = 50
) -> UnpublishingPage:
    """Unpublished revisions, and previews that workflows requested, newest first."""
    before = read_cursor(cursor, lambda created_at, name: (moment(created_at), plain(name)))
    with api.connection() as conn:
        _find(conn, caller, asset_id)
        lines = unpublishing.list_unpublishings(conn, caller.namespace, asset_id, before=before, limit=limit + 1)
    page = lines[:limit]
    more = len(lines) > limit
    return UnpublishingPage(
        unpublishings=page, next_cursor=write_cursor(page[-1].created_at, page[-1].unpublishing_id) if more else None
    )


@router.get("/assets/{asset_id}/revisions")
def list_revisions(
    asset_id: AssetName, caller: Reader, api: ApiContext, cursor: CursorParameter = None, limit: Limit = 50
) -> RevisionPage:
    """Its revisions, newest first."""
    before = read_cursor(cursor, _number)
    with api.connection() as conn:
        _find(conn, caller, asset_id)
        lines = shown.page_of_revisions(conn, caller.namespace, asset_id, before=before, limit=limit + 1)
    page = lines[:limit]
    return RevisionPage(revisions=page, next_cursor=write_cursor(page[-1].revision) if len(lines) > limit else None)


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
        lines = assets.list_blobs(conn, key, after=after or "", limit=limit + 1)
    page = lines[:limit]
    return BlobPage(blobs=page, next_cursor=write_cursor(page[-1].blob_id) if len(lines) > limit else None)


@router.get("/assets/{asset_id}/revisions/{revision}/lineage")
def get_lineage(asset_id: AssetName, revision: RevisionName, caller: Reader, api: ApiContext) -> Lineage:
    """What a revision was made from, and what was made from it."""
    with api.connection() as conn:
        _find_revision(conn, caller, asset_id, revision)
        return shown.read_lineage(conn, RevisionKey(caller.namespace, asset_id, revision))


def with_versions(filters: AssetFilters, refs: dict[str, str], platforms: Platforms) -> AssetFilters:
    """A version label is looked for among the revisions."""
    versions = []
    for name, label in refs.items():
        labelling = [platform.platform_id for platform in platforms if platform.version_ref == name]
        if labelling:
            versions.append(VersionFilter(name, label, labelling))
    names = {version.name for version in versions}
    identity = {name: value for name, value in refs.items() if name not in names}
    return replace(filters, refs=identity or None, versions=versions)


def _find(conn: Conn, caller: Caller, asset_id: str) -> AssetView:
    asset = shown.read_asset(conn, caller.namespace, asset_id) if AN_ID.fullmatch(asset_id) else None
    if asset is None:
        raise UnknownAssetError(asset_id)
    return asset


def _find_revision(conn: Conn, caller: Caller, asset_id: str, revision: int) -> RevisionView:
    is_id = AN_ID.fullmatch(asset_id)
    view = shown.read_revision(conn, RevisionKey(caller.namespace, asset_id, revision)) if is_id else None
    if view is None:
        raise not_found(
            f"revision {revision} of asset {asset_id!r}", remedy="`GET /api/v1/assets` lists assets with their newest."
        )
    return view


def _reference(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return compose(name), compose(value)


def _number(place: Any) -> int:
    if not isinstance(place, int) or isinstance(place, bool) or not 1 <= place <= LAST:
        raise ValueError(place)
    return place
