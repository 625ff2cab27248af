"""Genuine files that are rare: each is taken, or refused once and for all with a sentence."""

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from rasterio.crs import CRS
from rasterio.transform import Affine, from_origin

from rmhdag.handlers import NonRetryableError
from rmhdag.handlers.raster.opening import RasterRefused
from tests.handlers.raster.rasters import Bench, hills, read, write_raster
from tests.handlers.raster.test_complete import run

VERTICAL_KEY, EGM96, ELLIPSOID = 4096, 5773, 5030
SEVIRI = "+proj=geos +h=35785831 +lon_0=0 +sweep=y +ellps=WGS84 +units=m"
GOES_WEST = "+proj=geos +h=35786023 +lon_0=-137 +sweep=x +ellps=GRS80 +units=m"
DISK = from_origin(-5_500_000, 5_500_000, 11_000_000 / 300, 11_000_000 / 300)
DEGREES = from_origin(10, 50, 0.01, 0.01)


def complete(bench: Bench, local: Path, **params: Any) -> dict[str, Any]:
    _, result = run(bench, {"source": bench.put(local).model_dump(mode="json"), "item_id": "odd", **params})
    assert result is not None
    output: Any = result.output
    return {**output, "codes": [warning.code for warning in result.warnings]}


def with_ellipsoidal_heights(path: Path) -> Path:
    """As surveyors write it: GDAL reads a projected system with three axes, and no authority has a code for that."""
    write_raster(path, hills(64, 64), crs=CRS.from_string(f"EPSG:32633+{EGM96}"))
    raw, old = path.read_bytes(), struct.pack("<4H", VERTICAL_KEY, 0, 1, EGM96)
    assert raw.count(old) == 1
    path.write_bytes(raw.replace(old, struct.pack("<4H", VERTICAL_KEY, 0, 1, ELLIPSOID)))
    return path


def test_compound_system_without_authority_is_kept_without_its_heights(bench: Bench) -> None:
    made = complete(bench, with_ellipsoidal_heights(bench.folder / "heights.tif"))
    assert "CRS_HEIGHT_DROPPED" in made["codes"]
    assert made["crs"] == "EPSG:32633"
    assert made["item"]["properties"]["proj:code"] == "EPSG:32633"
    np.testing.assert_array_equal(read(bench.path(made["cog"])), hills(64, 64))


def test_tiles_of_such_a_raster_have_a_system_too(bench: Bench) -> None:
    source = bench.put(with_ellipsoidal_heights(bench.folder / "heights.tif")).model_dump(mode="json")
    scheme = bench.output("raster.generate_tiling_scheme", source=source)
    assert CRS.from_wkt(scheme["scheme"]["crs"]).to_epsg() == 32633


def test_compound_system_with_heights_above_the_sea_stays_as_it_is(bench: Bench) -> None:
    crs = CRS.from_string("EPSG:32633+5773")
    made = complete(bench, write_raster(bench.folder / "sea.tif", hills(64, 64), crs=crs))
    assert "CRS_HEIGHT_DROPPED" not in made["codes"]
    assert "EGM96" in made["crs"]


@pytest.mark.parametrize(("height", "width"), [(3000, 1024), (1500, 512), (1100, 1023), (2100, 2048)])
def test_images_and_overviews_as_wide_as_a_tile_are_tiled(bench: Bench, height: int, width: int) -> None:
    made = complete(bench, write_raster(bench.folder / "tile.tif", hills(height, width, dtype="uint8")))
    with rasterio.open(bench.path(made["cog"])) as cog:
        assert cog.block_shapes[0] == (512, 512)
    described = bench.output("raster.validate", source=made["cog"])
    assert (described["is_cog"], described["problems"]) == (True, [])


def test_strips_are_still_no_cog(bench: Bench) -> None:
    made = complete(bench, write_raster(bench.folder / "strips.tif", hills(2000, 1024, dtype="uint8")))
    assert made["validation"]["is_cog"] is False
    assert bench.output("raster.validate", source=made["cog"])["is_cog"] is True


def sparse(path: Path, width: int, height: int) -> Path:
    options = {"driver": "GTiff", "count": 1, "dtype": "uint8", "crs": "EPSG:32633", "sparse_ok": True}
    with rasterio.open(path, "w", width=width, height=height, transform=Affine.scale(0.001), **options):
        pass
    return path


@pytest.mark.parametrize(("width", "height"), [(200_000_000, 1), (1, 20_000_000), (30_000_000, 4)])
def test_a_line_of_pixels_is_refused_before_it_is_read(bench: Bench, width: int, height: int) -> None:
    source = bench.put(sparse(bench.folder / "line.tif", width, height)).model_dump(mode="json")
    for handler in ("raster.validate", "raster.create_cog"):
        with pytest.raises(RasterRefused, match=r"is a line of .* Cut it into pieces"):
            bench.run(handler, source=source)


@pytest.mark.parametrize(("height", "width"), [(1, 30_000), (30_000, 2), (1, 1)])
def test_shorter_lines_are_rasters(bench: Bench, height: int, width: int) -> None:
    made = complete(bench, write_raster(bench.folder / "line.tif", hills(height, width, dtype="uint8")))
    assert (made["width"], made["height"]) == (width, height)


@pytest.mark.parametrize(("crs", "middle"), [(SEVIRI, 0.0), (GOES_WEST, -137.0)])
def test_the_full_disk_of_a_satellite_lies_where_it_is_on_earth(bench: Bench, crs: str, middle: float) -> None:
    made = complete(bench, write_raster(bench.folder / "disk.tif", hills(300, 300), crs=crs, transform=DISK))
    for west, south, east, north in (made["validation"]["bounds_wgs84"], made["item"]["bbox"]):
        reach = (east - west) % 360
        assert reach == pytest.approx(160, abs=5)
        assert (west + reach / 2 - middle + 180) % 360 - 180 == pytest.approx(0, abs=1)
        assert (south, north) == (pytest.approx(-80, abs=2), pytest.approx(80, abs=2))


def test_a_disk_that_is_nowhere_on_earth_is_refused(bench: Bench) -> None:
    local = write_raster(bench.folder / "space.tif", hills(30, 30), crs=SEVIRI, transform=from_origin(9e6, 9e6, 10, 10))
    with pytest.raises(RasterRefused, match="a position that does not exist in its coordinate system"):
        complete(bench, local)


@pytest.mark.parametrize(
    ("crs", "kilometres"),
    [
        ("IAU_2015:49900", "3,396"),
        ("+proj=longlat +a=1737400 +b=1737400 +no_defs", "1,737"),
        ("+proj=stere +lat_0=90 +a=6051800 +b=6051800 +units=m", "6,052"),
    ],
)
def test_other_bodies_are_refused_as_such(bench: Bench, crs: str, kilometres: str) -> None:
    local = write_raster(bench.folder / "mars.tif", hills(30, 30), crs=CRS.from_string(crs), transform=DEGREES)
    with pytest.raises(NonRetryableError, match=f"is not of the earth: .* {kilometres} km"):
        complete(bench, local)


def test_a_sphere_for_the_earth_is_the_earth(bench: Bench) -> None:
    crs = "+proj=longlat +a=6370997 +b=6370997 +no_defs"
    made = complete(bench, write_raster(bench.folder / "sphere.tif", hills(30, 30), crs=crs, transform=DEGREES))
    assert made["item"]["bbox"] == pytest.approx([10, 49.7, 10.3, 50], abs=0.2)
