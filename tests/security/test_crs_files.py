"""No text of a coordinate system makes PROJ open a file, whether it is a parameter or lies in a raster."""

from __future__ import annotations

import json
import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from rasterio.crs import CRS

from rmhdag.handlers.raster.crs import CrsRefused, read_crs, require_no_files
from rmhdag.handlers.raster.opening import RasterRefused, open_local
from tests.conftest import require
from tests.handlers.raster.test_hostile_files import can_trace

UNITS = 'PRIMEM["Greenwich",0],UNIT["degree",0.0174532925199433]'
SHAPE = 'ELLIPSOID["s",6378137,298.257223563]'
GEOG2 = (
    f'GEOGCRS["g",DATUM["d",{SHAPE}],CS[ellipsoidal,2],AXIS["lat",north],AXIS["lon",east],'
    'ANGLEUNIT["degree",0.0174532925199433]]'
)
PLANE = 'CS[Cartesian,2],AXIS["x",east],AXIS["y",north],LENGTHUNIT["metre",1]'
HEIGHTS = 'VERTCRS["v",VDATUM["v"],CS[vertical,1],AXIS["up",up],LENGTHUNIT["metre",1]{}]'


def geographic(more: str = "") -> str:
    return f'GEOGCS["g",DATUM["d",SPHEROID["s",6378137,298.257223563]{more}],{UNITS}]'


def projected(projection: str, more: str = "") -> str:
    return f'PROJCS["p",{geographic()},PROJECTION["{projection}"],UNIT["metre",1]{more}]'


def converted(method: str, more: str = "") -> str:
    base = f'BASEGEOGCRS["g",DATUM["d",{SHAPE}]]'
    return f'PROJCRS["p",{base},CONVERSION["c",METHOD["{method}"]{more}],{PLANE}]'


def bound(bait: str) -> str:
    shift = f'ABRIDGEDTRANSFORMATION["t",METHOD["NTv2",ID["EPSG",9615]],PARAMETERFILE["f","{bait}",ID["EPSG",8656]]]'
    return f"BOUNDCRS[SOURCECRS[{GEOG2}],TARGETCRS[{GEOG2}],{shift}]"


def hostile(bait: str) -> dict[str, str]:
    """Each names the bait in another way."""
    grids = f',EXTENSION["PROJ4_GRIDS","{bait}"]'
    merc = ',EXTENSION["PROJ4","+proj=merc +nadgrids={} +wktext"]'
    return {
        "grid of a datum": geographic(grids),
        "in small letters": geographic(grids.lower().replace("proj4_grids", "PROJ4_GRIDS")),
        "with parentheses": geographic(grids.replace("[", "(").replace("]", ")")),
        "with spaces": geographic(grids.replace("[", " [ ")),
        "definition for PROJ": projected("custom_proj4", merc.format(bait)),
        "after a null grid": projected("custom_proj4", merc.format(f"@null,{bait}")),
        "heights": f'COMPD_CS["c",{geographic()},VERT_CS["v",VERT_DATUM["v",2005{grids}],UNIT["metre",1]]]',
        "bound": bound(bait),
        "bound inside": f'COMPOUNDCRS["c",{bound(bait)},{HEIGHTS.format("")}]',
        "method": converted(f"PROJ hgridshift grids={bait}"),
        "method with a file": converted(f"PROJ tinshift file={bait}"),
        "projection": projected(f"PROJ hgridshift grids={bait}"),
        "parameter file": converted("m", f',PARAMETERFILE["f","{bait}"]'),
        "geoid": 'COMPOUNDCRS["c",{},{}]'.format(GEOG2, HEIGHTS.format(f',GEOIDMODEL["PROJ {bait}"]')),
    }


HARMLESS = [
    *("EPSG:4326", "EPSG:3857", "EPSG:32633", "EPSG:4979", "EPSG:7415", "ESRI:54030", "EPSG:27700", "EPSG:3413"),
    "OGC:CRS84",
]


@pytest.mark.parametrize("kind", list(hostile("")))
def test_text_that_names_files_is_refused(kind: str) -> None:
    for bait in ("bait.gsb", "@bait.gsb", "/dev/zero", "./bait.tif"):
        with pytest.raises(CrsRefused):
            read_crs(hostile(bait)[kind])


@pytest.mark.parametrize("code", HARMLESS)
def test_usual_systems_pass_in_every_spelling(code: str) -> None:
    crs = read_crs(code)
    require_no_files(crs)
    for text in (crs.to_wkt(), crs.to_wkt(version="WKT2_2019")):
        assert read_crs(text) is not None


@pytest.mark.parametrize(
    "definition",
    [
        "+proj=longlat +ellps=bessel +towgs84=598.1,73.7,418.2,0.2,0.05,-2.5,6.7",
        "+proj=ob_tran +o_proj=longlat +o_lon_p=0 +o_lat_p=39 +lon_0=18",
        "+proj=merc +a=6378137 +b=6378137 +nadgrids=@null +wktext",
        "+proj=laea +lat_0=52 +lon_0=10 +ellps=GRS80",
    ],
)
def test_shifts_by_numbers_and_rotated_poles_pass(definition: str) -> None:
    require_no_files(CRS.from_string(definition))


def geotiff(path: Path, wkt: str) -> Path:
    """With its system as a text, as ESRI's programs write it."""
    citation = f"ESRI PE String = {wkt}|".encode()
    keys = struct.pack("<12H", 1, 1, 0, 2, 1024, 0, 1, 32767, 3073, 34737, len(citation), 0)
    pixels = bytes(range(64)) * 64
    data, entries = b"", b""
    start = 8 + 2 + 12 * 13 + 4
    tags: list[tuple[int, int, int, bytes]] = [
        (256, 3, 1, struct.pack("<H", 64)),
        (257, 3, 1, struct.pack("<H", 64)),
        (258, 3, 1, struct.pack("<H", 8)),
        (259, 3, 1, struct.pack("<H", 1)),
        (262, 3, 1, struct.pack("<H", 1)),
        (273, 4, 1, b"pixels"),
        (277, 3, 1, struct.pack("<H", 1)),
        (278, 3, 1, struct.pack("<H", 64)),
        (279, 4, 1, struct.pack("<I", len(pixels))),
        (33550, 12, 3, struct.pack("<3d", 0.01, 0.01, 0)),
        (33922, 12, 6, struct.pack("<6d", 0, 0, 0, 10, 50, 0)),
        (34735, 3, 12, keys),
        (34737, 2, len(citation), citation),
    ]
    for tag, kind, count, value in tags:
        if value == b"pixels":
            value = struct.pack("<I", start + len(data))
            data += pixels
        if len(value) <= 4:
            entries += struct.pack("<HHI4s", tag, kind, count, value.ljust(4, b"\0"))
        else:
            entries += struct.pack("<HHII", tag, kind, count, start + len(data))
            data += value + b"\0" * (len(value) % 2)
    path.write_bytes(b"II*\0" + struct.pack("<IH", 8, len(tags)) + entries + struct.pack("<I", 0) + data)
    return path


PROGRAM = """
import json, sys
from pathlib import Path
from rasterio.crs import CRS
from rasterio.warp import transform
from rmhdag.handlers.raster.crs import CrsRefused, read_crs
from rmhdag.testing import HandlerBench
texts, files, folder = json.loads(sys.argv[1])
bench, refused = HandlerBench(Path(folder)), []
for text in texts:
    try:
        transform(read_crs(text), CRS.from_epsg(4326), [10.0], [50.0])
        transform(CRS.from_epsg(4326), read_crs(text), [10.0], [50.0])
    except CrsRefused:
        refused.append(text)
for file in files:
    source = bench.put(Path(file))
    for handler, params in (("raster.validate", {}), ("raster.create_cog", {"target_crs": "EPSG:3857"})):
        try:
            bench.run(handler, {"source": source.model_dump(mode="json"), **params})
        except Exception as error:
            refused.append(f"{handler}: {error}")
if len(sys.argv) > 2:
    import rasterio
    for file in files:
        with rasterio.open(file, driver="GTiff") as dataset:
            try:
                transform(dataset.crs, CRS.from_epsg(4326), [10.0], [50.0])
            except Exception:
                pass
print(len(refused))
"""


def opened_by(folder: Path, texts: list[str], files: list[Path], *more: str) -> tuple[int, list[str]]:
    given = json.dumps([texts, [str(file) for file in files], str(folder)])
    command = [sys.executable, "-c", PROGRAM, given, *more]
    trace = folder / "trace"
    calls = "trace=open,openat,openat2,stat,newfstatat,access"
    ended = subprocess.run(
        ["strace", "-f", "-s", "4096", "-e", calls, "-o", str(trace), *command],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
        cwd=folder,
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
    return int(ended.stdout.split()[-1]), [
        line for line in trace.read_text(errors="replace").splitlines() if "bait" in line
    ]


def test_proj_opens_no_file_that_a_text_or_a_raster_names(tmp_path: Path) -> None:
    """The kernel is asked, not the code."""
    require(shutil.which("strace") is not None and can_trace(), "strace is not installed, or may not trace here")
    bait = tmp_path / "bait.gsb"
    bait.write_bytes(b"NUM_OREC" + bytes(1000))
    texts = list(hostile(str(bait)).values())
    files = [geotiff(tmp_path / f"{number}.tif", text) for number, text in enumerate(texts)]
    refused, calls = opened_by(tmp_path, texts, files)
    assert calls == [] or all(re.search(r"\d+\.tif", call) for call in calls), calls[:3]
    assert refused >= len(texts)


@pytest.mark.parametrize(
    ("before", "after"),
    [(b"ESRI PE", b"E|\0I PE"), (struct.pack("<HH", 34737, 2), struct.pack("<HH", 34737, 3))],
)
def test_texts_are_not_hidden_from_the_header(tmp_path: Path, before: bytes, after: bytes) -> None:
    """Behind the end of a C text, or as numbers of another type."""
    file = geotiff(tmp_path / "a.tif", hostile("bait.gsb")["grid of a datum"])
    data = file.read_bytes()
    assert data.count(before) == 1
    file.write_bytes(data.replace(before, after))
    with pytest.raises(RasterRefused, match="give it a plain one"), open_local(file):
        pass


def test_without_the_filter_it_would(tmp_path: Path) -> None:
    """Or the test above proves nothing: GDAL alone opens the bait that a raster names."""
    require(shutil.which("strace") is not None and can_trace(), "strace is not installed, or may not trace here")
    bait = tmp_path / "bait.gsb"
    bait.write_bytes(b"NUM_OREC" + bytes(1000))
    file = geotiff(tmp_path / "a.tif", hostile(str(bait))["grid of a datum"])
    _, calls = opened_by(tmp_path, [], [file], "bare")
    assert any("bait.gsb" in call and "open" in call for call in calls)
