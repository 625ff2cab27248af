"""The same features from every format, and files that nobody here made."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyproj
import pytest
import shapely

from rmhdag.handlers.contract import NonRetryableError
from rmhdag.handlers.vector.geoparquet import geo_metadata
from rmhdag.handlers.vector.ogr import pyogrio, quiet
from rmhdag.testing.bench import HandlerBench
from tests.handlers.vector.files import (
    SHAPEFILE_PARTS,
    codes_of,
    collection,
    prepare,
    rows_of,
    write,
    zipped,
    zipped_folder,
)

POINTS = [shapely.Point(7.25, 50.5), shapely.Point(-8.125, 51.75)]
CITIES = ["Köln", "Cork"]
NUMBERS = [5_000_000_000, 1]


def by_gdal(name: str, **options: Any) -> Callable[[Path], bytes]:
    return lambda folder: write(folder / name, POINTS, {"city": CITIES, "n": NUMBERS}, **options).read_bytes()


def csv_points(folder: Path) -> bytes:
    return "city;n;Lat ;LON\nKöln;5000000000;50.5;7.25\n;;;\nCork;1;51.75;-8.125\n".encode()


def csv_wkt(folder: Path) -> bytes:
    return "\ufeffcity,n,shape\nKöln,5000000000,POINT (7.25 50.5)\nCork,1,POINT (-8.125 51.75)\n".encode()


def sequence(folder: Path) -> bytes:
    features = json.loads(geojson(folder))["features"]
    return "\n".join(json.dumps(feature) for feature in features).encode()


def geojson(folder: Path) -> bytes:
    return collection(
        *zip(POINTS, [{"city": city, "n": n} for city, n in zip(CITIES, NUMBERS, strict=True)], strict=True)
    ).encode()


def kml(folder: Path) -> bytes:
    places = [
        f'<Folder><name>F{n}</name><Placemark><name>{city}</name><ExtendedData><Data name="n"><value>{n}</value></Data>'
        f"</ExtendedData><Point><coordinates>{point.x},{point.y},3</coordinates></Point></Placemark></Folder>"
        for point, city, n in zip(POINTS, CITIES, NUMBERS, strict=True)
    ]
    return f'<?xml version="1.0"?><kml xmlns="http://www.opengis.net/kml/2.2"><Document>{"".join(places)}</Document></kml>'.encode()


def utm_shapefile(folder: Path) -> bytes:
    x, y = pyproj.Transformer.from_crs(4326, 32630, always_xy=True).transform(
        [p.x for p in POINTS], [p.y for p in POINTS]
    )
    path = write(
        folder / "in.shp",
        list(shapely.points(x, y)),
        {"city": CITIES, "n": NUMBERS},
        crs="EPSG:32630",
        encoding="UTF-8",
    )
    files = {
        f"a/Roads{suffix.upper()}": path.with_suffix(suffix).read_bytes()
        for suffix in SHAPEFILE_PARTS
        if path.with_suffix(suffix).exists()
    }
    return zipped({**files, "__MACOSX/a/._Roads.SHP": b"x"})


def geodatabase(folder: Path) -> bytes:
    write(
        folder / "d.gdb",
        POINTS,
        {"city": CITIES, "n": NUMBERS},
        layer="cities",
        driver="OpenFileGDB",
        TARGET_ARCGIS_VERSION="ARCGIS_PRO_3_2_OR_LATER",
    )
    return zipped_folder(folder / "d.gdb", "export/d.gdb/")


def geoparquet(folder: Path) -> bytes:
    table = pa.table({"geom": pa.array(shapely.to_wkb(np.array(POINTS))), "city": CITIES, "n": NUMBERS})
    pq.write_table(table.replace_schema_metadata({"geo": geo_metadata("Point", None)}), folder / "p.parquet")
    return (folder / "p.parquet").read_bytes()


FORMATS: dict[str, tuple[str, Callable[[Path], bytes], dict[str, Any]]] = {
    "CSV with coordinates": ("a.csv", csv_points, {"lat_name": "lat", "lon_name": "lon"}),
    "CSV with WKT": ("a.csv", csv_wkt, {"wkt_column": "shape"}),
    "GeoJSON": ("a.geojson", geojson, {}),
    "a sequence of GeoJSON": ("a.geojsonl", sequence, {}),
    "GeoPackage": ("a.gpkg", by_gdal("in.gpkg"), {}),
    "KML": ("a.kml", kml, {}),
    "KMZ": ("a.kmz", lambda folder: zipped({"doc.kml": kml(folder), "icon.png": b"x"}), {}),
    "shapefile in UTM": ("a.zip", utm_shapefile, {}),
    "FlatGeobuf": ("a.fgb", by_gdal("in.fgb", SPATIAL_INDEX="NO"), {}),
    "File Geodatabase": ("a.zip", geodatabase, {}),
    "GeoParquet": ("a.parquet", geoparquet, {}),
}


@pytest.mark.parametrize("case", FORMATS.values(), ids=FORMATS)
def test_every_format_gives_the_same_features(
    bench: HandlerBench, tmp_path: Path, case: tuple[str, Callable[[Path], bytes], dict[str, Any]]
) -> None:
    name, make, params = case
    run = prepare(bench, make(tmp_path), name, **params)
    rows = sorted(rows_of(bench, run), key=lambda row: row["geom"].bounds[0], reverse=True)
    assert run.output["total_features"] == run.output["original_row_count"] == 2
    assert [row["geom"].geom_type for row in rows] == ["MultiPoint"] * 2
    # A centimetre: what the way through UTM and back costs.
    assert all(shapely.distance(row["geom"], point) < 1e-7 for row, point in zip(rows, POINTS, strict=True))
    cities = [row.get("city", row.get("f_name")) for row in rows]
    assert (cities, [int(row["n"]) for row in rows]) == (CITIES, NUMBERS)
    assert run.output["crs_output"] == "EPSG:4326"


def test_layers_become_tables_of_their_own(bench: HandlerBench, tmp_path: Path) -> None:
    path = write(tmp_path / "two.gpkg", POINTS, {"n": NUMBERS}, layer="Big Cities")
    write(path, [shapely.box(0, 0, 1, 1)], {"n": [1]}, layer="areas", append=True)
    run = prepare(bench, path, "two.gpkg", layer_names=["Big Cities", "areas"], table_name="base")
    assert run.output["tables"] == ["base_big_cities", "base_areas"]
    one = prepare(bench, path, "two.gpkg", layer_name="areas")
    assert (one.output["tables"], one.output["total_features"]) == (["t"], 1)


def test_every_placemark_of_kml_is_read(bench: HandlerBench) -> None:
    """In folders of folders, in folders of the same name, and beside empty ones; one without a place is counted."""
    place = "<Placemark><name>{}</name><Point><coordinates>5,5</coordinates></Point></Placemark>"
    a, b, c, d = map(place.format, "abcd")
    folders = f"{a}<Folder><name>f</name>{b}<Folder>{c}</Folder></Folder><Folder><name>f</name>{d}</Folder><Folder/>"
    bare = "<Placemark><name>e</name></Placemark>"
    document = f'<kml xmlns="http://www.opengis.net/kml/2.2"><Document>{folders}{bare}</Document></kml>'
    run = prepare(bench, document, "a.kml")
    folders_of = {row["f_name"]: row["folder"] for row in rows_of(bench, run)}
    assert folders_of == {"a": None, "b": "f", "c": None, "d": "f"}
    assert (run.output["original_row_count"], codes_of(run)["NULL_GEOMETRY_DROPPED"]) == (5, 1)


def test_a_row_of_csv_may_be_longer_than_a_block(bench: HandlerBench) -> None:
    """A country as WKT, among the rows that are looked at first and behind them."""
    country = shapely.Point(5, 5).buffer(1, quad_segs=30_000).wkt
    assert len(country) > 1_000_000
    rows = [f'{number},"{country if number in (1, 150) else "POINT (1 1)"}"' for number in range(1, 201)]
    run = prepare(bench, "\n".join(["n,shape", *rows]), "a.csv", wkt_column="shape")
    assert run.output["total_features"] == 200
    assert {group["geometry_type"]: group["row_count"] for group in run.output["geometry_groups"]} == {
        "MultiPolygon": 2,
        "MultiPoint": 198,
    }


def test_types_of_csv_are_those_that_every_row_fits(bench: HandlerBench) -> None:
    text = (
        "lat,lon,i,f,d,t,b,s,zip,e\n1,2,7,1.5,2020-01-02,2020-01-02T03:04:05Z,true,x,01234,\n"
        "1,2,,2,,2020-01-02 03:04:05,FALSE,-,12345,\n"
    )
    run = prepare(bench, text, "a.csv", lat_name="lat", lon_name="lon")
    types = {column["name"]: column["type"] for column in run.output["columns"]}
    assert types == {
        "lat": "bigint", "lon": "bigint", "i": "bigint", "f": "double precision", "d": "date", "t": "timestamptz",
        "b": "boolean", "s": "text", "zip": "text",
    }  # fmt: skip
    first, second = rows_of(bench, run)
    assert (first["zip"], first["t"].isoformat(), second["t"].isoformat()) == (
        "01234",
        *["2020-01-02T03:04:05+00:00"] * 2,
    )
    assert (second["i"], second["s"], second["b"]) == (None, None, False)
    assert codes_of(run)["EMPTY_COLUMNS_DROPPED"] == 1


TIMES = ["2020-01-02T00:00:00+05:45", "2021-01-01T12:30:00.250Z", "2020-01-01T18:15:00"]


@pytest.mark.parametrize("ending", ["fgb", "gpkg", "geojson"])
def test_times_keep_their_zones_in_every_format(bench: HandlerBench, tmp_path: Path, ending: str) -> None:
    times = pa.table({"geometry": shapely.to_wkb(np.array([POINTS[0]] * 3)), "seen": TIMES, "n": [0, 1, 2]})
    times = times.replace_schema_metadata(None).set_column(
        1, pa.field("seen", pa.string(), metadata={"GDAL:OGR:type": "DateTime"}), times["seen"]
    )
    drivers = {"fgb": "FlatGeobuf", "gpkg": "GPKG", "geojson": "GeoJSON"}
    path = tmp_path / f"t.{ending}"
    with quiet():
        pyogrio.raw.write_arrow(
            times, path, geometry_name="geometry", geometry_type="Point", crs="EPSG:4326", driver=drivers[ending]
        )
    rows = {row["n"]: row["seen"].isoformat() for row in rows_of(bench, prepare(bench, path, f"t.{ending}"))}
    assert rows[0] == "2020-01-01T18:15:00+00:00"
    assert rows[1].startswith("2021-01-01T12:30:00.25")
    assert rows[2] == "2020-01-01T18:15:00+00:00"


def packaged_files() -> dict[str, Path]:
    """The vector files inside the packages that rmhdag installs."""
    found: dict[str, Path] = {}
    for package in ("pyogrio", "geopandas", "shapely", "fiona"):
        spec = importlib.util.find_spec(package)
        if spec is not None and spec.origin is not None:
            folder = Path(spec.origin).parent / "tests"
            suffixes = (".gpkg", ".geojson", ".parquet", ".pbf", ".shp", ".pickle")
            found |= {f"{package}/{path.name}": path for path in sorted(folder.rglob("*")) if path.suffix in suffixes}
    return found


# Each is loaded with so many features, or refused with a sentence; docs/vector-pipeline.md has the same list.
OUTCOMES = {
    "pyogrio/curve.gpkg": "curved",
    "pyogrio/curvepolygon.gpkg": "curved",
    "pyogrio/line_zm.gpkg": 1,
    "pyogrio/list_field_values_file.parquet": "Parquet without geometries",
    "pyogrio/list_nested_struct_file.parquet": "Parquet without geometries",
    "pyogrio/multisurface.gpkg": "curved",
    "pyogrio/naturalearth_lowres.shp": 177,
    "pyogrio/sample.osm.pbf": "ogr2ogr",
    "pyogrio/test_gpkg_nulls.gpkg": 4,
    "geopandas/null_geom.geojson": 1,
}


def test_files_that_nobody_here_made_are_loaded_or_refused_with_a_sentence(bench: HandlerBench) -> None:
    outcomes: dict[str, int | str] = {}
    for name, path in packaged_files().items():
        if path.suffix == ".pickle":
            continue  # geometries of Python, no files
        content, target = path.read_bytes(), path.name
        if path.suffix == ".shp":
            files = {part.name: part.read_bytes() for part in path.parent.glob(f"{path.stem}.*")}
            content, target = zipped(files), f"{path.stem}.zip"
        try:
            outcomes[name] = prepare(bench, content, target).output["total_features"]
        except NonRetryableError as error:
            expected = OUTCOMES.get(name)
            outcomes[name] = expected if isinstance(expected, str) and expected in str(error) else str(error)
    assert outcomes == OUTCOMES
