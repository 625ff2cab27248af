"""Places of assets and jobs on the map."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from rmhdag.api.context import ApiContext
from rmhdag.api.identity import ReaderOrReviewer
from rmhdag.api.pages import CursorParameter, read_cursor, write_cursor
from rmhdag.api.problems import Problem
from rmhdag.api.routes.jobs import moment, plain
from rmhdag.models.api.maps import FootprintPage, Subject
from rmhdag.models.assets import ApprovalState
from rmhdag.models.columns import Timestamp
from rmhdag.models.states import JobStatus
from rmhdag.views.footprints import FootprintFilters, FootprintPlace, asset_footprints, job_footprints
from rmhdag.views.shapes import Box, boxes_of

router = APIRouter(prefix="/api/v1", tags=["maps"])

BoxText = Annotated[
    str | None,
    Query(
        max_length=200,
        description="West,south,east,north in degrees; across the antimeridian west is above east",
        examples=["5.9,45.8,10.5,47.8"],
    ),
]


@router.get("/footprints")
def list_footprints(
    caller: ReaderOrReviewer,
    api: ApiContext,
    of: Annotated[Subject, Query(description="Of assets, or of jobs")] = "assets",
    bbox: BoxText = None,
    since: Annotated[Timestamp | None, Query(description="Created at this time or later")] = None,
    until: Annotated[Timestamp | None, Query(description="Created before this time")] = None,
    approval_state: Annotated[ApprovalState | None, Query(description="Of assets only")] = None,
    status: Annotated[JobStatus | None, Query(description="Of jobs only")] = None,
    cursor: CursorParameter = None,
    limit: Annotated[int, Query(ge=1, le=1_000, description="How many assets or jobs to look at")] = 500,
) -> FootprintPage:
    """Where assets or jobs lie, as GeoJSON, newest first."""
    _refuse_other(of, approval_state, status)
    filters = FootprintFilters(
        boxes=read_bbox(bbox),
        since=since,
        until=until,
        approval_state=approval_state,
        status=status,
        before=read_cursor(cursor, lambda created_at, name: FootprintPlace(moment(created_at), plain(name))),
        limit=limit,
    )
    read = asset_footprints if of == "assets" else job_footprints
    with api.connection() as conn:
        page = read(conn, caller.namespace, filters)
    return FootprintPage(
        features=page.features,
        examined=page.examined,
        next_cursor=None if page.last is None else write_cursor(*page.last),
    )


def read_bbox(text: str | None) -> tuple[Box, ...]:
    """None of a missing text. Raises a Problem (422) if it is no box."""
    if text is None:
        return ()
    try:
        boxes = boxes_of([float(part) for part in text.split(",")])
    except ValueError:
        boxes = []
    if not boxes:
        raise Problem(
            422,
            "invalid_request",
            f"the box {text[:100]!r} is not four numbers: west,south,east,north in degrees",
            remedy="Write it as `5.9,45.8,10.5,47.8`; south is not above north.",
            pointer="/query/bbox",
        )
    return tuple(boxes)


def _refuse_other(of: Subject, approval_state: ApprovalState | None, status: JobStatus | None) -> None:
    for name, value, owner in (("approval_state", approval_state, "assets"), ("status", status, "jobs")):
        if value is not None and of != owner:
            raise Problem(
                422, "invalid_request", f"`{name}` is for `of={owner}` only: leave it out", pointer=f"/query/{name}"
            )
