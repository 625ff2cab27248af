"""The kinds of samples, and where on Earth each one is. Imports nothing heavy, so that commands can list them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

# Pixels along each side.
LEAST_SIZE = 16
MOST_SIZE = 100_000
# A mountain range around a bay.
DEFAULT_SEED = 9
# As TIFF writes it. Never the clock: the same seed gives the same bytes.
DATETIME = "2024:06:15 10:30:00"


class Kind(StrEnum):
    DEM = "dem"
    MULTIBAND = "multiband"
    LANDCOVER = "landcover"
    TILE_SET = "tile-set"
    VECTOR = "vector"


class Content(StrEnum):
    """What the pixels mean."""

    ELEVATION = "elevation"
    REFLECTANCE = "reflectance"
    CLASSES = "classes"


@dataclass(frozen=True, slots=True)
class Sample:
    """A file to create. `pixel` is its width in units of the CRS; large rasters get finer ones for the same area.

    Files of a survey show one landscape together, `siblings` along each side; `row` and `column` count them.
    """

    name: str
    content: Content
    crs: str
    west: float
    north: float
    pixel: float
    widest: float
    nodata: float | None = None
    tiled: bool = True
    compress: str | None = "deflate"
    siblings: int = 1
    row: int = 0
    column: int = 0

    def pixel_at(self, size: int) -> float:
        return min(self.pixel, self.widest / size)


# Of rasters; those of vectors are in `vector_kinds`.
SAMPLES: dict[Kind, tuple[Sample, ...]] = {
    Kind.DEM: (Sample("dem.tif", Content.ELEVATION, "EPSG:32632", 399_960.0, 5_200_020.0, 30.0, 400_000.0, -9999.0),),
    Kind.MULTIBAND: (
        Sample("multiband.tif", Content.REFLECTANCE, "EPSG:32733", 300_000.0, 7_700_020.0, 10.0, 400_000.0, 0.0),
    ),
    # As many land cover maps come: in degrees, in strips, every pixel has a class.
    Kind.LANDCOVER: (
        Sample("landcover.tif", Content.CLASSES, "EPSG:4326", 36.0, 1.0, 0.0003, 8.0, None, False, "lzw"),
    ),
    Kind.TILE_SET: (
        *(
            Sample(
                f"survey_{row}_{column}.tif",
                Content.ELEVATION,
                "EPSG:32632",
                399_960.0,
                5_200_020.0,
                30.0,
                100_000.0,
                -9999.0,
                siblings=2,
                row=row,
                column=column,
            )
            for row in range(2)
            for column in range(2)
        ),
        Sample("web_mercator.tif", Content.REFLECTANCE, "EPSG:3857", 1_480_000.0, 6_900_000.0, 20.0, 200_000.0, None),
        Sample("degrees.tif", Content.CLASSES, "EPSG:4326", -72.0, -13.0, 0.0003, 4.0, None, False, "lzw"),
        # These two keep their width at any size, because of their centres: the pole, and the 180th meridian on Taveuni.
        Sample("south_pole.tif", Content.ELEVATION, "EPSG:3031", -60_000.0, 60_000.0, 10_000.0, 120_000.0, -9999.0),
        Sample(
            "antimeridian.tif", Content.ELEVATION, "EPSG:3832", 3_331_000.0, -1_850_000.0, 10_000.0, 17_000.0, -9999.0
        ),
        Sample(
            "uncompressed.tif", Content.REFLECTANCE, "EPSG:32733", 300_000.0, 7_700_020.0, 10.0, 9e4, 0.0, False, None
        ),
    ),
}
DEFAULT_SIZES = {Kind.DEM: 2048, Kind.MULTIBAND: 1024, Kind.LANDCOVER: 1024, Kind.TILE_SET: 512}
