"""What maps ask for: ranges of files, items with their files, places of assets and jobs, and files to choose from."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from rmhdag.models.assets import AssetKind, AssetRevision, BlobAsset, BlobState, GeospatialAsset, ProcessingStatus
from rmhdag.models.blobs import BlobAddress
from rmhdag.models.catalogue import CatalogueEntry, RevisionItem
from rmhdag.models.data_tables import DataTable
from rmhdag.models.records import TableRole, Zone
from rmhdag.models.scopes import Scope
from rmhdag.models.table import Row
from rmhdag.storage import StorageSettings
from rmhdag.storage.zones import Storage, open_storage
from rmhdag.views.shapes import boxes_of, shape_of
from tests.api.serving import ServedHere, served
from tests.engine.definitions import task, workflow
from tests.orchestrator.platform import Platform
from tests.store.rows import insert_rows

NOW = datetime(2026, 3, 1, tzinfo=UTC)
CONTENT = bytes(range(256)) * 10_000  # several pieces
FIJI = [[[177.0, -19.0], [-178.0, -19.0], [-178.0, -16.0], [177.0, -16.0], [177.0, -19.0]]]
OSLO = [[[10.0, 59.0], [11.0, 59.0], [11.0, 60.0], [10.0, 60.0], [10.0, 59.0]]]


@pytest.fixture
def settings(tmp_path: Path) -> StorageSettings:
    return StorageSettings(str(tmp_path))


@pytest.fixture
def api(migrated_database: str, settings: StorageSettings) -> Iterator[ServedHere]:
    with served(migrated_database, storage=settings) as running:
        yield running


@pytest.fixture
def storage(settings: StorageSettings) -> Storage:
    return open_storage(settings, "default")


@pytest.fixture
def http(api: ServedHere) -> httpx.Client:
    return api.client(Scope.READ)


def put(platform: Platform, *rows: Row) -> None:
    for row in rows:
        insert_rows(platform.conn, "dagapp", [row])


def add_file(platform: Platform, storage: Storage, path: str, content: bytes = CONTENT, **more: Any) -> str:
    ref = storage.write(BlobAddress(Zone.SILVER, "survey", path), content)
    row: dict[str, Any] = {"job_id": "a-job", "role": "data", "media_type": ref.media_type, "sha256": ref.sha256} | more
    blob_id = sha256(f"{path} of {sorted(more)}".encode()).hexdigest()
    place: dict[str, Any] = {"zone": Zone.SILVER, "container": "survey", "path": path, "size_bytes": len(content)}
    put(platform, BlobAsset(blob_id=blob_id, created_at=NOW, **place, **row))
    return blob_id


def add_asset(platform: Platform, name: str, geometry: Any, output_bbox: Any = None, **more: Any) -> str:
    asset_id = sha256(name.encode()).hexdigest()[:32]
    times: dict[str, Any] = {"created_at": NOW, "updated_at": NOW, "created_by": "ann"}
    put(
        platform,
        GeospatialAsset(
            asset_id=asset_id,
            platform_id="ddh",
            kind=AssetKind.RASTER,
            platform_refs={"dataset_id": name},
            **times,
            **more,
        ),
        AssetRevision(
            asset_id=asset_id,
            revision=1,
            status=ProcessingStatus.COMPLETED,
            completed_at=NOW,
            footprint=geometry,
            outputs={} if output_bbox is None else {"bbox": output_bbox},
            **times,
        ),
    )
    return asset_id


def test_a_file_is_served_whole_and_in_ranges(http: httpx.Client, platform: Platform, storage: Storage) -> None:
    path = f"/api/v1/files/{add_file(platform, storage, 'oslo/dem.tif')}"
    whole = http.get(path)
    assert (whole.status_code, whole.content) == (200, CONTENT)
    etag = f'"{sha256(CONTENT).hexdigest()}"'
    kept = ("etag", "accept-ranges", "content-type", "content-disposition")
    assert [whole.headers[name] for name in kept] == [
        etag,
        "bytes",
        "image/tiff",
        "attachment; filename*=UTF-8''dem.tif",
    ]
    assert "sandbox" in whole.headers["content-security-policy"]

    def ranged(text: str, **more: str) -> tuple[int, bytes, str | None]:
        answer = http.get(path, headers={"Range": text, **more})
        return answer.status_code, answer.content, answer.headers.get("content-range")

    size = len(CONTENT)
    assert ranged("bytes=0-99") == (206, CONTENT[:100], f"bytes 0-99/{size}")
    assert ranged("bytes=300-1500300") == (206, CONTENT[300:1500301], f"bytes 300-1500300/{size}")
    assert ranged("bytes=-7") == (206, CONTENT[-7:], f"bytes {size - 7}-{size - 1}/{size}")
    assert ranged(f"bytes={size - 3}-") == (206, CONTENT[-3:], f"bytes {size - 3}-{size - 1}/{size}")
    assert ranged(f"bytes={size}-")[0] == 416
    assert ranged("bytes=0-1, 5-6")[:2] == (200, CONTENT), "several ranges: the whole, as RFC 9110 allows"
    assert ranged("bytes=0-9", **{"If-Range": '"older"'})[:2] == (200, CONTENT)
    assert ranged("bytes=0-9", **{"If-Range": etag})[0] == 206
    assert http.get(path, headers={"If-None-Match": etag}).status_code == 304
    head = http.head(path, headers={"Range": "bytes=5-9"})
    assert (head.status_code, head.headers["content-length"], head.content) == (206, "5", b"")


def test_only_recorded_files_of_the_own_namespace_are_served(
    api: ServedHere, http: httpx.Client, platform: Platform, storage: Storage
) -> None:
    blob_id = add_file(platform, storage, "a.tif")
    other = api.client(Scope.READ, Scope.REVIEWER, namespace="south")
    assert other.get(f"/api/v1/files/{blob_id}").status_code == 404
    deleted = add_file(platform, storage, "b.tif", state=BlobState.DELETED, deleted_at=NOW)
    assert http.get(f"/api/v1/files/{deleted}").json()["code"] == "file_gone"
    storage.delete(BlobAddress(Zone.SILVER, "survey", "a.tif"))
    assert http.get(f"/api/v1/files/{blob_id}").json()["code"] == "file_gone"
    storage.write(BlobAddress(Zone.SILVER, "survey", "a.tif"), b"something else")
    assert http.get(f"/api/v1/files/{blob_id}").json()["code"] == "file_changed"


@pytest.mark.parametrize(
    ("path", "media_type", "served_as", "disposition"),
    [
        ("x.html", "text/html", "application/octet-stream", "attachment"),
        ("x.svg", "image/svg+xml", "application/octet-stream", "attachment"),
        ("t.webp", "image/webp", "image/webp", "inline"),
        ("g.geojson", None, "application/geo+json", "attachment"),
    ],
)
def test_nothing_that_a_browser_runs_is_served_as_such(
    http: httpx.Client,
    platform: Platform,
    storage: Storage,
    path: str,
    media_type: str | None,
    served_as: str,
    disposition: str,
) -> None:
    blob_id = add_file(platform, storage, path, b"<script>alert(1)</script>", media_type=media_type)
    answer = http.get(f"/api/v1/files/{blob_id}")
    assert answer.headers["content-type"] == served_as
    assert answer.headers["content-disposition"].startswith(disposition)


def test_items_come_with_the_files_of_their_links(
    api: ServedHere, http: httpx.Client, platform: Platform, storage: Storage
) -> None:
    asset_id = add_asset(platform, "oslo", None)
    of_revision: dict[str, Any] = {"asset_id": asset_id, "revision": 1, "job_id": None}
    cog = add_file(platform, storage, "oslo/dem.tif", **of_revision)
    picture = add_file(platform, storage, "oslo/t.webp", b"picture", role="thumbnail", **of_revision)
    add_file(platform, storage, "other.tif")
    links = {name: storage.url(BlobAddress(Zone.SILVER, "survey", name)) for name in ("oslo/dem.tif", "other.tif")}
    body = {
        "id": "dem",
        "assets": {
            "data": {"href": links["oslo/dem.tif"]},
            "not ours": {"href": links["other.tif"]},
            "elsewhere": {"href": "https://example.org/x.tif"},
        },
    }
    key: dict[str, Any] = {"asset_id": asset_id, "revision": 1, "collection_id": "c", "item_id": "dem"}
    put(platform, RevisionItem(**key, size_bytes=10, created_at=NOW, body=body))
    page = http.get(f"/api/v1/assets/{asset_id}/revisions/1/items").json()
    (item,) = page["items"]
    assert item["item"] == body
    assert {name: file["blob_id"] for name, file in item["files"].items()} == {"data": cog}
    thumbnail = http.get(f"/api/v1/assets/{asset_id}/revisions/1/thumbnail")
    assert (thumbnail.content, thumbnail.headers["content-type"]) == (b"picture", "image/webp")
    assert http.get(f"/api/v1/files/{picture}").content == b"picture"
    # A reviewer decides by the picture, without the scope `read`.
    reviewer = api.client(Scope.REVIEWER)
    assert reviewer.get(f"/api/v1/assets/{asset_id}/revisions/1/items").json() == page
    assert http.get(f"/api/v1/assets/{asset_id}/revisions/2/items").status_code == 404


def add_table(platform: Platform, asset_id: str, name: str, bbox: Any, **more: Any) -> None:
    row: dict[str, Any] = {"table_name": name, "stored_name": f"{name}_1", "geometry_type": "Polygon"}
    times: dict[str, Any] = {"created_at": NOW, "next_attempt_at": NOW}
    table_id = sha256(name.encode()).hexdigest()
    owner: dict[str, Any] = {"asset_id": asset_id, "revision": 1}
    put(
        platform, DataTable(table_id=table_id, feature_count=9, details={"bbox": bbox}, **row, **times, **owner, **more)
    )


def test_vector_data_without_items_lie_where_their_tables_or_outputs_are(
    http: httpx.Client, platform: Platform
) -> None:
    def shown(asset_id: str) -> tuple[Any, list[Any]]:
        footprint = http.get(f"/api/v1/assets/{asset_id}/revisions/1").json()["footprint"]
        features = http.get("/api/v1/footprints").json()["features"]
        on_map = [one["geometry"] for one in features if one["id"] == asset_id]
        return footprint, on_map

    oslo = {"type": "MultiPolygon", "coordinates": [OSLO]}
    tables = add_asset(platform, "tables", None, output_bbox=[0, 0, 1, 1])
    add_table(platform, tables, "roads", [10.0, 59.0, 11.0, 60.0])
    # A view lies within its table, and a handler may write down anything.
    add_table(platform, tables, "roads_by_kind", [10.2, 59.2, 10.4, 59.4], role=TableRole.VIEW)
    add_table(platform, tables, "remarks", "everywhere")
    assert shown(tables) == (oslo, [oslo])
    files = add_asset(platform, "files", None, output_bbox=[10.0, 59.0, 11.0, 60.0])
    assert shown(files) == (oslo, [oslo])
    assert shown(add_asset(platform, "nowhere", None, output_bbox="everywhere")) == (None, [])
    # What the items say goes before all of it.
    items = add_asset(platform, "items", {"type": "Polygon", "coordinates": OSLO}, output_bbox=[0, 0, 1, 1])
    add_table(platform, items, "paths", [20.0, 59.0, 21.0, 60.0])
    assert shown(items) == ({"type": "Polygon", "coordinates": OSLO}, [oslo])


def test_a_job_without_an_asset_has_items_and_files(http: httpx.Client, platform: Platform, storage: Storage) -> None:
    job_id = platform.submit(workflow(one=task()), {})
    blob_id = add_file(platform, storage, "tile.tif", job_id=job_id)
    link = storage.url(BlobAddress(Zone.SILVER, "survey", "tile.tif"))
    times: dict[str, Any] = {"created_at": NOW, "changed_at": NOW, "next_attempt_at": NOW}
    outline = {"type": "Polygon", "coordinates": OSLO}
    body = {"id": "tile", "bbox": [10, 59, 11, 60], "geometry": outline, "assets": {"data": {"href": link}}}
    put(platform, CatalogueEntry(collection_id="tiles", item_id="tile", job_id=job_id, body=body, **times))
    (item,) = http.get(f"/api/v1/jobs/{job_id}/items").json()["items"]
    assert item["files"]["data"]["blob_id"] == blob_id
    assert [file["blob_id"] for file in http.get(f"/api/v1/jobs/{job_id}/files").json()["blobs"]] == [blob_id]
    (feature,) = http.get("/api/v1/footprints?of=jobs&bbox=10.5,59.5,12,61").json()["features"]
    assert (feature["id"], feature["properties"]["place"]) == (job_id, "outputs")
    assert http.get("/api/v1/footprints?of=jobs&bbox=20,59.5,22,61").json()["features"] == []
    # What is on the map is found by its area.
    (job,) = http.get("/api/v1/jobs?bbox=10.5,59.5,12,61").json()["jobs"]
    assert job["job_id"] == job_id
    assert http.get("/api/v1/jobs?bbox=20,59.5,22,61").json()["jobs"] == []


def test_footprints_by_area_time_and_page(api: ServedHere, http: httpx.Client, platform: Platform) -> None:
    oslo = add_asset(platform, "oslo", {"type": "Polygon", "coordinates": OSLO})
    fiji = add_asset(platform, "fiji", {"type": "Polygon", "coordinates": FIJI}, approval_state="pending_review")
    add_asset(platform, "nowhere", None)
    hostile = {"type": "Polygon", "coordinates": [[["<b>", 1], [2, 3], [4, 5], [6, None]]]}
    add_asset(platform, "broken", hostile)

    def ids(**query: Any) -> set[str]:
        answer = http.get("/api/v1/footprints", params=query)
        assert answer.status_code == 200, answer.text
        return {feature["id"] for feature in answer.json()["features"]}

    assert ids() == {oslo, fiji}
    assert ids(bbox="9,58,12,61") == {oslo}
    assert ids(bbox="179,-18,-179,-17") == {fiji}, "across the antimeridian"
    assert ids(bbox="-179,-18,-178.5,-17") == {fiji}, "east of it"
    assert ids(approval_state="pending_review") == {fiji}
    assert ids(since="2026-03-02T00:00:00Z") == set()
    first = http.get("/api/v1/footprints?limit=3").json()
    rest = http.get("/api/v1/footprints", params={"limit": 3, "cursor": first["next_cursor"]}).json()
    assert (first["examined"], rest["examined"], rest["next_cursor"]) == (3, 1, None)
    assert api.client(Scope.READ, namespace="south").get("/api/v1/footprints").json()["features"] == []
    for wrong in ("1,2,3", "a,b,c,d", "1,50,2,40", "nan,1,2,3"):
        assert http.get("/api/v1/footprints", params={"bbox": wrong}).status_code == 422
    assert http.get("/api/v1/footprints?of=jobs&approval_state=approved").status_code == 422


def test_a_job_without_outputs_lies_where_it_was_asked_to_look(http: httpx.Client, platform: Platform) -> None:
    job_id = platform.submit(workflow(one=task()), {})
    given = orjson.dumps({"bbox": [10, 59, 11, 60]}).decode()
    platform.conn.execute("UPDATE dag_jobs SET input_params = %s WHERE job_id = %s", [given, job_id])
    (feature,) = http.get("/api/v1/footprints?of=jobs&bbox=10,59,11,60").json()["features"]
    assert (feature["properties"]["place"], feature["bbox"]) == ("inputs", [10.0, 59.0, 11.0, 60.0])


def test_shapes_are_cut_at_the_antimeridian_and_closed_around_poles() -> None:
    fiji = shape_of({"type": "Polygon", "coordinates": FIJI})
    assert fiji is not None
    assert sorted(box[:] for box in fiji.boxes) == [(-180.0, -19.0, -178.0, -16.0), (177.0, -19.0, 180.0, -16.0)]
    assert fiji.bbox() == [177.0, -19.0, -178.0, -16.0]
    around = [[float(x), 80.0] for x in (-180, -90, 0, 90, 180)]
    ring = [[170.0, 80.0], [-100.0, 80.0], [-10.0, 80.0], [80.0, 80.0], [170.0, 80.0]]
    for coordinates in (ring, [*around, around[0]]):
        pole = shape_of({"type": "Polygon", "coordinates": [coordinates]})
        assert pole is not None
        assert max(box.north for box in pole.boxes) == 90.0
        assert (min(box.west for box in pole.boxes), max(box.east for box in pole.boxes)) == (-180.0, 180.0)
        assert all(-180 <= x <= 180 for polygon in pole.polygons for one in polygon for x, _ in one)
    beyond = shape_of(None, [170, -5, 190, 5])
    assert beyond is not None
    assert [box[:] for box in beyond.boxes] == [(170.0, -5.0, 180.0, 5.0), (-180.0, -5.0, -170.0, 5.0)]
    assert boxes_of([-180, -90, 180, 90]) == [(-180.0, -90.0, 180.0, 90.0)]
    assert shape_of({"type": "Polygon", "coordinates": [[[0, 0]]]}) is None


def test_files_to_choose_from(api: ServedHere, http: httpx.Client, storage: Storage) -> None:
    for path in ("a.tif", "2024/b.tif", "2024/may/c.tif"):
        storage.write(BlobAddress(Zone.BRONZE, "incoming", path), b"x")
    assert http.get("/api/v1/storage/bronze").json() == {"zone": "bronze", "containers": ["incoming"]}
    top = http.get("/api/v1/storage/bronze/incoming").json()
    assert (top["folders"], [file["path"] for file in top["files"]], top["is_complete"]) == (["2024"], ["a.tif"], True)
    inner = http.get("/api/v1/storage/bronze/incoming?folder=2024").json()
    assert (inner["folders"], [file["path"] for file in inner["files"]]) == (["may"], ["2024/b.tif"])
    assert http.get("/api/v1/storage/bronze/incoming?folder=../..").status_code == 422
    assert api.client(Scope.READ, namespace="south").get("/api/v1/storage/bronze").json()["containers"] == []
    assert api.client(Scope.REVIEWER).get("/api/v1/storage/bronze").status_code == 403
