"""Files of which a part is missing or overwritten are refused: no table has a part of a file."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
import shapely

from rmhdag.handlers.vector.refusals import VectorRefused
from rmhdag.testing.bench import HandlerBench
from tests.handlers.vector.files import SHAPEFILE_PARTS, prepare, write, zipped, zipped_folder

COUNT = 2_000
PAGE_BYTES = 4096
LINES = [
    json.dumps({"type": "Feature", "properties": {"n": n}, "geometry": {"type": "Point", "coordinates": [n, n]}})
    for n in range(1, 4)
]


def layer(path: Path) -> Path:
    boxes = [shapely.box(n / 20, 0, n / 20 + 0.01, 1) for n in range(COUNT)]
    return write(path, boxes, {"n": list(range(COUNT)), "s": [f"name {n}" for n in range(COUNT)]})


def half(data: bytes) -> bytes:
    return data[: len(data) // 2]


def shapefile_with_half(suffix: str) -> Callable[[Path], bytes]:
    def make(folder: Path) -> bytes:
        path = layer(folder / "roads.shp")
        files = {part: path.with_suffix(part) for part in SHAPEFILE_PARTS if path.with_suffix(part).exists()}
        return zipped(
            {
                file.name: half(file.read_bytes()) if part == suffix else file.read_bytes()
                for part, file in files.items()
            }
        )

    return make


def geopackage_with_a_page_of_zeros(folder: Path) -> bytes:
    data = layer(folder / "in.gpkg").read_bytes()
    start = len(data) // 2 // PAGE_BYTES * PAGE_BYTES
    return data[:start] + bytes(PAGE_BYTES) + data[start + PAGE_BYTES :]


def half_of_a_geodatabase(folder: Path) -> bytes:
    database = folder / "d.gdb"
    boxes = [shapely.box(n / 20, 0, n / 20 + 0.01, 1) for n in range(COUNT)]
    write(database, boxes, {"n": list(range(COUNT))}, layer="boxes", driver="OpenFileGDB")
    table = max(database.glob("*.gdbtable"), key=lambda file: file.stat().st_size)
    table.write_bytes(half(table.read_bytes()))
    return zipped_folder(database, "d.gdb/")


def text(content: str) -> Callable[[Path], bytes]:
    return lambda folder: content.encode()


CASES: dict[str, tuple[str, Callable[[Path], bytes], str, str]] = {
    "half of a .dbf": ("a.zip", shapefile_with_half(".dbf"), "CORRUPTED_FILE", "its .dbf"),
    "half of a .shp": ("a.zip", shapefile_with_half(".shp"), "CORRUPTED_FILE", "its .shp"),
    "half of a .shx": ("a.zip", shapefile_with_half(".shx"), "VECTOR_UNREADABLE", ".shx"),
    "a page of a GeoPackage": ("a.gpkg", geopackage_with_a_page_of_zeros, "CORRUPTED_FILE", "malformed"),
    "half of a geodatabase": ("a.zip", half_of_a_geodatabase, "CORRUPTED_FILE", f"has {COUNT:,} features"),
    "half of a FlatGeobuf": (
        "a.fgb", lambda folder: half(layer(folder / "in.fgb").read_bytes()), "CORRUPTED_FILE", "incomplete",
    ),
    "half of a GeoParquet": ("a.parquet", text("PAR1" + "x" * 100), "CORRUPTED_FILE", "damaged"),
    "a line that ends early": (
        "a.geojsonl", text("\n".join(LINES)[:-9]), "VECTOR_UNREADABLE", "line 3 of a.geojsonl is not valid JSON",
    ),
    "a line that is broken": (
        "a.geojsonl", text("\n".join([LINES[0], "{type:", LINES[1]])), "VECTOR_UNREADABLE", "line 2",
    ),
    "a line of something else": (
        "a.geojsonl", text("\n".join([LINES[0], '{"type": "Topology"}'])), "VECTOR_FORMAT_MISMATCH", "'Topology'",
    ),
    "a record that is broken": (
        "a.geojsonl", text(f"\x1e{LINES[0]}\n\x1e{LINES[1][:-3]}\n\x1e{LINES[2]}"), "VECTOR_UNREADABLE", "record 2",
    ),
    "a line in Latin-1": (
        "a.geojsonl", lambda folder: LINES[0].replace('"n"', '"ü"').encode("latin-1"), "VECTOR_ENCODING_ERROR", "UTF-8",
    ),
    "a member that is not a feature": (
        "a.geojson", text(f'{{"type": "FeatureCollection", "features": [{LINES[0]}, {{"n": 2}}]}}'),
        "VECTOR_FORMAT_MISMATCH", "number 2 of its features",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_part_of_a_file_is_not_loaded(
    bench: HandlerBench, tmp_path: Path, case: tuple[str, Callable[[Path], bytes], str, str]
) -> None:
    name, make, code, words = case
    with pytest.raises(VectorRefused) as refusal:
        prepare(bench, make(tmp_path), name)
    error = refusal.value.error
    assert error is not None
    assert (error.code, words in str(refusal.value)) == (code, True), str(refusal.value)


def test_whole_sequences_are_loaded_as_gdal_reads_them(bench: HandlerBench) -> None:
    """With empty lines, NaN, records of several lines, and geometries without properties."""
    point = '{"type": "Point", "coordinates": [5, 5]}'
    lines = "\r\n".join([LINES[0], "", LINES[1].replace('"n": 2', '"n": NaN'), point, ""])
    assert prepare(bench, lines, "a.geojsonl").output["total_features"] == 3
    records = "".join(f"\x1e{json.dumps(json.loads(line), indent=2)}\n" for line in LINES)
    assert prepare(bench, records, "b.geojsonl").output["total_features"] == 3


def test_a_geopackage_may_have_lost_count(bench: HandlerBench, tmp_path: Path) -> None:
    """Programs that do not know the table with the number of features leave it as it was."""
    path = layer(tmp_path / "in.gpkg")
    with closing(sqlite3.connect(path)) as conn:
        conn.execute("UPDATE gpkg_ogr_contents SET feature_count = feature_count + 10")
        conn.commit()
    assert prepare(bench, path, "a.gpkg").output["total_features"] == COUNT
