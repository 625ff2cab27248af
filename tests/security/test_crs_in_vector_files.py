"""No coordinate system in a vector file makes PROJ open a file or GDAL fetch an address."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pyproj
import pytest
import shapely

from rmhdag.handlers.vector.refusals import VectorRefused
from rmhdag.testing.bench import HandlerBench
from tests.conftest import require
from tests.handlers.raster.test_hostile_files import can_trace
from tests.handlers.vector.files import prepare, write, zipped
from tests.security.test_crs_files import bound, converted, geographic, projected

POINT = shapely.Point(7, 50)
# As long as any of the texts that replace it in binary files.
LONG_NAME = "Q" * 700


def texts(bait: str) -> dict[str, str]:
    grids = f',EXTENSION["PROJ4_GRIDS","{bait}"]'
    return {
        "grid of a datum": geographic(grids),
        "with spaces": geographic(grids.replace("[", " [ ")),
        "bound": bound(bait),
        "definition for PROJ": projected("custom_proj4", f',EXTENSION["PROJ4","+proj=merc +nadgrids={bait} +wktext"]'),
        "method": converted(f"PROJ hgridshift grids={bait}"),
    }


def other_texts(bait: str) -> dict[str, str]:
    """Where GDAL takes a text for whatever it is like."""
    system = pyproj.CRS("EPSG:4326").to_json_dict()
    parameter = {"name": "f", "value": bait, "id": {"authority": "EPSG", "code": 8656}}
    method = {"name": "NTv2", "id": {"authority": "EPSG", "code": 9615}}
    shift = {"name": "t", "method": method, "parameters": [parameter]}
    document = json.dumps({"type": "BoundCRS", "source_crs": system, "target_crs": system, "transformation": shift})
    return {
        "projjson": document,
        "escaped": document.replace("BoundCRS", "Bound\\u0043RS"),
        "of ESRI": "ESRI::" + texts(bait)["grid of a datum"],
        "definition": f"+proj=longlat +nadgrids={bait}",
        "init": f"init={bait}:x",
        "path": bait,
        "optional path": f"@{bait}",
        "dictionary": f"DICT:{bait},x",
        "address": "http://127.0.0.1:1/bait",
    }


def in_shapefile(folder: Path, text: str) -> tuple[str, bytes]:
    path = write(folder / "r.shp", [POINT], {"n": [1]})
    path.with_suffix(".prj").write_text(text)
    return "r.zip", zipped({file.name: file.read_bytes() for file in folder.iterdir()})


def in_geopackage(folder: Path, text: str, organization: str = "NONE") -> tuple[str, bytes]:
    path = write(folder / "r.gpkg", [POINT], {"n": [1]})
    with sqlite3.connect(path) as conn:
        conn.execute(
            "INSERT INTO gpkg_spatial_ref_sys (srs_name, srs_id, organization, organization_coordsys_id, definition) "
            "VALUES ('x', 99999, ?, 99999, ?)",
            [organization, text],
        )
        conn.execute("UPDATE gpkg_contents SET srs_id = 99999")
        conn.execute("UPDATE gpkg_geometry_columns SET srs_id = 99999")
    conn.close()
    return "r.gpkg", path.read_bytes()


def in_geojson(folder: Path, text: str, member: str = '"crs"', name: str = "name") -> tuple[str, bytes]:
    feature = {"type": "Feature", "properties": {"n": 1}, "geometry": {"type": "Point", "coordinates": [7, 50]}}
    system = json.dumps({"type": name, "properties": {name: text, "href": text, "urn": text}})
    document = f'{{"type": "FeatureCollection", {member}: {system}, "features": [{json.dumps(feature)}]}}'
    return "r.geojson", document.encode()


def with_text(data: bytes, text: str, encoding: str = "utf-8") -> bytes:
    """The system with the long name, replaced by a text that is padded to the same length."""
    middle = data.index(LONG_NAME.encode(encoding))
    start = max(data.rfind(word.encode(encoding), 0, middle) for word in ("GEOGCS[", "GEOGCRS["))
    old = data[start:].decode(encoding, "replace")
    length = depth = 0
    while depth or "]" not in old[:length]:
        depth += (old[length] == "[") - (old[length] == "]")
        length += 1
    assert len(text) <= length
    old_bytes = old[:length].encode(encoding)
    return data[:start] + text.ljust(length).encode(encoding) + data[start + len(old_bytes) :]


def in_flatgeobuf(folder: Path, text: str) -> tuple[str, bytes]:
    path = write(folder / "r.fgb", [POINT], {"n": [1]}, crs=geographic().replace('"g"', f'"{LONG_NAME}"'))
    return "r.fgb", with_text(path.read_bytes(), text)


def in_geodatabase(folder: Path, text: str, hide: Callable[[str], str] = str) -> tuple[str, bytes]:
    path = write(
        folder / "r.gdb", [POINT], {"n": [1]}, crs=geographic().replace('"g"', f'"{LONG_NAME}"'), geometry_type="Point"
    )
    files = {file.name: file.read_bytes() for file in path.iterdir()}
    catalogue = next(name for name, data in files.items() if b"<WKT>" in data)
    files[catalogue] = with_text(files[catalogue], hide(text))
    files[catalogue] = re.sub(rb"WKID>", b"XXXX>", files[catalogue])
    return "r.zip", zipped({f"r.gdb/{name}": data for name, data in files.items()})


def in_geoparquet(folder: Path, text: str) -> tuple[str, bytes]:
    column = {"encoding": "WKB", "geometry_types": ["Point"], "crs": json.loads(text)}
    facts = {"version": "1.1.0", "primary_column": "geom", "columns": {"geom": column}}
    table = pa.table({"n": [1], "geom": pa.array([shapely.to_wkb(POINT)], pa.binary())})
    path = folder / "r.parquet"
    pq.write_table(table.replace_schema_metadata({b"geo": json.dumps(facts).encode()}), path)
    return "r.parquet", path.read_bytes()


def escaped(text: str) -> str:
    return text.replace("EXTENSION", "EXTE&#78;SION")


def hostile_files(folder: Path, bait: str) -> dict[str, tuple[str, bytes]]:
    """What it is, and the file with its name."""
    files: dict[str, tuple[str, bytes]] = {}

    def add(label: str, make: Callable[..., tuple[str, bytes]], *more: str | Callable[[str], str]) -> None:
        work = folder / str(len(files))
        work.mkdir()
        files[label] = make(work, *more)

    for label, text in texts(bait).items():
        for make in (in_shapefile, in_geopackage, in_geojson, in_flatgeobuf, in_geodatabase):
            add(f"{label}, {make.__name__}", make, text)
    grid = texts(bait)["grid of a datum"]
    for label, text in other_texts(bait).items():
        add(f"{label}, geopackage", in_geopackage, text)
        for name in ("name", "link", "OGC"):
            add(f"{label}, geojson, {name}", in_geojson, text, '"crs"', name)
    add("two lines, shapefile", in_shapefile, grid.replace("EXTENSION", "EXTEN\nSION"))
    add("organization, geopackage", in_geopackage, "undefined", f"+proj=longlat +nadgrids={bait} +x=")
    for member in ('"CRS"', '"\\u0063rs"', '"crs": null, "crs"'):
        add(f"{member}, geojson", in_geojson, grid, member)
    add("escaped, geodatabase", in_geodatabase, grid, escaped)
    add("geoparquet", in_geoparquet, other_texts(bait)["projjson"])
    return files


PROGRAM = """
import sys
from pathlib import Path
from rmhdag.testing.bench import HandlerBench
from rmhdag.handlers.vector.ogr import pyogrio
folder, is_bare = Path(sys.argv[1]), len(sys.argv) > 2
bench = HandlerBench(folder / "bench")
for file in sorted((folder / "files").glob("*/*")):
    try:
        if is_bare:
            pyogrio.read_info(f"/vsizip/{file}{sys.argv[2]}" if file.suffix == ".zip" else file)
        else:
            name = f"{file.parent.name}{file.suffix}"
            bench.put(file.read_bytes(), name)
            words = {"container_name": "in", "blob_name": name, "table_name": "t", "target": "geoparquet"}
            bench.run("vector.prepare", words, job_id=f"job{file.parent.name}")
    except Exception:
        pass
"""


def calls_about_bait(folder: Path, files: list[tuple[str, bytes]], *more: str) -> list[str]:
    for number, (name, data) in enumerate(files):
        target = folder / "files" / str(number)
        target.mkdir(parents=True)
        (target / name).write_bytes(data)
    (folder / "bench").mkdir()
    trace = folder / "trace"
    calls = "trace=open,openat,openat2,stat,newfstatat,access,readlink,connect"
    command = [sys.executable, "-c", PROGRAM, str(folder), *more]
    ended = subprocess.run(
        ["strace", "-f", "-s", "4096", "-e", calls, "-o", str(trace), *command],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
    lines = trace.read_text(errors="replace").splitlines()
    return [line for line in lines if "bait" in line or "AF_INET" in line]


@pytest.fixture
def bait(tmp_path: Path) -> str:
    path = tmp_path / "bait.gsb"
    path.write_bytes(b"NUM_OREC" + bytes(1000))
    return str(path)


def test_no_vector_file_has_another_file_opened(tmp_path: Path, bait: str) -> None:
    """The kernel is asked, not the code."""
    require(shutil.which("strace") is not None and can_trace(), "strace is not installed, or may not trace here")
    made = tmp_path / "made"
    made.mkdir()
    assert calls_about_bait(tmp_path, list(hostile_files(made, bait).values())) == []


def test_without_the_filter_it_would(tmp_path: Path, bait: str) -> None:
    """Or the test above proves nothing: GDAL alone opens the bait, whatever the format."""
    require(shutil.which("strace") is not None and can_trace(), "strace is not installed, or may not trace here")
    grid = texts(bait)["grid of a datum"]
    for make in (in_shapefile, in_geopackage, in_geojson, in_flatgeobuf, in_geodatabase):
        work = tmp_path / make.__name__
        (work / "made").mkdir(parents=True)
        calls = calls_about_bait(work, [make(work / "made", grid)], "/r.gdb" if make is in_geodatabase else "/r.shp")
        assert any("bait.gsb" in call and "open" in call for call in calls), make.__name__


def test_they_are_refused_with_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "made").mkdir()
    bench = HandlerBench(tmp_path)
    for number, (name, data) in enumerate(hostile_files(tmp_path / "made", "/dev/zero").values()):
        with pytest.raises(VectorRefused) as refused:
            prepare(bench, data, f"{number}{Path(name).suffix}", job_id=f"job{number}")
        error = refused.value.error
        assert error is not None
        assert error.code == "CRS_MISMATCH", (number, name, error.message)


def test_a_table_of_systems_that_could_answer_twice_is_refused(tmp_path: Path) -> None:
    """A view could give GDAL another text than us, by the version of SQLite."""
    path = write(tmp_path / "r.gpkg", [POINT], {"n": [1]})
    with sqlite3.connect(path) as conn:
        conn.execute("ALTER TABLE gpkg_spatial_ref_sys RENAME TO other")
        conn.execute("CREATE VIEW gpkg_spatial_ref_sys AS SELECT * FROM other")
    conn.close()
    with pytest.raises(VectorRefused, match="not a plain table"):
        prepare(HandlerBench(tmp_path), path, "r.gpkg")


@pytest.mark.parametrize("code", ["EPSG:3857", "EPSG:31468", "EPSG:4267"])
@pytest.mark.parametrize("ending", ["shp", "gpkg", "geojson", "fgb", "gdb"])
def test_usual_systems_pass_in_every_format(tmp_path: Path, code: str, ending: str) -> None:
    folder = tmp_path / "made"
    folder.mkdir()
    path = write(folder / f"r.{ending}", [POINT], {"n": [1]}, crs=code, geometry_type="Point")
    data, name = path, f"r.{ending}"
    if ending in ("shp", "gdb"):
        files = folder.iterdir() if ending == "shp" else path.iterdir()
        prefix = "" if ending == "shp" else "r.gdb/"
        data = tmp_path / "r.zip"
        data.write_bytes(zipped({f"{prefix}{file.name}": file.read_bytes() for file in files}))
        name = "r.zip"
    prepare(HandlerBench(tmp_path / "bench"), data, name)


@pytest.mark.parametrize(
    "system",
    [
        {"type": "name", "properties": {"name": "urn:ogc:def:crs:OGC:1.3:CRS84"}},
        {"type": "name", "properties": {"name": "http://www.opengis.net/def/crs/EPSG/0/4326"}},
        {"type": "EPSG", "properties": {"code": 25832}},
    ],
)
def test_usual_members_pass(tmp_path: Path, system: dict[str, object]) -> None:
    feature = {
        "type": "Feature",
        "properties": {"crs": {"path": "/a/file=1", "note": "EXTENSION[1]"}},
        "geometry": {"type": "Point", "coordinates": [7, 50]},
    }
    document = json.dumps({"type": "FeatureCollection", "crs": system, "features": [feature]})
    prepare(HandlerBench(tmp_path), document, "r.geojson")
