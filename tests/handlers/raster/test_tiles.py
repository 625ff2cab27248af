"""Tiles hold exactly the raster's pixels, and a mosaic of them is the raster again."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from rasterio.enums import ColorInterp

from rmhdag.handlers import NonRetryableError
from rmhdag.handlers.raster.tiles import mosaic_tiles, write_tile
from rmhdag.handlers.raster.tiling_scheme import Tile, TilingScheme, matrix_grid, pixel_grid, viewed

SIZE = (1_300, 1_100)
MEGABYTE = 1024**2


def terrain(dtype: str, bands: int = 1, seed: int = 7) -> np.ndarray[Any, Any]:
    width, height = SIZE
    noise = np.random.default_rng(seed).integers(0, 50, (bands, height, width))
    return (noise + np.arange(width) // 8).astype(dtype)


def write(path: Path, pixels: np.ndarray[Any, Any], **more: Any) -> Path:
    count, height, width = pixels.shape
    profile = {
        "driver": "GTiff",
        "width": width,
        "height": height,
        "count": count,
        "dtype": pixels.dtype,
        "crs": "EPSG:32633",
        "transform": rasterio.Affine(10, 0, 500_000, 0, -10, 5_400_000),
        "tiled": True,
        "blockxsize": 256,
        "blockysize": 256,
        **more,
    }
    with rasterio.open(path, "w", **profile) as target:
        target.write(pixels)
    return path


def cut(source: Path, folder: Path, tile_size: int = 512) -> tuple[TilingScheme, list[Tile], list[Tile]]:
    """The scheme, the tiles that were written, and those that hold nothing."""
    with rasterio.open(source) as dataset:
        scheme = pixel_grid(dataset, tile_size=tile_size, memory_bytes=64 * MEGABYTE)
        with viewed(dataset, scheme) as view:
            tiles = [tile for batch in scheme.batches() for tile in scheme.tiles(batch)]
            written = [tile for tile in tiles if write_tile(view, scheme, tile, named(folder, tile.col, tile.row))]
    return scheme, written, [tile for tile in tiles if tile not in written]


def named(folder: Path, col: int, row: int) -> Path:
    return folder / f"{row}-{col}.tif"


def opener(folder: Path) -> Callable[[int, int], Any]:
    return lambda col, row: rasterio.open(named(folder, col, row))


def joined(source: Path, folder: Path, target: Path) -> Path:
    scheme, written, _ = cut(source, folder)
    with rasterio.open(source) as like:
        mosaic_tiles(scheme, [(tile.col, tile.row) for tile in written], opener(folder), target, like=like)
    return target


@pytest.mark.parametrize(("dtype", "bands"), [("float32", 1), ("uint16", 3), ("int8", 1), ("float64", 2)])
def test_a_mosaic_of_the_tiles_is_the_raster(tmp_path: Path, dtype: str, bands: int) -> None:
    pixels = terrain(dtype, bands)
    source = write(tmp_path / "source.tif", pixels)
    with rasterio.open(source) as before, rasterio.open(joined(source, tmp_path, tmp_path / "mosaic.tif")) as after:
        np.testing.assert_array_equal(after.read(), pixels)
        assert (after.crs, after.transform, after.nodata) == (before.crs, before.transform, before.nodata)


def test_a_tile_lies_where_its_pixels_lie(tmp_path: Path) -> None:
    pixels = terrain("float32")
    cut(write(tmp_path / "source.tif", pixels), tmp_path)
    with rasterio.open(named(tmp_path, 2, 1)) as tile:
        np.testing.assert_array_equal(tile.read(), pixels[:, 512:1_024, 1_024:])
        assert tile.transform == rasterio.Affine(10, 0, 510_240, 0, -10, 5_394_880)


@pytest.mark.parametrize("nodata", [-9_999.0, float("nan"), float("-inf"), -3.4028234663852886e38])
def test_tiles_of_nodata_are_noted_and_come_back(tmp_path: Path, nodata: float) -> None:
    pixels = terrain("float32")
    pixels[:, :512, 512:] = nodata
    pixels[:, 600:700, 0] = nodata
    source = write(tmp_path / "source.tif", pixels, nodata=nodata)
    _, _, empty = cut(source, tmp_path)
    assert [(tile.col, tile.row) for tile in empty] == [(1, 0), (2, 0)]
    with rasterio.open(joined(source, tmp_path, tmp_path / "mosaic.tif")) as after:
        np.testing.assert_array_equal(after.read(), pixels)
        np.testing.assert_equal(after.nodata, nodata)


def test_one_pixel_is_enough_to_keep_a_tile(tmp_path: Path) -> None:
    pixels = np.full((2, *SIZE[::-1]), 255, dtype="uint8")
    pixels[1, 1_099, 1_299] = 254
    _, written, empty = cut(write(tmp_path / "source.tif", pixels, nodata=255), tmp_path)
    assert [(tile.col, tile.row) for tile in written] == [(2, 2)]
    assert len(empty) == 8


def test_a_raster_of_nothing_is_a_mosaic_of_nothing(tmp_path: Path) -> None:
    pixels = np.full((1, *SIZE[::-1]), -1, dtype="int16")
    source = write(tmp_path / "source.tif", pixels, nodata=-1)
    with rasterio.open(joined(source, tmp_path, tmp_path / "mosaic.tif")) as after:
        np.testing.assert_array_equal(after.read(), pixels)


def test_masks_and_alpha_bands_are_kept(tmp_path: Path) -> None:
    pixels = terrain("uint8", 3)
    mask = np.where(np.arange(SIZE[0]) < 700, 255, 0).astype("uint8") * np.ones((SIZE[1], 1), dtype="uint8")
    pixels[:, :, 700:] = 0
    with rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True):
        masked = write(tmp_path / "masked.tif", pixels)
        with rasterio.open(masked, "r+") as target:
            target.write_mask(mask)
    with_alpha = write(tmp_path / "alpha.tif", np.concatenate([pixels, mask[None]]), photometric="rgb", alpha="yes")
    for source in (masked, with_alpha):
        with rasterio.open(joined(source, tmp_path, tmp_path / "mosaic.tif")) as after:
            np.testing.assert_array_equal(after.read()[:3], pixels)
            np.testing.assert_array_equal(after.dataset_mask(), mask)
    _, _, empty = cut(masked, tmp_path)
    assert {tile.col for tile in empty} == {2}


def test_what_a_raster_says_beside_its_pixels_is_kept(tmp_path: Path) -> None:
    source = write(tmp_path / "source.tif", terrain("uint8"), photometric="palette")
    colours = {value: (value, 255 - value, 7, 255) for value in range(256)}
    with rasterio.open(source, "r+") as target:
        target.write_colormap(1, colours)
        target.set_band_description(1, "land cover")
        target.set_band_unit(1, "class")
        target.scales, target.offsets = (0.5,), (10.0,)
        target.update_tags(TIFFTAG_DATETIME="2024:05:01 00:00:00", origin="survey")
        target.update_tags(1, STATISTICS_MEAN="3", legend="v2")
    with rasterio.open(joined(source, tmp_path, tmp_path / "mosaic.tif")) as after:
        assert after.colormap(1) == colours
        assert after.colorinterp == (ColorInterp.palette,)
        assert (after.descriptions, after.units, after.scales, after.offsets) == (
            ("land cover",),
            ("class",),
            (0.5,),
            (10.0,),
        )
        assert after.tags()["TIFFTAG_DATETIME"] == "2024:05:01 00:00:00"
        assert (after.tags()["origin"], after.tags(1)) == ("survey", {"legend": "v2"})


def test_same_pixels_same_bytes_in_any_order(tmp_path: Path) -> None:
    source = write(tmp_path / "source.tif", terrain("float32"))
    scheme, written, _ = cut(source, tmp_path)
    places = [(tile.col, tile.row) for tile in written]
    digests = set()
    for number, order in enumerate((places, places[::-1], [*places, places[0]])):
        path = tmp_path / f"mosaic-{number}.tif"
        mosaic_tiles(scheme, order, opener(tmp_path), path)
        digests.add(sha256(path.read_bytes()).hexdigest())
    assert len(digests) == 1
    again = tmp_path / "again"
    again.mkdir()
    cut(source, again)
    for path in again.iterdir():
        assert path.read_bytes() == (tmp_path / path.name).read_bytes()


def test_a_strange_tile_is_refused(tmp_path: Path) -> None:
    scheme, _, _ = cut(write(tmp_path / "source.tif", terrain("float32")), tmp_path)
    write(named(tmp_path, 0, 0), terrain("float32"))
    with pytest.raises(NonRetryableError, match="tile 0/0 has another size"):
        mosaic_tiles(scheme, [(0, 0)], opener(tmp_path), tmp_path / "mosaic.tif")
    with pytest.raises(NonRetryableError, match="no tile 9/0: the grid has 3 columns"):
        mosaic_tiles(scheme, [(9, 0)], opener(tmp_path), tmp_path / "mosaic.tif")


def test_tiles_of_a_matrix_are_warped_alike_whoever_makes_them(tmp_path: Path) -> None:
    """In any order the same bytes; together what warping the whole raster gives, but for ties of nearest pixels."""
    source = write(tmp_path / "source.tif", terrain("float32"), nodata=-1.0)
    digests = set()
    with rasterio.open(source) as dataset:
        scheme = matrix_grid(
            dataset, "WebMercatorQuad", zoom=13, tile_size=512, memory_bytes=64 * MEGABYTE, resampling="nearest"
        )
        tiles = [tile for batch in scheme.batches() for tile in scheme.tiles(batch)]
        with viewed(dataset, scheme) as view:
            whole = view.read()
        for order in (tiles, tiles[::-1]):
            with viewed(dataset, scheme) as view:
                written = [
                    tile for tile in order if write_tile(view, scheme, tile, named(tmp_path, tile.col, tile.row))
                ]
            mosaic_tiles(scheme, [(tile.col, tile.row) for tile in written], opener(tmp_path), tmp_path / "mosaic.tif")
            digests.add(sha256((tmp_path / "mosaic.tif").read_bytes()).hexdigest())
    assert len(digests) == 1
    with rasterio.open(tmp_path / "mosaic.tif") as after:
        assert (after.read() == whole).mean() > 0.999


@pytest.mark.parametrize("dtype", ["uint8", "int16", "float32"])
@pytest.mark.parametrize("has_mask", [False, True])
def test_what_a_matrix_has_around_the_raster_is_masked(tmp_path: Path, dtype: str, has_mask: bool) -> None:
    source = write(tmp_path / "source.tif", np.full((2, *SIZE[::-1]), 5, dtype=dtype))
    hidden = np.zeros(SIZE[::-1], dtype=bool)
    if has_mask:
        hidden[:, :650] = True
        with rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True), rasterio.open(source, "r+") as target:
            target.write_mask(~hidden)
    with rasterio.open(source) as dataset:
        scheme = matrix_grid(
            dataset, "WebMercatorQuad", zoom=13, tile_size=512, memory_bytes=64 * MEGABYTE, resampling="nearest"
        )
        tiles = [tile for batch in scheme.batches() for tile in scheme.tiles(batch)]
        with viewed(dataset, scheme) as view:
            written = [tile for tile in tiles if write_tile(view, scheme, tile, named(tmp_path, tile.col, tile.row))]
        mosaic_tiles(
            scheme, [(tile.col, tile.row) for tile in written], opener(tmp_path), tmp_path / "mosaic.tif", like=dataset
        )
    with rasterio.open(tmp_path / "mosaic.tif") as after:
        assert (after.count, after.dtypes[0]) == (2, dtype)
        mask = after.dataset_mask() > 0
        np.testing.assert_array_equal(after.read() == 5, np.stack([mask, mask]))
        # A pixel of 10 m at latitude 48 is 15 m wide in Mercator, where the zoom has 19.1 m.
        assert mask.sum() == pytest.approx((~hidden).sum() * (15.09 / 19.11) ** 2, rel=0.02)
