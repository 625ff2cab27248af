"""What is done to features on their way, counted: nothing is lost without a warning."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st

from rmhdag.handlers.vector.antimeridian import crossing, cut
from rmhdag.handlers.vector.attributes import Attributes
from rmhdag.handlers.vector.moments import moments_of
from rmhdag.handlers.vector.refusals import Finding, Findings
from rmhdag.models.table_names import COLUMN_WORDS, MOST_TABLE_CHARACTERS, OWN_COLUMNS, TABLE_NAME, column_names
from rmhdag.testing.bench import HandlerBench
from tests.handlers.vector.files import codes_of, collection, prepare, rows_of, write

BOX = shapely.box(0, 0, 1, 1)


def test_projected_data_is_transformed_before_it_is_cut(bench: HandlerBench, tmp_path: Path) -> None:
    """In metres everything is wider than 180 degrees."""
    box = shapely.box(499_000, 5_540_000, 501_000, 5_541_000)
    run = prepare(bench, write(tmp_path / "m.gpkg", [box], {"n": [1]}, crs="EPSG:32632"), "m.gpkg")
    [row] = rows_of(bench, run)
    assert np.allclose(row["geom"].bounds, (8.986, 50.011, 9.014, 50.020), atol=0.001)
    assert (run.output["crs_input"], "ANTIMERIDIAN_SPLIT" in codes_of(run)) == ("EPSG:32632", False)


def test_what_crosses_180_degrees_is_cut_and_what_is_wide_is_not(bench: HandlerBench) -> None:
    fiji = shapely.Polygon([(177, -20), (-178, -20), (-178, -16), (177, -16)])
    beyond = shapely.Polygon([(179, 0), (183, 0), (183, 2), (179, 2)], [[(180.5, 0.5), (181, 0.5), (181, 1)]])
    cable = shapely.LineString([(170, 0), (-170, 10)])
    wide = shapely.Polygon([(-170, 60), (0, 60), (170, 60), (170, 70), (0, 70), (-170, 70)])
    world = shapely.box(-180, -90, 180, 90)
    far = shapely.Point(190, 5)
    run = prepare(
        bench,
        collection(*((shape, {"n": n}) for n, shape in enumerate([fiji, beyond, cable, world, far]))),
        "a.geojson",
    )
    shapes = {row["n"]: row["geom"] for row in rows_of(bench, run)}
    assert codes_of(run)["ANTIMERIDIAN_SPLIT"] == 4
    assert np.isclose(shapes[0].area, 5 * 4)
    assert [np.round(part.bounds, 6).tolist() for part in shapes[0].geoms] == [
        [177, -20, 180, -16],
        [-180, -20, -178, -16],
    ]
    assert np.isclose(shapes[1].area, beyond.area)
    assert len(shapes[2].geoms) == 2
    assert shapes[3].area == world.area
    assert shapes[4].bounds == (-170, 5, -170, 5)
    assert not crossing(np.array([wide, world], dtype=object)).any()


@given(st.floats(-300, 300), st.floats(0.01, 100), st.floats(-60, 60))
def test_cutting_keeps_the_area(west: float, width: float, south: float) -> None:
    box = shapely.box(west, south, west + width, south + 10)
    pieces = cut(box) if crossing(np.array([box], dtype=object)).any() else box
    assert np.isclose(pieces.area, box.area, rtol=1e-6)
    assert pieces.bounds[0] >= -180
    assert pieces.bounds[2] <= 180


def test_geometries_are_repaired_flattened_promoted_and_oriented(bench: HandlerBench) -> None:
    bowtie = shapely.Polygon([(0, 0), (2, 2), (2, 0), (0, 2)])
    spike = shapely.Polygon([(0, 0), (0, 1), (1, 1), (1, 0), (0.5, 0), (0.5, -1), (0.5, 0)])
    flat = shapely.Polygon([(0, 0), (1, 1), (0, 0)])
    high = shapely.Polygon([(0, 0, 5), (1, 0, 5), (1, 1, 5)])
    clockwise = shapely.Polygon([(0, 0), (0, 1), (1, 1), (1, 0)])
    shapes = [bowtie, spike, flat, high, clockwise, None]
    run = prepare(bench, collection(*((shape, {"n": n}) for n, shape in enumerate(shapes))), "a.geojson")
    rows = {row["n"]: row["geom"] for row in rows_of(bench, run)}
    codes = codes_of(run)
    assert sorted(rows) == [0, 1, 3, 4]
    assert all(shape.is_valid and shape.geom_type == "MultiPolygon" and not shape.has_z for shape in rows.values())
    assert all(ring.is_ccw for shape in rows.values() for ring in [part.exterior for part in shape.geoms])
    assert (codes["NULL_GEOMETRY_DROPPED"], codes["GEOMETRY_COLLAPSED_DROPPED"], codes["GEOMETRY_HEIGHTS_DROPPED"]) == (
        1,
        1,
        1,
    )
    assert codes["GEOMETRY_REPAIRED"] == 3
    assert run.output["rows_removed"] == sum(
        codes[code] for code in codes if code in ("NULL_GEOMETRY_DROPPED", "GEOMETRY_COLLAPSED_DROPPED")
    )


def test_mixed_kinds_become_tables_of_their_own(bench: HandlerBench) -> None:
    shapes = [shapely.Point(1, 1), BOX, shapely.LineString([(0, 0), (1, 1)]), shapely.MultiPoint([(2, 2), (3, 3)])]
    run = prepare(
        bench, collection(*((shape, {"n": n}) for n, shape in enumerate(shapes))), "a.geojson", table_name="mix"
    )
    groups = {group["table_name"]: group["row_count"] for group in run.output["geometry_groups"]}
    assert groups == {"mix_polygon": 1, "mix_line": 1, "mix_point": 2}
    assert "GEOMETRY_TYPE_SPLIT" in codes_of(run)


def test_names_of_columns_need_no_quotes_and_nothing_is_lost(bench: HandlerBench) -> None:
    long = "x" * 70
    properties: dict[str, Any] = {
        "id": 1, "geometry": "g", "Type": 1, "type": 2, "addr:city": 3, "addr.city": 4, "2020": 5, "Straße": 6, long: 7,
        long + "y": 8, "f_type": 9, "größe m²": 10, "": 11,
    }  # fmt: skip
    run = prepare(bench, collection((BOX, properties)), "a.geojson", column_mapping={"Straße": "street"})
    [row] = rows_of(bench, run)
    names = {column["source_name"]: column["name"] for column in run.output["columns"]}
    assert [row[names[source]] for source in properties if source in names] == [
        properties[source] for source in properties if source in names
    ]
    assert (names["id"], names["geometry"], names["Straße"], names["2020"]) == (
        "source_id",
        "source_geometry",
        "street",
        "col_2020",
    )
    assert names["f_type"] == "f_type", "a name that needs no change is not taken away"
    assert len(set(names.values())) == len(names)
    assert codes_of(run)["RESERVED_COLUMNS_RENAMED"] == 2


@given(st.lists(st.text(max_size=80), max_size=30))
def test_any_names_become_different_plain_names(names: list[str]) -> None:
    columns = column_names(names)
    assert len(set(columns)) == len(names)
    assert not OWN_COLUMNS.intersection(columns)
    assert not COLUMN_WORDS.intersection(columns)
    assert all(TABLE_NAME.fullmatch(column) and len(column) <= MOST_TABLE_CHARACTERS for column in columns)


def test_values_keep_their_types(bench: HandlerBench, tmp_path: Path) -> None:
    properties = {
        "big": 2**40, "when": "2020-01-02T03:04:05+02:00", "day": "2020-01-02", "yes": True, "list": [1, 2],
        "object": {"a": [1, None]}, "mixed": 1, "nothing": None,
    }  # fmt: skip
    other = {**properties, "mixed": "x", "yes": None}
    run = prepare(bench, collection((BOX, properties), (BOX, other)), "a.geojson")
    types = {column["name"]: column["type"] for column in run.output["columns"]}
    assert types == {
        "big": "bigint", "f_when": "timestamptz", "f_day": "date", "yes": "boolean", "list": "jsonb", "object": "jsonb",
        "mixed": "jsonb",
    }  # fmt: skip
    first, second = rows_of(bench, run)
    assert first["f_when"] == datetime(2020, 1, 2, 1, 4, 5, tzinfo=UTC)
    assert (json.loads(first["object"]), json.loads(first["mixed"]), json.loads(second["mixed"])) == (
        {"a": [1, None]},
        1,
        "x",
    )
    assert (first["big"], second["yes"]) == (2**40, None)
    assert codes_of(run)["EMPTY_COLUMNS_DROPPED"] == 1


def test_dates_that_no_calendar_has_become_null() -> None:
    """As KML without dates, and files of programs that count from other years."""
    findings = Findings()
    days = np.array(["2020-01-01", "20000-01-01", "NaT"], dtype="datetime64[ms]")
    batch = pa.RecordBatch.from_arrays([pa.array(days)], names=["seen"])
    [moments] = Attributes(batch.schema, {}, "a.kml", findings).convert(batch)
    assert [moment and moment.year for moment in moments.to_pylist()] == [2020, None, None]
    assert findings.counts[Finding.DATES_RESET] == 1


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_times_of_every_unit_are_the_same(unit: str) -> None:
    """Nanoseconds are what pandas, and so most GeoParquet files, have."""
    moments = [datetime(1700, 3, 4, 5, 6, 7, tzinfo=UTC), datetime(2261, 1, 2, tzinfo=UTC), None]
    batch = pa.RecordBatch.from_arrays([pa.array(moments, type=pa.timestamp(unit))], names=["seen"])
    findings = Findings()
    [column] = Attributes(batch.schema, {}, "a.parquet", findings).convert(batch)
    assert column.to_pylist() == moments
    assert not findings.counts.get(Finding.DATES_RESET)


def test_text_that_is_no_time_becomes_null() -> None:
    """FlatGeobuf has times as text."""
    findings = Findings()
    texts = ["2020-01-02 03:04:05.123456789", "2020-01-02T03:04:05+02:00", None, "soon", "12020-01-01T00:00:00"]
    moments = moments_of(pa.array(texts), "seen", findings).to_pylist()
    assert [moment and moment.hour for moment in moments] == [3, 1, None, None, None]
    assert findings.counts == {Finding.DATES_RESET: 2}


def test_kml_without_dates_has_nulls(bench: HandlerBench) -> None:
    """An empty date must not become a year that nobody wrote."""
    times = ["<TimeStamp><when>2020-01-02</when></TimeStamp>", "<TimeStamp><when></when></TimeStamp>", ""]
    places = [
        f"<Placemark><name>a</name>{time}<Point><coordinates>7,50</coordinates></Point></Placemark>" for time in times
    ]
    document = f'<kml xmlns="http://www.opengis.net/kml/2.2"><Document>{"".join(places)}</Document></kml>'
    run = prepare(bench, document, "a.kml")
    moments = [row["f_timestamp"] for row in rows_of(bench, run)]
    assert moments == [datetime(2020, 1, 2, tzinfo=UTC), None, None]


def test_rows_of_csv_that_are_left_out_are_counted(bench: HandlerBench) -> None:
    words = {"lat_name": "lat", "lon_name": "lon"}
    run = prepare(bench, "1.5;lat;lon\nKöln;50.5;7\n;;\nNA;-;NULL\nx;;7\n".encode("latin-1"), "a.csv", **words)
    [row] = rows_of(bench, run)
    assert row["col_1_5"] == "Köln", "not UTF-8, so Latin-1"
    codes = codes_of(run)
    assert (codes["HEADER_SUSPICIOUS"], codes["EMPTY_ROWS_DROPPED"], codes["NULL_GEOMETRY_DROPPED"]) == (1, 2, 1)
    run = prepare(bench, "g,n\nPOINT (1 2),1\nfoo,2\n,3\n", "b.csv", wkt_column="g")
    codes = codes_of(run)
    assert (codes["GEOMETRY_UNREADABLE_DROPPED"], codes["NULL_GEOMETRY_DROPPED"]) == (1, 1), "each row once"
    assert run.output["rows_removed"] == 2


KEYED = {
    "numbers": ([5, 700], "bigint"),
    "texts": (["a", "b"], "text"),
    "one of two": ([7, None], None),
    "twice": ([7, 7], None),
    "both kinds": ([7, "a"], None),
    "none": ([None, None], None),
}


@pytest.mark.parametrize("ending", ["geojson", "geojsonl"])
@pytest.mark.parametrize("case", KEYED.values(), ids=KEYED)
def test_the_id_of_a_feature_is_kept(bench: HandlerBench, case: tuple[list[Any], str | None], ending: str) -> None:
    ids, type_ = case
    geometry = {"type": "Point", "coordinates": [7, 50]}
    features = [{"type": "Feature", "id": one, "properties": {"n": 1}, "geometry": geometry} for one in ids]
    whole = {"type": "FeatureCollection", "features": features}
    lines = "\n".join(json.dumps(feature) for feature in features)
    run = prepare(bench, json.dumps(whole) if ending == "geojson" else lines, f"a.{ending}")
    types = {column["name"]: column["type"] for column in run.output["columns"]}
    assert types == ({"n": "integer"} if type_ is None else {"source_id": type_, "n": "integer"})
    if type_ is not None:
        assert [row["source_id"] for row in rows_of(bench, run)] == ids
    lost = 0 if type_ else sum(one is not None for one in ids)
    assert codes_of(run).get("FEATURE_IDS_DROPPED", 0) == lost


@pytest.mark.parametrize("ending", ["geojson", "geojsonl"])
def test_texts_that_a_property_called_id_hides_are_warned_of(bench: HandlerBench, ending: str) -> None:
    feature = {
        "type": "Feature",
        "id": "a",
        "properties": {"id": 4},
        "geometry": {"type": "Point", "coordinates": [7, 5]},
    }
    whole = {"type": "FeatureCollection", "features": [feature]}
    run = prepare(bench, json.dumps(whole if ending == "geojson" else feature), f"a.{ending}")
    assert codes_of(run)["FEATURE_IDS_DROPPED"] == 1


def test_numbers_of_features_need_not_rise_in_a_collection(bench: HandlerBench) -> None:
    point = {"type": "Point", "coordinates": [7, 50]}
    features = [{"type": "Feature", "id": number, "properties": {"n": number}, "geometry": point} for number in (9, 3)]
    run = prepare(bench, json.dumps({"type": "FeatureCollection", "features": features}), "a.geojson")
    assert [(row["source_id"], row["n"]) for row in rows_of(bench, run)] == [(9, 9), (3, 3)]
    assert "FEATURE_IDS_DROPPED" not in codes_of(run)


def test_an_id_that_a_property_is_called_too_has_a_name_of_its_own(bench: HandlerBench) -> None:
    feature = {
        "type": "Feature",
        "id": 9,
        "properties": {"id": 4},
        "geometry": {"type": "Point", "coordinates": [7, 50]},
    }
    run = prepare(bench, json.dumps({"type": "FeatureCollection", "features": [feature]}), "a.geojson")
    [row] = rows_of(bench, run)
    assert (row["source_id"], row["feature_id"]) == (4, 9)


@pytest.mark.parametrize(("key", "kept"), [("id", "source_id"), ("Parcel", "parcel"), ("fid", None)])
def test_the_key_of_a_geopackage_is_kept_if_somebody_has_named_it(
    bench: HandlerBench, tmp_path: Path, key: str, kept: str | None
) -> None:
    path = write(tmp_path / "k.gpkg", [BOX, BOX], {"n": [1, 2]}, layer_options={"FID": key})
    rows = rows_of(bench, prepare(bench, path, "k.gpkg"))
    assert [None if kept is None else row[kept] for row in rows] == ([1, 2] if kept else [None, None])


def test_nul_characters_in_objects_are_counted_and_what_looks_like_them_stays(bench: HandlerBench) -> None:
    box = {"type": "Point", "coordinates": [7, 50]}
    run = prepare(bench, collection((box, {"o": {"a": "x\0y"}}), (box, {"o": {"a": "\\u0000"}})), "a.geojson")
    assert [json.loads(row["o"]) for row in rows_of(bench, run)] == [{"a": "xy"}, {"a": "\\u0000"}]
    assert codes_of(run) == {"TEXT_CHANGED": 1}


def test_simplification_is_reported(bench: HandlerBench) -> None:
    circle = shapely.Point(0, 0).buffer(1, quad_segs=64)
    params = {"simplify": {"tolerance": 0.01}, "quantize": {"snap_to_grid": 0.001}}
    run = prepare(bench, collection((circle, {"n": 1})), "a.geojson", geometry_params=params)
    before, after = run.output["vertices"]["before"], run.output["vertices"]["after"]
    assert (before, after < before / 4) == (257, True)


def test_a_file_that_names_no_system_is_assumed_to_be_in_degrees(bench: HandlerBench, tmp_path: Path) -> None:
    path = write(tmp_path / "n.fgb", [BOX], {"n": [1]}, crs=None)
    assert "CRS_ASSUMED" in codes_of(prepare(bench, path, "n.fgb"))
    assert "CRS_OVERRIDE" in codes_of(prepare(bench, path, "n.fgb", crs="EPSG:4326"))
    metres = write(tmp_path / "m.fgb", [shapely.box(5e5, 5e6, 6e5, 6e6)], {"n": [1]}, crs=None)
    with pytest.raises(Exception, match="name the system in crs"):
        prepare(bench, metres, "m.fgb")
