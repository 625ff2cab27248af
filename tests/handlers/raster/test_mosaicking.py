"""raster.mosaic: what was cut comes together again, and rasters of one grid become one."""

from itertools import product
from typing import Any

import numpy as np
import pytest
import rasterio
from rasterio.enums import MaskFlags
from rasterio.merge import merge
from rasterio.transform import from_origin
from rasterio.windows import Window

from rmhdag.handlers import NonRetryableError
from rmhdag.handlers.raster.tiles import write_tile
from rmhdag.handlers.raster.tiling_scheme import pixel_grid
from rmhdag.models.blobs import BlobRef
from rmhdag.models.records import Zone
from tests.handlers.raster.rasters import WGS84, Bench, hills, write_raster


def put(bench: Bench, name: str, pixels: Any, left: int = 0, top: int = 0, **options: Any) -> dict[str, Any]:
    """A raster at so many pixels from the corner."""
    place = from_origin(500_000 + 10 * left, 5_000_000 - 10 * top, 10, 10)
    options = {"transform": place, **options}
    return bench.put(write_raster(bench.folder / name, pixels, **options)).model_dump(mode="json")


def test_four_quarters_are_the_whole(bench: Bench) -> None:
    pixels = hills(1100, 1300, bands=2)
    corners = list(product((0, 600), (0, 500)))
    sources = [
        put(bench, f"{left}-{top}.tif", pixels[:, top : top + 500 + top, left : left + 600 + left], left, top)
        for left, top in corners
    ]
    output: Any = bench.output("raster.mosaic", sources=sources[::-1], item_id="all")
    with rasterio.open(bench.path(output["mosaic"])) as made:
        np.testing.assert_array_equal(made.read(), pixels)
        assert made.transform == from_origin(500_000, 5_000_000, 10, 10)
        assert made.dataset_mask().all()
    assert output["count"] == 4
    assert output["mosaic"]["path"].startswith("all/all-")


def test_the_first_that_has_a_value_counts(bench: Bench) -> None:
    """As rasterio's own merge has it, band by band."""
    first, second = hills(300, 300, bands=2), hills(300, 300, bands=2) + 1000
    first[0, 100:150, 200:] = -5
    second[:, :50] = -5
    sources = [
        put(bench, "a.tif", first, 0, 0, nodata=-5),
        put(bench, "b.tif", second, 150, 80, nodata=-5),
    ]
    output: Any = bench.output("raster.mosaic", sources=sources)
    with (
        rasterio.open(bench.path(sources[0])) as one,
        rasterio.open(bench.path(sources[1])) as other,
        rasterio.open(bench.path(output["mosaic"])) as made,
    ):
        expected, place = merge([one, other])
        assert made.transform == place
        np.testing.assert_array_equal(made.read(), expected)
        assert (expected[0] != expected[1]).any()


def test_gaps_of_rasters_without_nodata_are_masked(bench: Bench) -> None:
    sources = [put(bench, f"{at}.tif", hills(50, 50, dtype="uint8"), at, at) for at in (0, 70)]
    output: Any = bench.output("raster.mosaic", sources=sources)
    with rasterio.open(bench.path(output["mosaic"])) as made:
        mask = made.dataset_mask() > 0
    assert mask[:50, :50].all()
    assert mask[70:, 70:].all()
    assert mask.sum() == 2 * 50 * 50


@pytest.mark.parametrize("by_mask", [False, True])
def test_holes_of_a_later_raster_stay_holes(bench: Bench, by_mask: bool) -> None:
    first, second = np.full((100, 100), 7, dtype="int16"), np.full((100, 100), 9, dtype="int16")
    second[:50] = -99
    path = write_raster(bench.folder / "b.tif", second, transform=from_origin(501_000, 5_000_000, 10, 10))
    with rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True), rasterio.open(path, "r+") as given:
        if by_mask:
            given.write_mask(second != -99)
        else:
            given.nodata = -99
    sources = [put(bench, "a.tif", first), bench.put(path).model_dump(mode="json")]
    output: Any = bench.output("raster.mosaic", sources=sources)
    with rasterio.open(bench.path(output["mosaic"])) as made:
        expected = np.hstack([np.ones((100, 100), dtype=bool), second == 9])
        np.testing.assert_array_equal(made.dataset_mask() > 0, expected)
        np.testing.assert_array_equal(made.read(1)[expected], np.hstack([first, second])[expected])


def test_a_gap_is_a_gap_though_others_lie_twice_on_one_place(bench: Bench) -> None:
    pixels = np.full((100, 100), 7, dtype="int16")
    sources = [put(bench, f"{name}.tif", pixels, left) for name, left in (("a", 0), ("b", 0), ("c", 200))]
    output: Any = bench.output("raster.mosaic", sources=sources)
    with rasterio.open(bench.path(output["mosaic"])) as made:
        mask = made.dataset_mask() > 0
        assert mask[:, :100].all()
        assert not mask[:, 100:200].any()
        assert mask[:, 200:].all()


def test_rasters_that_overlap_without_a_gap_need_no_mask(bench: Bench) -> None:
    pixels = np.full((100, 100), 7, dtype="int16")
    corners = [(0, 0), (60, 0), (0, 60), (60, 60), (30, 30)]
    sources = [put(bench, f"{left}-{top}.tif", pixels, left, top) for left, top in corners]
    output: Any = bench.output("raster.mosaic", sources=sources)
    with rasterio.open(bench.path(output["mosaic"])) as made:
        assert made.mask_flag_enums == ([MaskFlags.all_valid],)


def test_a_value_that_would_become_nodata_is_refused(bench: Bench) -> None:
    first, second = np.full((100, 100), 7, dtype="int16"), np.full((100, 100), 9, dtype="int16")
    second[10, 10] = -1
    sources = [put(bench, "a.tif", first, nodata=-1), put(bench, "b.tif", second, 100, nodata=-32768)]
    with pytest.raises(NonRetryableError, match="raster 2 has valid pixels of -1, which is the nodata of the first"):
        bench.run("raster.mosaic", sources=sources)
    assert bench.files(Zone.SILVER) == []
    second[10, 10] = -32768
    sources[1] = put(bench, "b.tif", second, 100, nodata=-32768)
    output: Any = bench.output("raster.mosaic", sources=sources)
    with rasterio.open(bench.path(output["mosaic"])) as made:
        assert (made.read(1) == -1).sum() == 1
        assert made.nodata == -1


@pytest.mark.parametrize("meaning", [{"scales": (0.1,)}, {"offsets": (100.0,)}])
def test_values_of_another_scale_are_refused(bench: Bench, meaning: dict[str, Any]) -> None:
    path = write_raster(bench.folder / "b.tif", hills(40, 40, dtype="int16"))
    with rasterio.open(path, "r+") as given:
        for name, value in meaning.items():
            setattr(given, name, value)
    sources = [put(bench, "a.tif", hills(40, 40, dtype="int16")), bench.put(path).model_dump(mode="json")]
    with pytest.raises(NonRetryableError, match="raster 2 has another scale or offset than the first one"):
        bench.run("raster.mosaic", sources=sources)
    assert bench.files(Zone.SILVER) == []


def test_an_alpha_band_beside_a_plain_one_is_refused(bench: Bench) -> None:
    pixels = hills(40, 40, dtype="uint8", bands=4)
    sources = [
        put(bench, "a.tif", pixels, photometric="RGB", alpha="YES"),
        put(bench, "b.tif", pixels, photometric="RGB", alpha="NO"),
    ]
    with pytest.raises(NonRetryableError, match="only one of raster 2 and the first one has an alpha band"):
        bench.run("raster.mosaic", sources=sources)


def test_alpha_decides_for_all_bands(bench: Bench) -> None:
    first, second = hills(40, 40, dtype="uint8", bands=4), hills(40, 40, dtype="uint8", bands=4) // 2
    first[3], second[3] = 255, 255
    first[3, :20] = 0
    sources = [
        put(bench, f"{name}.tif", pixels, photometric="RGB", alpha="YES")
        for name, pixels in (("a", first), ("b", second))
    ]
    output: Any = bench.output("raster.mosaic", sources=sources)
    with rasterio.open(bench.path(output["mosaic"])) as made:
        np.testing.assert_array_equal(made.read()[:, :20], second[:, :20])
        np.testing.assert_array_equal(made.read()[:, 20:], first[:, 20:])


def test_many_strips(bench: Bench) -> None:
    pixels = hills(40, 400)
    sources = [put(bench, f"{at}.tif", pixels[:, :, at : at + 10], at) for at in range(0, 400, 10)]
    output: Any = bench.output("raster.mosaic", sources=sources)
    with rasterio.open(bench.path(output["mosaic"])) as made:
        np.testing.assert_array_equal(made.read(), pixels)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"transform": from_origin(500_003, 5_000_000, 10, 10)}, "raster 2 do not lie on those of the first"),
        ({"transform": from_origin(500_000, 5_000_000, 20, 20)}, "raster 2 do not lie on those of the first"),
        ({"crs": WGS84, "transform": from_origin(0, 1, 0.001, 0.001)}, "raster 2 has another coordinate system"),
    ],
)
def test_other_grids_are_refused(bench: Bench, options: dict[str, Any], sentence: str) -> None:
    sources = [put(bench, "a.tif", hills(40, 40)), put(bench, "b.tif", hills(40, 40), **options)]
    with pytest.raises(NonRetryableError, match=sentence):
        bench.run("raster.mosaic", sources=sources)
    assert bench.files(Zone.SILVER) == []


def cut(bench: Bench, source: dict[str, Any], empty: Window) -> tuple[Any, list[dict[str, Any]]]:
    """All tiles of a raster, without those that hold nothing."""
    tiles = []
    with rasterio.open(bench.path(source)) as dataset:
        scheme = pixel_grid(dataset, tile_size=512, memory_bytes=2**24)
        for batch in scheme.batches(2):
            for tile in scheme.tiles(batch):
                local = bench.folder / "tile.tif"
                if write_tile(dataset, scheme, tile, local):
                    blob = bench.storage.upload(local, scheme.address(BlobRef.model_validate(source), tile))
                    tiles.append({"col": tile.col, "row": tile.row, "blob": blob.model_dump(mode="json")})
                else:
                    assert (tile.window.col_off, tile.window.row_off) == (empty.col_off, empty.row_off)
    return scheme.model_dump(mode="json"), tiles


def test_tiles_in_any_order_are_the_raster_again(bench: Bench) -> None:
    pixels = hills(1100, 1300)
    pixels[:, 512:1024, 512:1024] = -5
    source = put(bench, "in.tif", pixels, nodata=-5, tiled=True, blockxsize=256, blockysize=256)
    scheme, tiles = cut(bench, source, Window(512, 512, 512, 512))
    results = [{"tiles": tiles[4:], "empty": [{"col": 1, "row": 1}]}, {"tiles": tiles[:4], "made": 4}]
    output: Any = bench.output("raster.mosaic", results=results, scheme=scheme, source=source, item_id="m")
    again: Any = bench.output("raster.mosaic", tiles=tiles, scheme=scheme, source=source, item_id="m")
    assert output == again
    with rasterio.open(bench.path(output["mosaic"])) as made:
        np.testing.assert_array_equal(made.read(), pixels)
        assert made.transform == from_origin(500_000, 5_000_000, 10, 10)
        assert made.nodata == -5


def test_a_tile_that_is_missing_is_missed(bench: Bench) -> None:
    source = put(bench, "in.tif", hills(600, 600))
    scheme, tiles = cut(bench, source, Window(0, 0, 0, 0))
    with pytest.raises(NonRetryableError, match="1 of 2 tiles are missing: retry the batches that failed"):
        bench.run("raster.mosaic", results=[{"tiles": tiles[1:]}], scheme=scheme)


def test_a_source_that_was_replaced_while_it_was_cut_leaves_no_tile(bench: Bench) -> None:
    """By a file of the same size: each tile could be from either, and its name would say from the first."""
    pixels = hills(600, 600)
    source = put(bench, "in.tif", pixels)
    scheme, tiles = cut(bench, source, Window(0, 0, 0, 0))
    assert put(bench, "in.tif", pixels + 1)["size_bytes"] == source["size_bytes"]
    with pytest.raises(NonRetryableError, match="was replaced while its tiles were cut"):
        bench.run("raster.mosaic", tiles=tiles, scheme=scheme, source=source)
    assert not list(bench.storage.list(Zone.SILVER, "work"))


def test_a_cog_of_the_mosaic_has_the_bytes_of_a_cog_of_the_source(bench: Bench) -> None:
    """Both ways of a workflow lead to one content hash."""
    pixels = hills(1100, 700)
    source = put(bench, "in.tif", pixels, nodata=-5)
    scheme, tiles = cut(bench, source, Window(0, 0, 0, 0))
    mosaic: Any = bench.output("raster.mosaic", tiles=tiles, scheme=scheme, source=source)
    direct: Any = bench.output("raster.create_cog", source=source, item_id="x")
    tiled: Any = bench.output("raster.create_cog", source=mosaic["mosaic"], item_id="x")
    assert tiled["cog"] == direct["cog"]


@pytest.mark.parametrize("params", [{}, {"tiles": []}, {"sources": []}, {"sources": [], "tiles": []}])
def test_something_must_be_given(bench: Bench, params: dict[str, Any]) -> None:
    with pytest.raises(NonRetryableError, match=r"give `tiles` or `results`|at least 1 item"):
        bench.run("raster.mosaic", **params)
