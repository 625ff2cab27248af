"""What clients of the field see: pystac-client, a client of OGC API Features, a map."""

from __future__ import annotations

import io
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import httpx
import morecantile
import numpy as np
import psycopg
import pytest
import rasterio
from owslib.ogcapi.features import Features
from PIL import Image
from pystac_client import Client
from pystac_client.stac_api_io import StacApiIO

from rmhdag.cli.run_gateway import with_service_urls
from rmhdag.cli.settings import Settings
from rmhdag.gateway.service_urls import facts_of, services_of
from rmhdag.models.catalogue import CatalogueKind
from tests.documentation.fences import fences_of
from tests.serving.conftest import COLUMNS, Running

RASTER = "/tiles/collections/rasters/items/dem/assets/data"


@pytest.fixture(scope="module")
def catalogue(running: Running) -> Client:
    stac_io = StacApiIO()
    stac_io.session.trust_env = False
    return Client.open(f"{running.url}/stac", stac_io=stac_io)


def test_pystac_client_searches_pages_and_filters(running: Running, catalogue: Client) -> None:
    assert [collection.id for collection in catalogue.get_collections()] == ["rasters"]
    everything = list(catalogue.search(limit=3).items())
    assert len(everything) == 8, "all pages are followed"
    inside = catalogue.search(collections=["rasters"], bbox=[7.7, 46.8, 7.8, 46.9], datetime="2024-01-01/2024-12-31")
    assert len(list(inside.items())) == 8
    assert not list(catalogue.search(collections=["rasters"], bbox=[1, 1, 2, 2]).items())
    named = {"op": "=", "args": [{"property": "id"}, "dem"]}
    (item,) = catalogue.search(filter=named, filter_lang="cql2-json", method="POST").items()
    assert item.id == "dem"
    assert item.get_self_href() == f"{running.url}/stac/collections/rasters/items/dem"


def test_the_address_of_an_asset_leads_to_its_file(running: Running, catalogue: Client) -> None:
    item = next(catalogue.search(ids=["dem"]).items())
    href = item.assets["data"].href
    assert href == f"{running.url}/files/rasters/dem/data"
    content = (running.folder / "dem.tif").read_bytes()
    whole = httpx.get(href, trust_env=False)
    assert whole.content == content
    head = httpx.head(href, trust_env=False)
    assert (head.status_code, int(head.headers["Content-Length"])) == (200, len(content))
    for asked, start, end in (("bytes=10-19", 10, 20), ("bytes=-5", len(content) - 5, len(content))):
        part = httpx.get(href, headers={"Range": asked}, trust_env=False)
        assert (part.status_code, part.content) == (206, content[start:end])
        assert part.headers["Content-Range"] == f"bytes {start}-{end - 1}/{len(content)}"
    beyond = httpx.get(href, headers={"Range": f"bytes={len(content)}-"}, trust_env=False)
    assert beyond.status_code == 416
    again = httpx.get(href, headers={"If-None-Match": whole.headers["ETag"]}, trust_env=False)
    assert (again.status_code, again.content) == (304, b"")


def test_the_example_of_the_page_runs(
    running: Running, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    (fence,) = fences_of("docs/serving.md", "python")
    assert "http://127.0.0.1:8900" in fence.text
    exec(compile(fence.text.replace("http://127.0.0.1:8900", running.url), fence.page, "exec"), {})
    assert f"dem {running.url}/files/rasters/dem/data\n" in capsys.readouterr().out


def test_an_ogc_client_reads_every_feature_as_it_was(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    client = Features(f"{running.url}/features/")
    assert client.collections()["numberMatched"] == 1
    assert client.feature_collections() == ["geo.places"]
    features: list[dict[str, Any]] = []
    while len(features) < len(running.places):
        page = client.collection_items("geo.places", limit=15, offset=len(features))
        assert page["numberMatched"] == len(running.places)
        features += page["features"]
    assert len(features) == len(running.places)
    by_id = {feature["id"]: feature for feature in features}
    for number, place in enumerate(running.places, 1):
        feature = by_id[number]
        assert feature["geometry"]["coordinates"] == pytest.approx([place["x"], place["y"]], abs=1e-7)
        for name in COLUMNS:
            value = feature["properties"][name]
            if name == "observed_at" and value is not None:
                value = datetime.fromisoformat(value)
            expected = place[name].isoformat() if name == "founded" else place[name]
            assert value == expected, (number, name)
    middle = sorted(place["x"] for place in running.places)[len(running.places) // 2]
    box = client.collection_items("geo.places", bbox=[7, 46, middle, 47], limit=100)
    western = [place["name"] for place in running.places if place["x"] <= middle]
    assert sorted(feature["properties"]["name"] for feature in box["features"]) == sorted(western)
    one = client.collection_item("geo.places", "1")
    assert one["properties"]["name"] == running.places[0]["name"]


def test_vector_tiles_have_content(running: Running) -> None:
    tile = running.get("/features/collections/geo.places/tiles/WebMercatorQuad/7/66/45")
    assert tile.status_code == 200
    assert tile.headers["content-type"] == "application/vnd.mapbox-vector-tile"
    assert running.places[0]["name"].encode() in tile.content or len(tile.content) > 200


def test_raster_tiles_show_the_raster(running: Running) -> None:
    about = running.get(f"{RASTER}/info").json()
    assert (about["dtype"], about["width"], about["nodata_type"]) == ("float32", 600, "Nodata")
    document = running.get(f"{RASTER}/WebMercatorQuad/tilejson.json").json()
    assert document["tiles"][0].startswith(f"{running.url}{RASTER}/tiles/WebMercatorQuad/")
    zoom, (west, south, east, north) = document["minzoom"], document["bounds"]
    lon, lat = (west + east) / 2, (south + north) / 2
    preview = running.get(f"{RASTER}/preview.png", params={"rescale": "0,2000", "max_size": 128})
    heights = Image.open(io.BytesIO(preview.content))
    assert heights.format == "PNG"
    assert len(np.unique(np.asarray(heights.convert("L")))) > 20, "heights, not one colour"
    with rasterio.open(running.folder / "dem.tif") as raster:
        (x,), (y,) = rasterio.warp.transform("EPSG:4326", raster.crs, [lon], [lat])
        (expected,) = next(raster.sample([(x, y)]))
    values = running.get(f"{RASTER}/point/{lon},{lat}").json()["values"]
    assert values == [pytest.approx(float(expected), rel=1e-5)] or (values == [None] and expected == -9999)
    tile = morecantile.tms.get("WebMercatorQuad").tile(lon, lat, zoom)
    picture = running.get(f"{RASTER}/tiles/WebMercatorQuad/{tile.z}/{tile.x}/{tile.y}.png?rescale=0,2000")
    assert picture.status_code == 200
    assert picture.content.startswith(b"\x89PNG")
    nowhere = running.get(f"{RASTER}/tiles/WebMercatorQuad/{tile.z}/0/0.png")
    assert nowhere.status_code == 404


def test_tables_appear_and_disappear_without_a_restart(running: Running) -> None:
    with psycopg.connect(running.server.owner_dsn(), autocommit=True) as conn:
        conn.execute("CREATE TABLE geo.fresh (id int PRIMARY KEY, geom geometry(Point, 4326), name text)")
        conn.execute("INSERT INTO geo.fresh VALUES (1, ST_SetSRID(ST_Point(1, 2), 4326), 'new')")
        assert status_of(running, "geo.fresh", 404) == 404, "a table that the catalogue does not list is not shown"
        conn.execute("INSERT INTO geo.table_catalog VALUES ('fresh', 'Fresh')")
        assert status_of(running, "geo.fresh", 200) == 200
        items = running.get("/features/collections/geo.fresh/items").json()
        assert items["features"][0]["properties"]["name"] == "new"
        conn.execute("DELETE FROM geo.table_catalog WHERE table_name = 'fresh'")
        conn.execute("DROP TABLE geo.fresh")
        assert status_of(running, "geo.fresh", 404) == 404


def status_of(running: Running, collection: str, awaited: int) -> int:
    """Asked again until it is the awaited one: tables are looked at once a second."""
    for _ in range(200):
        status = running.get(f"/features/collections/{collection}").status_code
        if status == awaited:
            break
    return status


def test_health_and_figures(running: Running) -> None:
    ready = running.get("/readyz")
    assert ready.json()["services"] == {"stac": "up", "features": "up", "tiles": "up"}
    figures = running.get("/metrics").text
    assert 'rmhdag_serve_up{service="tiles"} 1.0' in figures
    assert "rmhdag_serve_requests_total" in figures
    landing = running.get("/").json()
    assert [link["href"] for link in landing["links"][1:]] == [
        f"{running.url}/{name}/" for name in ("stac", "features", "tiles")
    ]


def test_addresses_for_partners_lead_to_what_is_served(running: Running) -> None:
    """The gateway on the same data folder finds the running services by itself."""
    settings = with_service_urls(Settings(home=running.folder / "home", catalogue=CatalogueKind.PGSTAC))
    outputs: list[Mapping[str, Any]] = [
        {"collection_id": "rasters", "item_id": "dem", "container": "cogs", "path": "dem.tif"}
    ]
    row: dict[str, Any] = {"version_label": None, "platform_id": "ddh", "platform_refs": {}}
    templates = settings.service_templates()
    services = services_of(templates["raster"], facts_of(row, outputs, "default"))
    assert services is not None
    for name in ("service_url", "preview", "viewer", "stac_collection", "stac_item"):
        address = services[name]
        assert address is not None
        assert httpx.get(address, timeout=40, trust_env=False).status_code == 200, address
    tables: list[Mapping[str, Any]] = [
        {"table_name": "places", "collection_id": None, "item_id": None, "container": None, "path": None}
    ]
    vector = services_of(templates["vector"], facts_of(row, tables, "default"))
    assert vector is not None
    assert vector["stac_item"] is None
    for name in ("service_url", "viewer"):
        address = vector[name]
        assert address is not None
        assert httpx.get(address, timeout=40, trust_env=False).status_code == 200, address
    assert str(vector["tiles"]).endswith("/geo.places/tiles/WebMercatorQuad/{z}/{x}/{y}")
    other = facts_of(row, outputs, "alpha")
    assert other["catalogue_id"] == "namespace-alpha:rasters"
