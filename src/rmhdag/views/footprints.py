"""Where assets and jobs lie on Earth, newest first, as GeoJSON: a page looks at so many of them and no more."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

from psycopg.rows import dict_row

from rmhdag.models.api.maps import Footprint, FootprintFacts
from rmhdag.models.assets import ApprovalState
from rmhdag.models.states import JobStatus
from rmhdag.store.connection import Conn
from rmhdag.store.queries import load_queries
from rmhdag.views.shapes import Box, Shape, shape_of, shape_of_boxes

SQL = load_queries(__file__)

# Of a footprint or an item that is read at all.
MOST_BYTES = 65_536
MOST_ITEMS = 100
BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
END = datetime(9999, 1, 1, tzinfo=UTC)
LAST_ID = "\U0010ffff"


class FootprintPlace(NamedTuple):
    """Where a page ended."""

    created_at: datetime
    subject_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FootprintFilters:
    """`boxes`: only what lies in one of them; all, if there are none."""

    boxes: tuple[Box, ...] = ()
    since: datetime | None = None
    until: datetime | None = None
    approval_state: ApprovalState | None = None
    status: JobStatus | None = None
    before: FootprintPlace | None = None
    limit: int = 500


class Footprints(NamedTuple):
    features: list[Footprint]
    examined: int
    # Null if there are no more.
    last: FootprintPlace | None


def asset_footprints(conn: Conn, namespace: str, filters: FootprintFilters) -> Footprints:
    return _read(conn, "asset_footprints", namespace, filters, "asset_id")


def job_footprints(conn: Conn, namespace: str, filters: FootprintFilters) -> Footprints:
    return _read(conn, "job_footprints", namespace, filters, "job_id")


def _read(conn: Conn, query: str, namespace: str, filters: FootprintFilters, key: str) -> Footprints:
    before = filters.before or FootprintPlace(END, LAST_ID)
    parameters = {
        "namespace": namespace,
        "before_at": before.created_at,
        "before_id": before.subject_id,
        "since": filters.since or BEGINNING,
        "until": filters.until or END,
        "approval_state": filters.approval_state,
        "status": filters.status,
        "most_bytes": MOST_BYTES,
        "most_items": MOST_ITEMS,
        "limit": filters.limit + 1,
    }
    with conn.cursor(row_factory=dict_row) as cursor:
        rows = cursor.execute(SQL[query], parameters).fetchall()
    page = rows[: filters.limit]
    make = _of_asset if key == "asset_id" else _of_job
    features = [feature for row in page if (feature := make(row, filters.boxes)) is not None]
    last = FootprintPlace(page[-1]["created_at"], page[-1][key]) if len(rows) > filters.limit else None
    return Footprints(features, len(page), last)


def _of_asset(row: dict[str, Any], boxes: tuple[Box, ...]) -> Footprint | None:
    shape = shape_of(row["geometry"]) or shape_of_boxes(row["boxes"] or ()) or shape_of(None, row["output_box"])
    picture = f"/api/v1/assets/{row['asset_id']}/revisions/{row['revision']}/thumbnail"
    title = ", ".join(str(value) for value in row["platform_refs"].values())
    facts = {
        "title": title or row["asset_id"],
        "thumbnail": picture if row["has_thumbnail"] else None,
        "place": "outputs",
        **{name: row[name] for name in ("asset_id", "revision", "job_id", "kind", "approval_state")},
    }
    return _feature(row, row["asset_id"], shape, facts, boxes)


def _of_job(row: dict[str, Any], boxes: tuple[Box, ...]) -> Footprint | None:
    geometries = {"type": "GeometryCollection", "geometries": row["geometries"] or []}
    shape, place = shape_of(geometries), "outputs"
    if shape is None:
        shape, place = shape_of(None, row["input_bbox"]), "inputs"
    facts = {
        "title": row["workflow_id"],
        "place": place,
        **{name: row[name] for name in ("job_id", "asset_id", "revision")},
    }
    return _feature(row, row["job_id"], shape, facts, boxes)


def _feature(
    row: dict[str, Any], name: str, shape: Shape | None, facts: dict[str, Any], boxes: tuple[Box, ...]
) -> Footprint | None:
    if shape is None or (boxes and not shape.meets(boxes)):
        return None
    return Footprint(
        id=name,
        bbox=shape.bbox(),
        geometry=shape.geometry(),
        properties=FootprintFacts(status=row["status"], created_at=row["created_at"], **facts),
    )
