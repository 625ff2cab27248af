"""Files and STAC items of revisions and jobs, for maps and downloads."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response

from rmhdag.api.context import Api, ApiContext
from rmhdag.api.identity import Caller, Reader, ReaderOrReviewer
from rmhdag.api.job_paths import check_job
from rmhdag.api.pages import CursorParameter, read_cursor, write_cursor
from rmhdag.api.problems import not_found
from rmhdag.api.processor_time import run_in_turn
from rmhdag.api.routes.assets import AN_ID, AssetName, Limit, RevisionName
from rmhdag.api.routes.jobs import JobId, plain
from rmhdag.models.api.assets import BlobPage, BlobView
from rmhdag.models.api.maps import ItemPage
from rmhdag.store.batch_rows import RevisionKey
from rmhdag.views import files
from rmhdag.views.files import ItemPlace, Owner

router = APIRouter(prefix="/api/v1", tags=["files"])

BlobName = Annotated[str, Path(pattern=r"^[0-9a-f]{64}$", description="`blob_id` of a file, from a list of files")]
ItemLimit = Annotated[int, Query(ge=1, le=100)]
BYTES: dict[str, Any] = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
RANGES: dict[int | str, dict[str, Any]] = {
    200: {"content": BYTES, "description": "The whole file. `ETag` is its SHA-256"},
    206: {"content": BYTES, "description": "The range that `Range` asks for; one at a time"},
    304: {"description": "The caller has it: `If-None-Match` names its ETag"},
}


@router.get("/files/{blob_id}", response_class=Response, responses=RANGES)
async def get_file(blob_id: BlobName, caller: ReaderOrReviewer, api: ApiContext, request: Request) -> Response:
    """A file that a revision or a job has published, or a range of its bytes."""
    return await _serve(api, caller, await _find(api, caller, blob_id), request)


@router.head("/files/{blob_id}", response_class=Response)
async def head_file(blob_id: BlobName, caller: ReaderOrReviewer, api: ApiContext, request: Request) -> Response:
    """Size, type and ETag of a file."""
    return await _serve(api, caller, await _find(api, caller, blob_id), request)


@router.get("/assets/{asset_id}/revisions/{revision}/thumbnail", response_class=Response, responses=RANGES)
async def get_thumbnail(
    asset_id: AssetName, revision: RevisionName, caller: ReaderOrReviewer, api: ApiContext, request: Request
) -> Response:
    """The picture of a revision, at most 512 pixels wide; 404 if it has none."""

    def find() -> BlobView | None:
        with api.connection() as conn:
            return files.find_thumbnail(conn, RevisionKey(caller.namespace, asset_id, revision))

    file = await run_in_turn(find) if AN_ID.fullmatch(asset_id) else None
    if file is None:
        raise not_found(f"picture of revision {revision} of asset {asset_id!r}")
    return await _serve(api, caller, file, request)


@router.get("/assets/{asset_id}/revisions/{revision}/items")
def list_revision_items(
    asset_id: AssetName,
    revision: RevisionName,
    caller: ReaderOrReviewer,
    api: ApiContext,
    cursor: CursorParameter = None,
    limit: ItemLimit = 20,
) -> ItemPage:
    """The STAC items of a revision, also while it waits for its review, each with its files."""
    if not AN_ID.fullmatch(asset_id):
        raise not_found(f"asset {asset_id!r}", remedy="`GET /api/v1/assets` lists them.")
    with api.connection() as conn:
        page = _items(api, conn, Owner(caller.namespace, asset_id, revision), cursor, limit)
        if not page.items and not files.has_revision(conn, RevisionKey(caller.namespace, asset_id, revision)):
            raise not_found(f"revision {revision} of asset {asset_id!r}")
    return page


@router.get("/jobs/{job_id}/items")
def list_job_items(
    job_id: JobId, caller: Reader, api: ApiContext, cursor: CursorParameter = None, limit: ItemLimit = 20
) -> ItemPage:
    """The STAC items that a job has published until now, each with its files."""
    with api.connection() as conn:
        check_job(conn, caller.namespace, job_id)
        return _items(api, conn, Owner(caller.namespace, job_id=job_id), cursor, limit)


@router.get("/jobs/{job_id}/files")
def list_job_files(
    job_id: JobId, caller: Reader, api: ApiContext, cursor: CursorParameter = None, limit: Limit = 50
) -> BlobPage:
    """The files that a job has published until now, each with its size and hash."""
    after = read_cursor(cursor, plain)
    with api.connection() as conn:
        check_job(conn, caller.namespace, job_id)
        lines = files.page_of_job_files(conn, caller.namespace, job_id, after=after or "", limit=limit + 1)
    page = lines[:limit]
    return BlobPage(blobs=page, next_cursor=write_cursor(page[-1].blob_id) if len(lines) > limit else None)


def _items(api: Api, conn: Any, owner: Owner, cursor: str | None, limit: int) -> ItemPage:
    after = read_cursor(cursor, lambda collection_id, item_id: ItemPlace(plain(collection_id), plain(item_id)))
    lines = files.page_of_items(conn, owner, api.files.address_of(owner.namespace), after=after, limit=limit + 1)
    page = lines[:limit]
    last = page[-1] if len(lines) > limit else None
    return ItemPage(items=page, next_cursor=None if last is None else write_cursor(last.collection_id, last.item_id))


async def _find(api: Api, caller: Caller, blob_id: str) -> BlobView:
    def find() -> BlobView | None:
        with api.connection() as conn:
            return files.find_file(conn, caller.namespace, blob_id)

    file = await run_in_turn(find)
    if file is None:
        raise not_found(f"file {blob_id}", remedy="The lists of files of revisions and jobs have the ids.")
    return file


async def _serve(api: Api, caller: Caller, file: BlobView, request: Request) -> Response:
    return await api.files.respond(caller.namespace, file, request.headers, head=request.method == "HEAD")
