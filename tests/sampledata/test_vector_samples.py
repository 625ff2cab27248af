"""Vector samples as a reader sees them: features, formats, coordinate systems; and that they are the same again."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import unicodedata
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pyogrio
import pytest
import shapely

from rmhdag.sampledata.kinds import DEFAULT_SEED
from rmhdag.sampledata.vector_files import write_vector_sample
from rmhdag.sampledata.vector_kinds import NORTH, SIDE, VECTOR_SAMPLES, WEST, Format, Layer, VectorSample
from rmhdag.sampledata.vector_scenes import batches_of

FEATURES = 900


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("layers")
    for sample in VECTOR_SAMPLES:
        write_vector_sample(made / sample.name, sample, FEATURES, DEFAULT_SEED)
    return made


def layer(which: Layer, features: int = FEATURES) -> tuple[pa.Table, Any]:
    batches = list(batches_of(which, features, DEFAULT_SEED))
    return pa.Table.from_batches([columns for columns, _ in batches]), np.concatenate([shapes for _, shapes in batches])


def read(folder: Path, sample: VectorSample) -> tuple[str | None, pa.Table]:
    path = folder / sample.name
    if sample.format is Format.GEOPARQUET:
        return sample.crs, pq.read_table(path)
    if path.suffix == ".csv":
        # By Arrow: the handlers for vectors leave GDAL's driver for CSV out of their processes.
        separator = ";" if sample.format is Format.CSV_WKT else ","
        return None, pacsv.read_csv(path, parse_options=pacsv.ParseOptions(delimiter=separator))
    meta, table = pyogrio.read_arrow(f"/vsizip/{path}" if path.suffix == ".zip" else path)
    return meta["crs"], table


@pytest.mark.parametrize("sample", VECTOR_SAMPLES, ids=lambda sample: sample.name)
def test_every_sample_is_read_with_all_features_and_its_coordinate_system(sample: VectorSample, folder: Path) -> None:
    crs, table = read(folder, sample)
    expected, _ = layer(sample.layer)
    if sample.format in (Format.CSV, Format.CSV_WKT):
        assert crs is None, "a CSV does not say"
    else:
        assert crs == sample.crs
    wide = 1 if sample.name == "antimeridian.gpkg" else 0
    assert table.num_rows == expected.num_rows - wide
    names = {name.casefold() for name in table.column_names} | (
        {"observed_at"} if sample.format is Format.KML else set()
    )
    assert names.issuperset(expected.column_names), "no column is lost"
    text = table.column("Name" if sample.format is Format.KML else "name" if "name" in names else "owner").to_pylist()
    source = expected.column("name" if "name" in expected.column_names else "owner").to_pylist()
    assert sorted(map(str, text)) == sorted(map(str, source[: len(text)])), "every script survives"


def test_the_set_covers_what_makes_vector_data_different() -> None:
    assert {sample.format for sample in VECTOR_SAMPLES} == set(Format)
    assert {sample.layer for sample in VECTOR_SAMPLES} == set(Layer)
    assert len({sample.crs for sample in VECTOR_SAMPLES}) >= 5
    places, _ = layer(Layer.PLACES)
    names = "".join(places.column("name").to_pylist())
    assert unicodedata.is_normalized("NFC", names)
    scripts = {unicodedata.name(letter).split()[0] for letter in names if letter.isalpha()}
    assert scripts >= {"LATIN", "CYRILLIC", "GREEK", "ARABIC", "HEBREW", "DEVANAGARI", "THAI", "ETHIOPIC", "HANGUL"}
    assert all(places.column(name).null_count for name in ("elevation_m", "observed_at", "note"))
    assert max(places.column("population").to_pylist()) > 2**24


def test_districts_share_borders_without_gaps_or_overlaps() -> None:
    _, shapes = layer(Layer.DISTRICTS)
    assert shapely.is_valid(shapes).all()
    whole = shapely.union_all(shapes)
    assert whole.area == pytest.approx(shapely.area(shapes).sum(), rel=1e-9), "no two overlap"
    mainland = max(shapely.get_parts(whole), key=lambda part: part.area)
    assert len(mainland.interiors) == 0, "no gap is left between them"
    assert sum(len(shape.interiors) for shape in shapes if shape.geom_type == "Polygon") == 1
    assert {shape.geom_type for shape in shapes} == {"Polygon", "MultiPolygon"}
    first, second = (set(shapely.get_coordinates(shape).view(complex).ravel()) for shape in shapes[1:3])
    assert len(first & second) == 17, "neighbours have the very same points"


def test_a_zipped_shapefile_has_its_parts_and_nothing_else(folder: Path) -> None:
    with zipfile.ZipFile(folder / "roads.zip") as archive:
        assert archive.namelist() == [f"roads.{part}" for part in ("cpg", "dbf", "prj", "shp", "shx")]


def test_roads_and_buildings_are_where_people_live() -> None:
    table, roads = layer(Layer.ROADS)
    assert set(table.column("class").to_pylist()) == {"motorway", "primary", "secondary", "residential"}
    assert {road.geom_type for road in roads} == {"LineString", "MultiLineString"}
    _, buildings = layer(Layer.BUILDINGS)
    assert len(buildings) == FEATURES
    assert shapely.is_valid(buildings).all()
    assert any(len(building.interiors) for building in buildings), "some have a courtyard"
    crowded = shapely.STRtree(buildings).query(buildings, predicate="overlaps")
    assert crowded.shape[1] < FEATURES * 0.1
    west, south, east, north = shapely.total_bounds(buildings)
    assert WEST - 5_000 < west < east < WEST + SIDE + 5_000
    assert NORTH - SIDE - 5_000 < south < north < NORTH + 5_000


def test_zones_lie_across_the_antimeridian_in_both_spellings(folder: Path) -> None:
    _, shapes = layer(Layer.ANTIMERIDIAN)
    beyond = [shape for shape in shapes if shape.bounds[2] > 180]
    jumping = [shape for shape in shapes if np.abs(np.diff(shapely.get_coordinates(shape)[:, 0])).max() > 180]
    assert beyond
    assert jumping
    wide = shapes[-1]
    assert wide.bounds[2] - wide.bounds[0] > 180
    assert np.abs(np.diff(shapely.get_coordinates(wide)[:, 0])).max() < 180, "wide for a good reason: nothing jumps"
    _, table = read(folder, next(sample for sample in VECTOR_SAMPLES if sample.name == "antimeridian.gpkg"))
    projected = shapely.from_wkb(table.column("geom").to_numpy())
    assert shapely.is_valid(projected).all()
    assert np.ptp(shapely.get_coordinates(projected)[:, 0]) < 2_000_000, "in this projection nothing jumps"


@pytest.mark.parametrize("sample", VECTOR_SAMPLES, ids=lambda sample: sample.name)
def test_the_same_seed_gives_the_same_bytes(sample: VectorSample, folder: Path, tmp_path: Path) -> None:
    for name, seed in (("again", DEFAULT_SEED), ("other", 1)):
        (tmp_path / name).mkdir()
        write_vector_sample(tmp_path / name / sample.name, sample, FEATURES, seed)
    first, again, other = (
        hashlib.sha256((place / sample.name).read_bytes()).hexdigest()
        for place in (folder, tmp_path / "again", tmp_path / "other")
    )
    assert first == again
    assert first != other


def test_batches_keep_memory_small(tmp_path: Path) -> None:
    """A process of its own tells its peak: ten times the features of a batch."""
    code = (
        "import sys; from pathlib import Path; from tests.memory import peak_mb\n"
        "from rmhdag.sampledata.vector_files import write_vector_sample\n"
        "from rmhdag.sampledata.vector_kinds import VECTOR_SAMPLES\n"
        "sample = next(one for one in VECTOR_SAMPLES if one.name == 'buildings.parquet')\n"
        "write_vector_sample(Path(sys.argv[1]), sample, 200_000, 1)\n"
        "print(peak_mb())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "many.parquet")], capture_output=True, text=True, check=True
    )
    assert float(done.stdout) < 350
    assert pq.read_metadata(tmp_path / "many.parquet").num_rows == 200_000


def test_nothing_is_left_of_a_sample_that_could_not_be_finished(tmp_path: Path) -> None:
    def stop(share: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_vector_sample(tmp_path / "places.csv", VECTOR_SAMPLES[7], FEATURES, 1, stop)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("features", [15, 5_000_001])
def test_numbers_of_features_that_make_no_sense_are_refused(features: int, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="a vector sample has 16 to 5000000"):
        write_vector_sample(tmp_path / "places.csv", VECTOR_SAMPLES[7], features, 1)
