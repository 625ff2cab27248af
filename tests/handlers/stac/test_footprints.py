"""Where a raster has data: nodata, curved edges, the antimeridian, the poles."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from rasterio import warp
from shapely.geometry import Point, box, shape

from rmhdag.handlers import NonRetryableError
from rmhdag.handlers.raster.georeferencing import georeference_of
from rmhdag.handlers.stac.footprint import Footprint, find_footprint
from tests.handlers.stac.rasters import NODATA, terrain, write_cog


def footprint(path: Path, values: Any, **where: Any) -> Footprint:
    with rasterio.open(write_cog(path / "a.tif", values, **where)) as dataset:
        return find_footprint(dataset)


def test_all_of_it(tmp_path: Path) -> None:
    found = footprint(tmp_path, terrain(), crs="EPSG:4326", west=10.0, north=50.0, pixel=0.01)
    assert found.bbox == pytest.approx([10.0, 47.44, 12.56, 50.0])
    west, south, east, north = found.bbox
    assert shape(found.geometry).equals(box(west, south, east, north))
    assert len(found.geometry["coordinates"][0]) == 5


def test_every_valid_pixel_is_inside(tmp_path: Path) -> None:
    values = terrain()
    rng = np.random.default_rng(5)
    y, x = np.mgrid[0:256, 0:256]
    for _ in range(6):
        row, column, radius = rng.integers(20, 236), rng.integers(20, 236), rng.integers(10, 60)
        values[0][(y - row) ** 2 + (x - column) ** 2 < radius**2] = NODATA
    values[0, :, :40] = NODATA
    path = write_cog(tmp_path / "a.tif", values, nodata=NODATA)
    with rasterio.open(path) as dataset:
        found = shape(find_footprint(dataset).geometry).buffer(1e-5)
        rows, columns = np.nonzero(values[0] != NODATA)
        chosen = rng.choice(len(rows), 300)
        eastings, northings = rasterio.transform.xy(dataset.transform, rows[chosen], columns[chosen])
        longitudes, latitudes = warp.transform(dataset.crs, "EPSG:4326", eastings, northings)
    assert all(found.contains(Point(*place)) for place in zip(longitudes, latitudes, strict=True))
    whole = footprint(tmp_path, terrain())
    assert found.area < 0.9 * shape(whole.geometry).area, "the strip without data is cut off"


def test_nothing_valid_is_still_somewhere(tmp_path: Path) -> None:
    found = footprint(tmp_path, np.full((1, 64, 64), NODATA, "float32"), nodata=NODATA)
    assert shape(found.geometry).area > 0


def test_noise_stays_small(tmp_path: Path) -> None:
    values = terrain(512)
    values[np.random.default_rng(1).random(values.shape) < 0.7] = NODATA
    found = footprint(tmp_path, values, nodata=NODATA)
    assert len(str(found.geometry)) < 30_000
    assert shape(found.geometry).is_valid


@pytest.mark.parametrize(
    ("where", "bbox"),
    [
        ({"crs": "EPSG:4326", "west": 175.0, "north": 10.0, "pixel": 0.05}, [175.0, -2.8, -172.2, 10.0]),
        ({"crs": "EPSG:32701", "west": 0.0, "north": 8e6, "pixel": 1000.0}, [178.2, -20.4, -179.3, -18.0]),
        ({"crs": "EPSG:4326", "west": 0.0, "north": 90.0, "pixel": 360 / 256}, [-180.0, -90.0, 180.0, 90.0]),
        ({"crs": "EPSG:3031", "west": -1e6, "north": 1e6, "pixel": 2e6 / 256}, [-180.0, -90.0, 180.0, -77.04]),
        ({"crs": "EPSG:3995", "west": -1e6, "north": 1e6, "pixel": 2e6 / 256}, [-180.0, 77.04, 180.0, 90.0]),
    ],
    ids=["degrees", "utm", "to-360", "south-pole", "north-pole"],
)
def test_around_the_world(tmp_path: Path, where: dict[str, Any], bbox: list[float]) -> None:
    found = footprint(tmp_path, terrain(), **where)
    assert found.bbox == pytest.approx(bbox, abs=0.15)
    geometry = shape(found.geometry)
    assert geometry.is_valid
    assert geometry.bounds[0] >= -180
    assert geometry.bounds[2] <= 180
    if found.bbox[0] > found.bbox[2]:
        assert found.geometry["type"] == "MultiPolygon"
        assert not geometry.intersects(Point(0, geometry.centroid.y)), "it does not go around the world"


@pytest.mark.parametrize("west", [-180.0, 0.0, 20.0])
@pytest.mark.parametrize("width", [700, 1100, 1440, 4099])
def test_pixels_that_are_not_quite_a_turn_together_go_around_the_world(tmp_path: Path, width: int, west: float) -> None:
    values = np.ones((1, width // 2, width), dtype="uint8")
    path = write_cog(tmp_path / "a.tif", values, crs="EPSG:4326", west=west, north=90.0, pixel=360 / width)
    with rasterio.open(path) as dataset:
        assert find_footprint(dataset).bbox[::2] == [-180.0, 180.0]
        assert georeference_of(dataset).bounds_wgs84[::2] == pytest.approx((-180.0, 180.0))


GEOSTATIONARY = """PROJCS["Pacific",GEOGCS["GRS 80",DATUM["unknown",SPHEROID["GRS80",6378137,298.2572221]],
PRIMEM["Greenwich",0],UNIT["degree",0.0174532925199433]],PROJECTION["Geostationary_Satellite"],
PARAMETER["central_meridian",-137],PARAMETER["satellite_height",35786023],PARAMETER["false_easting",0],
PARAMETER["false_northing",0],UNIT["metre",1]]"""


@pytest.mark.parametrize(
    ("where", "bbox"),
    [
        ({"crs": "ESRI:54008", "west": -20_037_508.0, "north": 20_037_508.0, "pixel": 4e7 / 256}, [-180, -90, 180, 90]),
        ({"crs": "ESRI:54009", "west": -18e6, "north": 18e6, "pixel": 36e6 / 256}, [-180, -90, 180, 90]),
        ({"crs": GEOSTATIONARY, "west": -5_434_894.0, "north": 5_434_894.0, "pixel": 42_460.0}, [142, -80, -56, 80]),
    ],
    ids=["sinusoidal", "mollweide", "satellite"],
)
def test_corners_that_are_not_on_earth(tmp_path: Path, where: dict[str, Any], bbox: list[float]) -> None:
    first, second = (footprint(tmp_path, terrain(), **where) for _ in range(2))
    assert first.bbox == pytest.approx(bbox, abs=4)
    assert shape(first.geometry).is_valid
    assert second == first


def test_no_crs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NonRetryableError, match="has no CRS"):
        footprint(tmp_path, terrain(64), crs=None)
