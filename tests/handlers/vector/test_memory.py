"""What a task needs of memory follows from the size of a batch, whatever the size of its file."""

from __future__ import annotations

import csv
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely

from rmhdag.handlers.vector.geoparquet import GEO, geo_metadata
from rmhdag.handlers.vector.ogr import pyogrio, quiet
from tests.handlers.vector import preparing_process

BATCH_MB = 1
# Several batches are in memory at once, and libraries keep some of what they have had.
MOST_MB, FILE_MB = 40, 120
# Arrow unpacks whole pages.
MOST_PARQUET_MB = 60
# Those of the platform without any setting.
MOST_LARGE_MB, LARGE_FILE_MB = 200, 600
TEXT_BYTES = 6_000


class Rows(NamedTuple):
    """Texts that differ, and points."""

    texts: list[str]
    longitudes: list[float]


def rows_of(size_mb: float) -> Rows:
    source = random.Random(5)
    count = int(size_mb * 1_000_000 / TEXT_BYTES)
    # Slices of one long text: distinct, and quickly made.
    text = source.randbytes(1_000_000).hex()
    starts = [source.randrange(len(text) - TEXT_BYTES) for _ in range(count)]
    return Rows([text[start : start + TEXT_BYTES] for start in starts], [n % 300 / 2 for n in range(count)])


def features(rows: Rows) -> Iterator[str]:
    for text, x in zip(*rows, strict=True):
        yield f'{{"type":"Feature","properties":{{"t":"{text}"}},"geometry":{{"type":"Point","coordinates":[{x},50]}}}}'


def as_geojson(rows: Rows, path: Path) -> None:
    with path.open("w") as file:
        file.write('{"type":"FeatureCollection","features":[\n')
        file.writelines(f"{',' if number else ''}{text}\n" for number, text in enumerate(features(rows)))
        file.write("]}")


def as_sequence(rows: Rows, path: Path) -> None:
    with path.open("w") as file:
        file.writelines(f"{text}\n" for text in features(rows))


def as_csv(rows: Rows, path: Path) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["t", "lon", "lat"])
        writer.writerows([text, x, 50] for text, x in zip(*rows, strict=True))


def as_parquet(rows: Rows, path: Path) -> None:
    """As some programs write it: all rows in one group, and a column in few pages."""
    points = shapely.to_wkb(shapely.points(rows.longitudes, 50))
    schema = pa.schema([("geometry", pa.binary()), ("t", pa.string())])
    facts = geo_metadata("Point", None).replace(b'"geom"', b'"geometry"')
    table = pa.table([pa.array(points), pa.array(rows.texts)], schema=schema).replace_schema_metadata({GEO: facts})
    pq.write_table(table, path, row_group_size=len(points), use_dictionary=False)


def by_gdal(rows: Rows, path: Path) -> None:
    points = shapely.to_wkb(shapely.points(rows.longitudes, 50))
    table = pa.table([pa.array(points), pa.array(rows.texts)], names=["geom", "t"])
    with quiet():
        pyogrio.raw.write_arrow(table, path, geometry_name="geom", geometry_type="Point", crs="EPSG:4326")


WRITERS: dict[str, Callable[[Rows, Path], None]] = {
    "geojson": as_geojson,
    "geojsonl": as_sequence,
    "gpkg": by_gdal,
    "fgb": by_gdal,
    "csv": as_csv,
    "parquet": as_parquet,
}


def growth_of(folder: Path, ending: str, size_mb: float, variables: dict[str, str]) -> tuple[float, int, int]:
    """MB that a file needs more than a small one of its kind, its features, and those that were prepared."""
    container = folder / "storage" / "bronze" / "in"
    container.mkdir(parents=True)
    runs: list[dict[str, Any]] = []
    count = 0
    for name, megabytes in (("small", 0.1), ("large", size_mb)):
        rows = rows_of(megabytes)
        count = len(rows.texts)
        path = container / f"{name}.{ending}"
        WRITERS[ending](rows, path)
        del rows
        coordinates = {"lat_name": "lat", "lon_name": "lon"} if ending == "csv" else {}
        words = {"container_name": "in", "blob_name": path.name, "table_name": "t", "target": "geoparquet"}
        runs.append({**words, **coordinates})
    assert path.stat().st_size > 0.9 * size_mb * 1_000_000
    ended = subprocess.run(
        [sys.executable, preparing_process.__file__, str(folder), json.dumps(runs)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3]), **variables},
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
    outcome = json.loads(ended.stdout)
    return outcome["large_mb"] - outcome["small_mb"], count, outcome["count"]


@pytest.mark.parametrize("ending", WRITERS)
def test_a_file_of_three_times_the_limit_keeps_below_it(tmp_path: Path, ending: str) -> None:
    variables = {"RMHDAG_VECTOR_BATCH_MB": str(BATCH_MB)}
    megabytes, count, prepared = growth_of(tmp_path, ending, FILE_MB, variables)
    assert prepared == count
    assert megabytes < (MOST_PARQUET_MB if ending == "parquet" else MOST_MB), (
        f"{megabytes:.0f} MB for a file of {FILE_MB} MB"
    )


@pytest.mark.large
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("ending", WRITERS)
def test_a_large_file_keeps_below_the_limit_without_settings(tmp_path: Path, ending: str) -> None:
    megabytes, count, prepared = growth_of(tmp_path, ending, LARGE_FILE_MB, {})
    assert prepared == count
    assert megabytes < MOST_LARGE_MB, f"{megabytes:.0f} MB for a file of {LARGE_FILE_MB} MB"
