"""Files that cannot be loaded are refused with a code and a sentence that says what to do."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from collections.abc import Callable, Mapping
from io import BytesIO
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
import shapely

from rmhdag.handlers.params import ParamsRefused
from rmhdag.handlers.vector.refusals import VectorRefused
from rmhdag.testing.bench import HandlerBench
from tests.handlers.vector.files import SHAPEFILE_PARTS, collection, prepare, write, zipped

POINT = shapely.Point(7, 50)
KML = '<?xml version="1.0"?><kml xmlns="http://www.opengis.net/kml/2.2"><Document>{}</Document></kml>'
PLACEMARK = "<Placemark><name>a</name><Point><coordinates>7,50</coordinates></Point></Placemark>"
CSV = {"lat_name": "lat", "lon_name": "lon"}


def shapefile(folder: Path, crs: str | None = "EPSG:4326", **options: Any) -> dict[str, bytes]:
    path = write(folder / "roads.shp", [POINT], {"n": [1]}, crs=crs, **options)
    return {
        f"roads{suffix}": path.with_suffix(suffix).read_bytes()
        for suffix in SHAPEFILE_PARTS
        if path.with_suffix(suffix).exists()
    }


def without(folder: Path, suffix: str) -> bytes:
    files = shapefile(folder)
    del files[f"roads{suffix}"]
    return zipped(files)


def two_layers(folder: Path) -> bytes:
    path = write(folder / "two.gpkg", [POINT], {"n": [1]}, layer="a")
    return write(path, [POINT], {"n": [1]}, layer="b", append=True).read_bytes()


def attributes_only(folder: Path) -> bytes:
    import numpy as np

    from rmhdag.handlers.vector.ogr import pyogrio

    path = folder / "table.gpkg"
    pyogrio.raw.write(path, None, [np.array([1])], ["n"], geometry_type=None, crs=None, layer="a")
    return path.read_bytes()


def qgis_styles(folder: Path) -> bytes:
    return write(folder / "s.gpkg", [POINT], {"styleqml": ["x"], "stylesld": ["y"]}, layer="layer_styles").read_bytes()


def encrypted(folder: Path) -> bytes:
    memory = BytesIO(zipped(shapefile(folder)))
    data = bytearray(memory.getvalue())
    # The flag of encryption, in the directory of each entry.
    place = data.find(b"PK\x01\x02")
    while place >= 0:
        data[place + 8] |= 1
        place = data.find(b"PK\x01\x02", place + 1)
    return bytes(data)


def with_link(folder: Path) -> bytes:
    memory = BytesIO()
    with zipfile.ZipFile(memory, "w") as archive:
        link = zipfile.ZipInfo("roads.shp")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "/etc/passwd")
    return memory.getvalue()


def huge(folder: Path) -> bytes:
    memory = BytesIO(zipped({"roads.shp": b"x", "roads.shx": b"x", "roads.dbf": b"x"}))
    data = bytearray(memory.getvalue())
    place = data.find(b"PK\x01\x02")
    data[place + 24 : place + 28] = (0xFFFFFFF0).to_bytes(4, "little")
    place = data.find(b"PK\x01\x02", place + 1)
    data[place + 24 : place + 28] = (0xFFFFFFF0).to_bytes(4, "little")
    place = data.find(b"PK\x01\x02", place + 1)
    data[place + 24 : place + 28] = (0xFFFFFFF0).to_bytes(4, "little")
    return bytes(data)


class Case(NamedTuple):
    name: str
    content: bytes | str | Callable[[Path], bytes]
    code: str
    words: str
    params: Mapping[str, Any] = MappingProxyType({})


BOWTIES = {"type": "GeometryCollection", "geometries": [{"type": "Point", "coordinates": [1, 2]}]}
CASES = {
    "bare shapefile": Case("a.shp", b"\x00\x00\x27\x0a", "INVALID_FORMAT", "into one .zip"),
    "spreadsheet": Case("a.xls", b"PK\x03\x04", "INVALID_FORMAT", "save the sheet as CSV"),
    "OpenStreetMap": Case("a.osm.pbf", b"xx", "INVALID_FORMAT", "ogr2ogr"),
    "unknown": Case("a.doc", b"xx", "INVALID_FORMAT", "accepted are .csv"),
    "empty file": Case("a.geojson", b"", "VECTOR_NO_FEATURES", "is empty"),
    "GeoJSON that is a page": Case(
        "a.geojson", "<html><body>404</body></html>", "VECTOR_FORMAT_MISMATCH", "an HTML page"
    ),
    "GeoJSON that is an archive": Case("a.geojson", zipped({"x": b"y"}), "VECTOR_FORMAT_MISMATCH", "a ZIP archive"),
    "GeoJSON that is broken": Case(
        "a.geojson", '{"type": "FeatureCollection",\n "features": [}', "VECTOR_UNREADABLE", "line 2, column 15"
    ),
    "JSON that is no GeoJSON": Case("a.json", '{"type": "Topology"}', "VECTOR_FORMAT_MISMATCH", "'Topology'"),
    "no features": Case(
        "a.geojson", '{"type": "FeatureCollection", "features": []}', "VECTOR_NO_FEATURES", "without features"
    ),
    "GeoJSON in Latin-1": Case(
        "a.geojson",
        collection((POINT, {"a": "x"})).replace('"x"', '"ü"').encode("latin-1"),
        "VECTOR_ENCODING_ERROR",
        "UTF-8",
    ),
    "all geometries null": Case("a.geojson", collection((None, {"a": 1})), "VECTOR_GEOMETRY_EMPTY", "no feature"),
    "geometry collection": Case("a.geojson", collection((BOWTIES, {"a": 1})), "VECTOR_MIXED_GEOMETRY", "explode"),
    "GeoPackage that is not": Case(
        "a.gpkg", b"SQLite format 3\x00" + b"\x01" * 200, "VECTOR_FORMAT_MISMATCH", "SQLite"
    ),
    "several layers": Case("a.gpkg", two_layers, "MISSING_PARAMETER", "'a', 'b'"),
    "no such layer": Case("a.gpkg", two_layers, "INVALID_PARAMETER", "no layer 'c'", {"layer_name": "c"}),
    "a table without geometries": Case("a.gpkg", attributes_only, "VECTOR_GEOMETRY_EMPTY", "only tables"),
    "styles of QGIS": Case("a.gpkg", qgis_styles, "INVALID_FORMAT", "QGIS"),
    "KML that is a page": Case("a.kml", "<!DOCTYPE html><html></html>", "VECTOR_FORMAT_MISMATCH", "an HTML page"),
    "KML with another root": Case("a.kml", "<gpx></gpx>", "VECTOR_FORMAT_MISMATCH", "<gpx>"),
    "KML without places": Case("a.kml", KML.format("<NetworkLink/>"), "VECTOR_NO_FEATURES", "network link"),
    "KML that is broken": Case("a.kml", KML.format("<Placemark>"), "VECTOR_UNREADABLE", "line 1"),
    "KML with entities": Case(
        "a.kml", '<!DOCTYPE kml [<!ENTITY a "b">]>' + KML.format(PLACEMARK)[21:], "VECTOR_UNREADABLE", "entities"
    ),
    "broken KMZ": Case("a.kmz", b"PK\x03\x04 and nothing else", "CORRUPTED_FILE", "damaged ZIP"),
    "KMZ with two documents": Case("a.kmz", zipped({"a.kml": b"", "b.kml": b""}), "INVALID_FORMAT", "2 KML files"),
    "zip without shapefile": Case("a.zip", zipped({"readme.txt": b"x"}), "INVALID_FORMAT", "no shapefiles"),
    "zip with two shapefiles": Case("a.zip", zipped({"a.shp": b"", "b.shp": b""}), "INVALID_FORMAT", "2 shapefiles"),
    "no .shx": Case("a.zip", lambda folder: without(folder, ".shx"), "INVALID_FORMAT", "lacks .shx"),
    "no .dbf": Case("a.zip", lambda folder: without(folder, ".dbf"), "INVALID_FORMAT", "lacks .dbf"),
    "no .prj": Case("a.zip", lambda folder: without(folder, ".prj"), "CRS_MISSING", ".prj"),
    "zip that leads out": Case("a.zip", zipped({"../roads.shp": b"x"}), "INVALID_FORMAT", "leads out"),
    "absolute name in zip": Case("a.zip", zipped({"/roads.shp": b"x"}), "INVALID_FORMAT", "leads out"),
    "link in zip": Case("a.zip", with_link, "INVALID_FORMAT", "symbolic link"),
    "archive in zip": Case("a.zip", zipped({"roads.zip": b"x"}), "INVALID_FORMAT", "another archive"),
    "password": Case("a.zip", encrypted, "FILE_UNREADABLE", "password"),
    "a bomb": Case("a.zip", huge, "FILE_TOO_LARGE", "RMHDAG_VECTOR_MAX_UNPACKED_MB"),
    "CSV without columns": Case("a.csv", "lat,lon\n1,2\n", "MISSING_PARAMETER", "lat_name"),
    "CSV with other columns": Case("a.csv", "y,x\n1,2\n", "INVALID_PARAMETER", "no column 'lat'", CSV),
    "CSV with a header only": Case("a.csv", "lat,lon\n", "VECTOR_NO_FEATURES", "no rows", CSV),
    "CSV with empty rows only": Case("a.csv", "lat,lon\n,\nNA,null\n", "VECTOR_NO_FEATURES", "no rows", CSV),
    "text in a latitude": Case("a.csv", "lat,lon\nnorth,2\n", "VECTOR_COORDINATE_ERROR", "'north'", CSV),
    "text in a late latitude": Case(
        "a.csv", "lat,lon\n" + "1,2\n" * 200 + "x,2\n", "VECTOR_COORDINATE_ERROR", "line 202", CSV
    ),
    "swapped axes": Case("a.csv", "lat,lon\n170,2\n", "VECTOR_COORDINATE_ERROR", "swapped", CSV),
    "garbage WKT": Case("a.csv", "g\nfoo\nbar\n", "VECTOR_GEOMETRY_INVALID", "no WKT", {"wkt_column": "g"}),
    "a quote that is missing": Case(
        "a.csv",
        "g,n\n" + "POINT (1 1),1\n" * 150 + '"POINT (2 2),2\n' + "POINT (2 2),2\n" * 150,
        "VECTOR_UNREADABLE",
        "columns",
        {"wkt_column": "g"},
    ),
    "ragged CSV": Case("a.csv", "lat,lon\n1,2\n1,2,3\n", "VECTOR_UNREADABLE", "columns", CSV),
    "Parquet without geometries": Case("a.parquet", b"PAR1" + b"x" * 20, "CORRUPTED_FILE", "damaged Parquet"),
    "metres without a system": Case(
        "a.csv", "g\nPOINT (500000 5000000)\n", "VECTOR_COORDINATE_ERROR", "not on earth", {"wkt_column": "g"}
    ),
    "another system than ordered": Case(
        "a.geojson", collection((POINT, {"a": 1})), "CRS_MISMATCH", "EPSG:32633", {"crs": "EPSG:32633"}
    ),
    "a system that is a file": Case(
        "a.geojson", collection((POINT, {"a": 1})), "INVALID_PARAMETER", "not a code", {"crs": "/etc/passwd"}
    ),
    "rename of nothing": Case(
        "a.geojson",
        collection((POINT, {"a": 1})),
        "VECTOR_ATTRIBUTE_ERROR",
        "no column 'b'",
        {"column_mapping": {"b": "c"}},
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_file_is_refused_with_a_remedy(bench: HandlerBench, tmp_path: Path, case: Case) -> None:
    content = case.content(tmp_path) if callable(case.content) else case.content
    with pytest.raises(VectorRefused, match=r".") as refusal:
        prepare(bench, content, case.name, **case.params)
    error = refusal.value.error
    assert error is not None
    assert (error.code, case.words in str(refusal.value)) == (case.code, True), str(refusal.value)
    assert str(tmp_path) not in str(refusal.value), "no path of the worker in a message"


@pytest.mark.parametrize("name", ["123bad", "select", "a.b", "x" * 64, "weiß"])
def test_names_of_tables_are_checked_before_anything_else(bench: HandlerBench, name: str) -> None:
    with pytest.raises(ParamsRefused, match=r"a table|reserved word"):
        prepare(bench, b"", "a.gpkg", table_name=name)


def test_a_file_that_is_missing_or_too_large_is_never_copied(
    bench: HandlerBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    params = {"container_name": "in", "blob_name": "none.gpkg", "table_name": "t", "target": "geoparquet"}
    with pytest.raises(VectorRefused, match="there is no file"):
        bench.run("vector.prepare", params)
    monkeypatch.setenv("RMHDAG_VECTOR_MAX_FILE_MB", "1")
    with pytest.raises(VectorRefused, match="RMHDAG_VECTOR_MAX_FILE_MB"):
        prepare(bench, b"{" + b" " * 2**20 + b"}", "a.geojson")


def test_gdal_has_registered_no_other_drivers_and_reaches_no_network() -> None:
    """In a process of its own, as a child of a worker is one."""
    code = """
from rmhdag.handlers.vector.ogr import DRIVERS, pyogrio
drivers = set(pyogrio.list_drivers())
assert drivers - {"MEM"} == DRIVERS, drivers ^ DRIVERS
assert pyogrio.get_gdal_config_option("GDAL_HTTP_PROXY") == "http://127.0.0.1:0"
assert pyogrio.get_gdal_config_option("CPL_VSIL_CURL_ALLOWED_FILENAME") == "/vsicurl/none"
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_code_is_in_the_table() -> None:
    from rmhdag.handlers.vector.refusals import Finding
    from rmhdag.models.error_codes import ERROR_CODES, WARNING_CODES

    assert {case.code for case in CASES.values()} <= ERROR_CODES.keys()
    assert {finding.value for finding in Finding} <= WARNING_CODES.keys()
    assert json.dumps(sorted(CASES)), "ids are plain text"
