"""Promoted datasets: list, promote, demote, and the gallery."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query

from rmhdag.api.context import ApiContext
from rmhdag.api.identity import Operator, Reader
from rmhdag.api.pages import CursorParameter, read_cursor, write_cursor
from rmhdag.api.routes.jobs import plain
from rmhdag.models.api.promoted import Gallery, GalleryOrder, PromotedPage, PromotedView, PromotionRequest
from rmhdag.services.promoted import arrange_gallery, demote, no_promoted, promote
from rmhdag.store import promoted as store
from rmhdag.views.promoted import view_of

router = APIRouter(prefix="/api/v1", tags=["promoted datasets"])

PromotedName = Annotated[
    str,
    Path(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$", description="The id of a promoted dataset", examples=["flood-maps"]),
]
OutsideParameter = Annotated[bool, Query(description="Only what the public may see")]


@router.get("/promoted")
def list_promoted(
    caller: Reader,
    api: ApiContext,
    outside: OutsideParameter = False,
    system_role: Annotated[
        str | None, Query(min_length=1, max_length=64, description="Only the one that the platform uses in this role")
    ] = None,
    cursor: CursorParameter = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
) -> PromotedPage:
    """Promoted datasets, by id."""
    after = read_cursor(cursor, plain) or ""
    with api.connection() as conn:
        lines = store.list_promoted(
            conn, caller.namespace, outside=outside, system_role=system_role, after=after, limit=limit + 1
        )
    page = lines[:limit]
    return PromotedPage(
        promoted=[view_of(line) for line in page],
        next_cursor=write_cursor(page[-1].promoted_id) if len(lines) > limit else None,
    )


@router.get("/promoted-gallery")
def get_gallery(caller: Reader, api: ApiContext, outside: OutsideParameter = False) -> Gallery:
    """The gallery, in its order."""
    with api.connection() as conn:
        lines = store.read_gallery(conn, caller.namespace, outside=outside)
    return Gallery(promoted=[view_of(line) for line in lines])


@router.post("/promoted-gallery")
def order_gallery(body: GalleryOrder, caller: Operator, api: ApiContext) -> Gallery:
    """The gallery has exactly these, in this order; an empty list empties it."""
    with api.connection() as conn:
        lines = arrange_gallery(conn, caller.namespace, body.promoted_ids, by=caller.name)
    return Gallery(promoted=[view_of(line) for line in lines])


@router.get("/promoted/{promoted_id}")
def get_promoted(promoted_id: PromotedName, caller: Reader, api: ApiContext) -> PromotedView:
    """One promoted dataset, with warnings about what it refers to."""
    with api.connection() as conn:
        line = store.find_promoted(conn, caller.namespace, promoted_id)
    if line is None:
        raise no_promoted(promoted_id)
    return view_of(line)


@router.put("/promoted/{promoted_id}")
def put_promoted(promoted_id: PromotedName, body: PromotionRequest, caller: Operator, api: ApiContext) -> PromotedView:
    """Promote a collection or an item; an id that exists is changed. 422 if the catalogue does not have it."""
    row = body.model_dump() | {"item_id": body.item_id or ""}
    with api.connection() as conn:
        return view_of(promote(conn, caller.namespace, promoted_id, row, by=caller.name))


@router.delete("/promoted/{promoted_id}")
def delete_promoted(
    promoted_id: PromotedName,
    caller: Operator,
    api: ApiContext,
    confirm_system: Annotated[bool, Query(description="Also one that the platform itself relies on")] = False,
) -> PromotedView:
    """Demote it: the reference is removed, the catalogue stays as it is."""
    with api.connection() as conn:
        return view_of(demote(conn, caller.namespace, promoted_id, confirm_system=confirm_system, by=caller.name))
