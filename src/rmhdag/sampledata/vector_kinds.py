"""The vector samples: which layers there are, and in which formats and coordinate systems. Imports nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

# Of the layer with the most features; the others grow with it.
LEAST_FEATURES = 16
MOST_FEATURES = 5_000_000
DEFAULT_FEATURES = 2_000
# The square of the sample `dem` at its default size, so that both can be shown on one map.
UTM = "EPSG:32632"
WEST, NORTH, SIDE = 399_960.0, 5_200_020.0, 61_440.0
DEGREES = "EPSG:4326"
# Mercator around the Pacific: x does not jump at the 180th meridian.
PACIFIC = "EPSG:3832"


class Layer(StrEnum):
    DISTRICTS = "districts"
    ROADS = "roads"
    BUILDINGS = "buildings"
    PLACES = "places"
    ANTIMERIDIAN = "antimeridian"


class Format(StrEnum):
    GPKG = "gpkg"
    GEOJSON = "geojson"
    GEOJSONSEQ = "geojsonseq"
    SHAPEFILE = "shapefile"
    FLATGEOBUF = "flatgeobuf"
    GEOPARQUET = "geoparquet"
    CSV = "csv"
    CSV_WKT = "csv-wkt"
    KML = "kml"


@dataclass(frozen=True, slots=True)
class VectorSample:
    """A file to create: one layer, in one format and coordinate system."""

    name: str
    layer: Layer
    format: Format
    crs: str


VECTOR_SAMPLES = (
    VectorSample("districts.gpkg", Layer.DISTRICTS, Format.GPKG, "EPSG:3035"),
    VectorSample("districts.geojson", Layer.DISTRICTS, Format.GEOJSON, DEGREES),
    VectorSample("roads.zip", Layer.ROADS, Format.SHAPEFILE, UTM),
    VectorSample("roads.fgb", Layer.ROADS, Format.FLATGEOBUF, "EPSG:3857"),
    VectorSample("buildings.gpkg", Layer.BUILDINGS, Format.GPKG, UTM),
    VectorSample("buildings.parquet", Layer.BUILDINGS, Format.GEOPARQUET, UTM),
    VectorSample("buildings.geojsonl", Layer.BUILDINGS, Format.GEOJSONSEQ, DEGREES),
    VectorSample("places.csv", Layer.PLACES, Format.CSV, DEGREES),
    VectorSample("places_wkt.csv", Layer.PLACES, Format.CSV_WKT, DEGREES),
    VectorSample("places.kml", Layer.PLACES, Format.KML, DEGREES),
    VectorSample("antimeridian.geojson", Layer.ANTIMERIDIAN, Format.GEOJSON, DEGREES),
    VectorSample("antimeridian.gpkg", Layer.ANTIMERIDIAN, Format.GPKG, PACIFIC),
)
