"""Grids: every pixel is in one tile, every tile in one batch, and a scheme survives JSON."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from rasterio.crs import CRS
from rasterio.warp import transform_bounds

from rmhdag.handlers import NonRetryableError
from rmhdag.handlers.raster.tiling_scheme import (
    MOST_TILES_IN_BATCH,
    TileRange,
    TilingScheme,
    matrix_grid,
    pixel_grid,
    scheme_bounds,
    viewed,
)
from rmhdag.handlers.raster.writing import BLOCK
from rmhdag.models.blobs import BlobRef
from rmhdag.models.records import Zone

MEGABYTE = 1024**2


def scheme(width: int, height: int, tile_width: int, tile_height: int, **more: Any) -> TilingScheme:
    told = {"crs": "", "transform": (1.0, 0.0, 0.0, 0.0, -1.0, 0.0), "bands": 1, "dtype": "float32", **more}
    return TilingScheme(width=width, height=height, tile_width=tile_width, tile_height=tile_height, **told)


def sparse(path: Path, width: int, height: int, **more: Any) -> Path:
    """Only a header: nothing is read to make a scheme."""
    profile = {
        "driver": "GTiff",
        "width": width,
        "height": height,
        "count": 1,
        "dtype": "float32",
        "crs": "EPSG:32633",
        "transform": rasterio.Affine(10, 0, 500_000, 0, -10, 5_400_000),
        "sparse_ok": True,
        "tiled": True,
        "blockxsize": 256,
        "blockysize": 256,
        **more,
    }
    with rasterio.open(path, "w", **profile):
        return path


@given(st.integers(1, 5_000), st.integers(1, 5_000), st.integers(256, 2_048), st.integers(256, 2_048))
def test_tiles_cover_every_pixel_once(width: int, height: int, tile_width: int, tile_height: int) -> None:
    grid = scheme(width, height, tile_width, tile_height)
    tiles = [tile for batch in grid.batches(7) for tile in grid.tiles(batch)]
    assert [tile.number for tile in tiles] == list(range(grid.tile_count))
    assert sum(tile.window.width * tile.window.height for tile in tiles) == width * height
    corners = {(tile.window.col_off, tile.window.row_off) for tile in tiles}
    assert len(corners) == len(tiles)
    assert all(tile.window.col_off + tile.window.width <= width for tile in tiles)
    assert all(tile.window.row_off + tile.window.height <= height for tile in tiles)


def test_batches_are_ranges_of_bounded_size() -> None:
    grid = scheme(100 * 512, 90 * 512, 512, 512)
    batches = grid.batches()
    assert max(batch.count for batch in batches) <= MOST_TILES_IN_BATCH
    assert sum(batch.count for batch in batches) == grid.tile_count == 9_000
    assert len(scheme(20_000, 20_000, 2_048, 2_048).batches()) == 13
    assert next(batch.count for batch in grid.batches(4_000)) == MOST_TILES_IN_BATCH


def test_a_scheme_survives_json_and_notices_a_change() -> None:
    first = scheme(10, 10, 512, 512, nodata="nan", transform=(0.1, 0.0, -7.25, 0.0, -1e-05, 3e20))
    again = TilingScheme.model_validate(json.loads(first.model_dump_json()))
    assert again == first
    assert math.isnan(again.nodata_value or 0)
    with pytest.raises(ValidationError, match="changed after it was created"):
        TilingScheme.model_validate({**first.model_dump(), "tile_width": 1024})


def test_names_differ_by_source_scheme_and_tile() -> None:
    one, other = scheme(4_096, 4_096, 1_024, 1_024), scheme(4_096, 4_096, 512, 512)
    sources = [
        BlobRef(zone=Zone.BRONZE, container="in", path="a.tif", size_bytes=1, sha256=digit * 64) for digit in "ab"
    ]
    names = {grid.address(source, grid.tile(col, 0)) for grid in (one, other) for source in sources for col in range(2)}
    assert len(names) == 8
    assert {(name.zone, name.container) for name in names} == {(Zone.SILVER, "work")}
    assert one.address(sources[0], one.tile(3, 2)).path == f"{'a' * 64}/{one.hash[:16]}/00002-00003.tif"


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, (2_048, 2_048)),
        ({"blockxsize": 1_024, "blockysize": 1_024}, (2_048, 2_048)),
        ({"count": 12}, (1_024, 1_024)),
        ({"tiled": False, "blockxsize": None, "blockysize": 1}, (9_000, 1_536)),
        ({"tiled": False, "blockxsize": None, "blockysize": 1, "count": 12}, (2_560, 512)),
    ],
)
def test_tiles_fit_memory_and_blocks(tmp_path: Path, more: dict[str, Any], expected: tuple[int, int]) -> None:
    more = {key: value for key, value in more.items() if value is not None}
    if more.get("tiled") is False:
        more = {**more, "blockxsize": 9_000}
    with rasterio.open(sparse(tmp_path / "a.tif", 9_000, 8_000, **more)) as dataset:
        grid = pixel_grid(dataset, tile_size=None, memory_bytes=64 * MEGABYTE)
    assert (grid.tile_width, grid.tile_height) == expected
    assert grid.tile_width * grid.tile_height * grid.bands * 4 <= 64 * MEGABYTE


@pytest.mark.parametrize(("asked", "expected"), [(1_000, 1_024), (300, BLOCK), (1_500, 1_536)])
def test_a_given_size_becomes_whole_blocks(tmp_path: Path, asked: int, expected: int) -> None:
    with rasterio.open(sparse(tmp_path / "a.tif", 5_000, 5_000)) as dataset:
        grid = pixel_grid(dataset, tile_size=asked, memory_bytes=64 * MEGABYTE)
    assert (grid.tile_width, grid.tile_height) == (expected, expected)


def test_a_small_raster_is_one_tile(tmp_path: Path) -> None:
    with rasterio.open(sparse(tmp_path / "a.tif", 300, 200)) as dataset:
        grid = pixel_grid(dataset, tile_size=None, memory_bytes=64 * MEGABYTE)
    assert (grid.tile_width, grid.tile_height, grid.tile_count) == (300, 200, 1)


def test_too_many_tiles_are_refused_with_a_remedy(tmp_path: Path) -> None:
    with (
        rasterio.open(sparse(tmp_path / "a.tif", 120_000, 130_000, bigtiff="yes")) as dataset,
        pytest.raises(NonRetryableError, match=r"59690 tiles of 512 × 512 .* make the tiles larger"),
    ):
        pixel_grid(dataset, tile_size=512, memory_bytes=64 * MEGABYTE)


def test_web_mercator_tiles_are_those_of_the_matrix(tmp_path: Path) -> None:
    """The corners are multiples of the matrix's tiles, the resolution is that of the zoom, and pixels come warped."""
    path = sparse(tmp_path / "a.tif", 1_000, 900, nodata=-1.0)
    with rasterio.open(path, "r+") as target:
        target.write(np.full((1, 900, 1_000), 5, dtype="float32"))
    with rasterio.open(path) as dataset:
        grid = matrix_grid(
            dataset, "WebMercatorQuad", zoom=None, tile_size=None, memory_bytes=64 * MEGABYTE, resampling="bilinear"
        )
        with viewed(dataset, grid) as view:
            pixels = view.read(1)
    assert CRS.from_wkt(grid.crs) == CRS.from_epsg(3857)
    left, bottom, right, top = scheme_bounds(grid)
    # 10 m at latitude 48 are about 15 m in Mercator: zoom 13 has 19.1 m.
    assert grid.zoom == 13
    half = 20_037_508.342789244
    span = 2 * half / 2**grid.zoom
    for edge in (left, bottom, right, top):
        assert abs((edge + half) / span - round((edge + half) / span)) < 1e-6
    assert grid.width % 256 == 0
    assert pixels.shape == (grid.height, grid.width)
    assert set(np.unique(pixels)) == {-1.0, 5.0}


@pytest.mark.parametrize(
    ("left", "width", "tms"),
    [
        (0, 360, "WebMercatorQuad"),
        (-0.5, 360, "WebMercatorQuad"),
        (0, 360, "WorldCRS84Quad"),
        (160, 40, "WebMercatorQuad"),
    ],
)
def test_longitudes_beyond_180_are_in_the_matrix(tmp_path: Path, left: float, width: int, tms: str) -> None:
    place = rasterio.Affine(1, 0, left, 0, -1, 60)
    path = sparse(tmp_path / "a.tif", width, 120, crs="EPSG:4326", transform=place, nodata=-1.0)
    with rasterio.open(path, "r+") as target:
        target.write(np.full((1, 120, width), 5, dtype="float32"))
    with rasterio.open(path) as dataset:
        grid = matrix_grid(dataset, tms, zoom=3, tile_size=512, memory_bytes=MEGABYTE, resampling="nearest")
        with viewed(dataset, grid) as view:
            equator = view.read(1)[round(view.index(0, 0)[0])]
    assert (equator == 5).sum() == pytest.approx(grid.width * width / 360, abs=2)
    assert scheme_bounds(grid)[2] == -scheme_bounds(grid)[0]


@pytest.mark.parametrize(("tms", "left"), [("WGS1984Quad", -180.0), ("EuropeanETRS89_LAEAQuad", 2_000_000.0)])
def test_a_matrix_that_names_north_before_east_is_laid_right(tmp_path: Path, tms: str, left: float) -> None:
    with rasterio.open(sparse(tmp_path / "a.tif", 500, 500, nodata=-1.0)) as dataset:
        grid = matrix_grid(dataset, tms, zoom=12, tile_size=512, memory_bytes=MEGABYTE, resampling="nearest")
        west, south, east, north = transform_bounds(dataset.crs, CRS.from_wkt(grid.crs), *dataset.bounds)
    found = scheme_bounds(grid)
    assert found[0] <= west < east <= found[2]
    assert found[1] <= south < north <= found[3]
    tiles = (found[0] - left) / (grid.transform[0] * 256)
    assert abs(tiles - round(tiles)) < 1e-6


def test_a_raster_that_lies_beyond_180_as_a_whole_is_where_it_belongs(tmp_path: Path) -> None:
    place = rasterio.Affine(0.1, 0, 181, 0, -0.1, 5)
    with rasterio.open(sparse(tmp_path / "a.tif", 80, 100, crs="EPSG:4326", transform=place, nodata=-1.0)) as dataset:
        grid = matrix_grid(
            dataset, "WebMercatorQuad", zoom=6, tile_size=512, memory_bytes=MEGABYTE, resampling="nearest"
        )
    assert grid.width == 512
    assert scheme_bounds(grid)[0] == pytest.approx(-20_037_508.34, abs=0.01)


def test_without_nodata_a_warped_raster_gets_a_mask(tmp_path: Path) -> None:
    with rasterio.open(sparse(tmp_path / "a.tif", 500, 500)) as dataset:
        grid = matrix_grid(
            dataset, "WebMercatorQuad", zoom=10, tile_size=512, memory_bytes=MEGABYTE, resampling="nearest"
        )
    assert (grid.bands, grid.zoom, grid.masked) == (1, 10, True)


@pytest.mark.parametrize(
    ("tms", "zoom", "sentence"),
    [
        ("Mercator", None, "there is no tile matrix set 'Mercator'; there are .*WebMercatorQuad"),
        ("WebMercatorQuad", 30, "has the zoom levels 0 to 24, not 30"),
        ("WebMercatorQuad", 24, "make the tiles larger or the zoom smaller"),
    ],
)
def test_a_matrix_that_does_not_fit_is_refused(tmp_path: Path, tms: str, zoom: int | None, sentence: str) -> None:
    with (
        rasterio.open(sparse(tmp_path / "a.tif", 5_000, 5_000)) as dataset,
        pytest.raises(NonRetryableError, match=sentence),
    ):
        matrix_grid(dataset, tms, zoom=zoom, tile_size=512, memory_bytes=MEGABYTE, resampling="nearest")


def test_a_batch_beyond_the_grid_and_a_scheme_of_another_raster_are_refused(tmp_path: Path) -> None:
    grid = scheme(1_024, 1_024, 512, 512)
    with pytest.raises(NonRetryableError, match="the last one is 3"):
        list(grid.tiles(TileRange(first=2, count=3)))
    with (
        rasterio.open(sparse(tmp_path / "a.tif", 500, 500)) as dataset,
        pytest.raises(NonRetryableError, match="created for another raster"),
        viewed(dataset, grid),
    ):
        raise AssertionError("not reached")
