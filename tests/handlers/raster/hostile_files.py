"""Files that nobody should send us, made anew for each run, with the sentence that each is to be answered with."""

import io
import struct
import tarfile
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import rasterio
from rasterio.errors import NotGeoreferencedWarning
from rasterio.transform import Affine, from_origin

SECRET = "/etc/hostname"
NOWHERE = "http://127.0.0.1:9/stolen.tif"
UTM = {"crs": "EPSG:32633", "transform": from_origin(500_000, 5_000_000, 10, 10)}


class Hostile(NamedTuple):
    """`sentence` is a regular expression; None for a file that only looks strange and is accepted."""

    name: str
    write: Callable[[Path], object]
    sentence: str | None


@contextmanager
def ignoring_lost_places() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotGeoreferencedWarning)
        yield


def write_raster(path: Path, dtype: str = "uint16", size: int = 64, **options: Any) -> Path:
    profile = {"driver": "GTiff", "width": size, "height": size, "count": 1, "dtype": dtype}
    with ignoring_lost_places(), rasterio.open(path, "w", **{**profile, **UTM, **options}) as dataset:
        ramp = np.arange(dataset.width * dataset.height).reshape(dataset.height, dataset.width)
        for band in dataset.indexes:
            dataset.write((ramp % 251).astype(dtype), band)
    return path


def tagged(path: Path, namespace: str, **tags: str) -> None:
    write_raster(path)
    with rasterio.open(path, "r+") as dataset:
        dataset.update_tags(ns=namespace, **tags)


def tiff_directory(tags: dict[int, tuple[int, list[int]]], *, next_offset: int = 0) -> bytes:
    """A little-endian classic TIFF of one directory. Lists that do not fit into a tag stand behind it."""
    behind = 8 + 2 + 12 * len(tags) + 4
    entries, data = b"", b""
    for tag, (kind, values) in sorted(tags.items()):
        packed = struct.pack(f"<{len(values)}{ {3: 'H', 4: 'I'}[kind] }", *values)
        place = packed.ljust(4, b"\0")
        if len(packed) > 4:
            place = struct.pack("<I", behind + len(data))
            data += packed
        entries += struct.pack("<HHI", tag, kind, len(values)) + place
    return b"II*\0" + struct.pack("<IH", 8, len(tags)) + entries + struct.pack("<I", next_offset) + data


def image(width: int, height: int, bands: int = 1, **more: tuple[int, list[int]]) -> dict[int, tuple[int, list[int]]]:
    tags: dict[int, tuple[int, list[int]]] = {
        256: (4, [width]),
        257: (4, [height]),
        258: (3, [8]),
        259: (3, [1]),
        262: (3, [1]),
        273: (4, [8]),
        277: (3, [bands]),
        278: (4, [height]),
        279: (4, [16]),
    }
    return tags | {int(name.removeprefix("t")): value for name, value in more.items()}


def vrt(band: str, source: str = "") -> bytes:
    return (
        f'<VRTDataset rasterXSize="20" rasterYSize="20"><SRS>EPSG:4326</SRS>'
        f"<GeoTransform>0, 1, 0, 20, 0, -1</GeoTransform>{band}{source}</VRTDataset>"
    ).encode()


def vrt_source(file: str) -> bytes:
    return vrt(
        '<VRTRasterBand dataType="Byte" band="1"><SimpleSource>'
        f'<SourceFilename relativeToVRT="1">{file}</SourceFilename><SourceBand>1</SourceBand>'
        "</SimpleSource></VRTRasterBand>"
    )


RAW_BAND = vrt(
    '<VRTRasterBand dataType="Byte" band="1" subClass="VRTRawRasterBand">'
    f'<SourceFilename relativeToVRT="0">{SECRET}</SourceFilename></VRTRasterBand>'
)
PYTHON_BAND = vrt(
    '<VRTRasterBand dataType="Byte" band="1" subClass="VRTDerivedRasterBand"><PixelFunctionType>f</PixelFunctionType>'
    "<PixelFunctionLanguage>Python</PixelFunctionLanguage><PixelFunctionCode><![CDATA[open('owned', 'w')]]>"
    "</PixelFunctionCode></VRTRasterBand>"
)


def zip_of(entries: dict[str, bytes], *, links: dict[str, str] | None = None) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
        for name, target in (links or {}).items():
            link = zipfile.ZipInfo(name)
            link.external_attr = 0o120777 << 16
            archive.writestr(link, target)
    return made.getvalue()


def tar_of(names: list[str]) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for name in names:
            archive.addfile(tarfile.TarInfo(name), io.BytesIO())
    return made.getvalue()


def cut(path: Path, share: float, **options: Any) -> None:
    content = write_raster(path, size=256, **options).read_bytes()
    path.write_bytes(content[: int(len(content) * share)])


def scrambled(path: Path) -> None:
    """A sound header above blocks that cannot be unpacked."""
    write_raster(path, size=256, compress="deflate", tiled=True, blockxsize=64, blockysize=64)
    path.write_bytes(path.read_bytes().replace(b"x\x9c", b"\xff\xff").replace(b"x\x5e", b"\xff\xff"))


def number_of(tag: bytes) -> int:
    return int.from_bytes(tag[:2], "little")


def as_url_crs(path: Path) -> None:
    """The citation of its user-defined coordinate system is a web address."""
    url = b"ESRI PE String = http://127.0.0.1:9/crs.wkt|"
    keys = [1, 1, 0, 4, 1024, 0, 1, 1, 1025, 0, 1, 1, 1026, 34737, len(url), 0, 3072, 0, 1, 32767]
    write_raster(path, crs=None)
    content = bytearray(path.read_bytes())
    (directory,) = struct.unpack_from("<I", content, 4)
    (count,) = struct.unpack_from("<H", content, directory)
    tags = bytes(content[directory + 2 : directory + 2 + 12 * count])
    end = len(content)
    tags += struct.pack("<HHII", 34735, 3, len(keys), end) + struct.pack(
        "<HHII", 34737, 2, len(url), end + 2 * len(keys)
    )
    content += struct.pack(f"<{len(keys)}H", *keys) + url
    struct.pack_into("<I", content, 4, len(content) + len(content) % 2)
    content += b"\0" * (len(content) % 2)
    parts = [tags[begin : begin + 12] for begin in range(0, len(tags), 12)]
    parts.sort(key=number_of)
    path.write_bytes(content + struct.pack("<H", count + 2) + b"".join(parts) + b"\0\0\0\0")


def content(data: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(data)


def raster(**options: Any) -> Callable[[Path], object]:
    return lambda path: write_raster(path, **options)


def at(*transform: float, crs: str = "EPSG:4326") -> Callable[[Path], object]:
    return raster(crs=crs, transform=Affine(*transform))


VIRTUAL = "is not a GeoTIFF but a virtual raster"
ZIP = "is not a GeoTIFF but a ZIP archive; unpack it"
CUT = "is cut off: .* upload it again"
NAN = float("nan")

FILES = [
    Hostile("vrt.tif", content(vrt_source("plain.tif")), VIRTUAL),
    Hostile("vrt-up.tif", content(vrt_source("../../../../../../../.." + SECRET)), VIRTUAL),
    Hostile("vrt-raw.tif", content(RAW_BAND), VIRTUAL),
    Hostile("vrt-curl.tif", content(vrt_source(f"/vsicurl/{NOWHERE}")), VIRTUAL),
    Hostile("vrt-metadata.tif", content(vrt_source("/vsicurl/http://169.254.169.254/latest")), VIRTUAL),
    Hostile("vrt-s3.tif", content(vrt_source("/vsis3/bucket/key.tif")), VIRTUAL),
    Hostile("vrt-zip-curl.tif", content(vrt_source(f"/vsizip//vsicurl/{NOWHERE}")), VIRTUAL),
    Hostile("vrt-mem.tif", content(vrt_source("MEM:::DATAPOINTER=4096,PIXELS=20,LINES=20")), VIRTUAL),
    Hostile("vrt-python.tif", content(PYTHON_BAND), VIRTUAL),
    Hostile("vrt-indented.tif", content(b"\xef\xbb\xbf\n  " + RAW_BAND), VIRTUAL),
    Hostile("mem.tif", content(b"MEM:::DATAPOINTER=4096,PIXELS=100,LINES=100"), "but a text with an address in it"),
    Hostile("huge.tif", content(tiff_directory(image(10**6, 10**6, 500)).ljust(1024, b"\0")), "1,000,000 × 1,000,000"),
    Hostile("bands.tif", content(tiff_directory(image(100, 100, 65535))), "has 65,535 bands, the most is 1,000"),
    Hostile(
        "block.tif",
        content(tiff_directory(image(10**5, 10**5, t259=(3, [8])))),
        "has blocks of 9,536 MB, the most is 256 MB",
    ),
    Hostile(
        "pieces.tif",
        content(tiff_directory(image(10**5, 10**5, t322=(4, [16]), t323=(4, [16])))),
        "is cut into 39,062,500 blocks",
    ),
    Hostile("flat.tif", content(tiff_directory(image(0, 100))), "has no pixels: 0 × 100"),
    Hostile("old-jpeg.tif", content(tiff_directory(image(9, 9, t259=(3, [6])))), "compressed in a way that is not"),
    Hostile("cut-half.tif", lambda path: cut(path, 0.5), CUT),
    Hostile("cut-end.tif", lambda path: cut(path, 0.98), CUT),
    Hostile("cut-cog.tif", lambda path: cut(path, 0.9, driver="COG"), CUT),
    Hostile("cut-head.tif", content(b"II*\0"), "is not a GeoTIFF"),
    Hostile("empty.tif", content(b""), r"is empty \(0 bytes\): .* upload it again"),
    Hostile("zeros.tif", content(bytes(4096)), "it begins with zeros, as after an upload that was broken off"),
    Hostile("loop.tif", content(tiff_directory(image(4, 4), next_offset=8).ljust(200, b"\0")), "runs in a circle"),
    Hostile("no-directory.tif", content(b"II*\0\0\0\0\0"), "a TIFF without any image"),
    Hostile("no-place.tif", content(tiff_directory({256: (4, [9]), 257: (4, [9])})), "where its pixels are"),
    Hostile("scrambled.tif", scrambled, "is damaged: it cannot be read"),
    Hostile("big.tif", raster(BIGTIFF="YES"), None),
    Hostile("motorola.tif", raster(ENDIANNESS="BIG"), None),
    Hostile("nan-nodata.tif", lambda path: nan_nodata(path), "the value nan means no data, but its pixels are uint16"),
    Hostile("no-crs.tif", raster(crs=None), "has no coordinate system: set the right one"),
    Hostile("url-crs.tif", as_url_crs, "has a coordinate system that is not tied to the earth: set the right one"),
    Hostile("nowhere.tif", raster(crs=None, transform=Affine.identity()), "says nothing about where it lies"),
    Hostile("mirrored.tif", at(-1, 0, 20, 0, -1, 30), r"is mirrored: its west \(20\) lies east of its east"),
    Hostile("beyond-pole.tif", at(1, 0, 0, 0, -1, 500_000), "beyond the poles"),
    Hostile("round.tif", at(10, 0, -180, 0, -1, 50), "more than once round the earth"),
    Hostile("nan-place.tif", at(1, 0, NAN, 0, -1, 50), r"a position that is not a number \(NaN or infinite\)"),
    Hostile("inf-place.tif", at(1, 0, float("inf"), 0, -1, 50), r"a position that is not a number \(NaN or infinite\)"),
    Hostile("inf-pixel.tif", at(1e308, 0, 1, 0, -1e308, 50, crs="EPSG:32633"), "bounds that are not numbers"),
    Hostile("mars.tif", at(1, 0, 1e30, 0, -1, 1e30, crs="EPSG:32633"), "does not exist in its coordinate system"),
    Hostile("bomb.zip", content(zip_of({"bomb.tif": bytes(50_000_000)})), ZIP),
    Hostile("bomb.tif", content(zip_of({"bomb.tif": bytes(50_000_000)})), ZIP),
    Hostile("many.zip", content(zip_of({"x": b""})[: len("x") + 30] * 1_000_000), ZIP),
    Hostile("up.zip", content(zip_of({"../../../etc/cron.d/x": b"x"})), ZIP),
    Hostile("absolute.zip", content(zip_of({"/etc/cron.d/x": b"x"})), ZIP),
    Hostile("link.zip", content(zip_of({}, links={"link": "/etc"})), ZIP),
    Hostile("up.tar", content(tar_of(["../../x", "/etc/x"])), "is not a GeoTIFF but a tar archive; unpack it"),
    Hostile("bomb.tif.gz", content(b"\x1f\x8b\x08" + bytes(7) + zlib.compress(bytes(10**6))), "but a gzip archive"),
    Hostile("page.tif", content(b"<!DOCTYPE html><html>Access denied</html>"), "the error page of a download"),
    Hostile("text.tif", content(b"x,y,z\n1,2,3\n"), "is not a GeoTIFF, whatever its name says"),
    Hostile("picture.tif", content(b"\x89PNG\r\n\x1a\n" + bytes(64)), "but a PNG picture"),
    Hostile("points-out.tif", lambda path: tagged(path, "OVERVIEWS", OVERVIEW_FILE=SECRET), "points to other files"),
    Hostile(
        "points-to-web.tif",
        lambda path: tagged(path, "OVERVIEWS", OVERVIEW_FILE=f"/vsicurl/{NOWHERE}"),
        r"points to other files \(metadata OVERVIEWS\)",
    ),
    Hostile(
        "locates-out.tif",
        lambda path: tagged(path, "GEOLOCATION", X_DATASET=SECRET, Y_DATASET=SECRET, X_BAND="1", Y_BAND="1"),
        r"points to other files \(metadata GEOLOCATION\)",
    ),
    Hostile("-rf.tif", raster(), None),
    Hostile("MEM:::DATAPOINTER=4096,PIXELS=9,LINES=9", raster(), None),
    Hostile("GTIFF_DIR:1:x.tif", raster(), None),
    Hostile("a b'\"$(id);ü.tif", raster(), None),
    Hostile("x" * 251 + ".tif", raster(), None),
]


def nan_nodata(path: Path) -> None:
    """No library writes this; a `-1` of three letters is made into a `nan`."""
    write_raster(path, "int16", nodata=-12)
    data = path.read_bytes()
    assert data.count(b"-12\0") == 1
    path.write_bytes(
        data.replace(b"-12\0", b"nan\0").replace(
            struct.pack("<HHI", 339, 3, 1) + b"\2\0", struct.pack("<HHI", 339, 3, 1) + b"\1\0"
        )
    )


def write_all(folder: Path) -> None:
    """Beside each lie the files that GDAL likes to look for; all of them lead out."""
    folder.mkdir(parents=True)
    write_raster(folder / "plain.tif")
    for one in FILES:
        one.write(folder / one.name)
    aux = f'<PAMDataset><Metadata domain="OVERVIEWS"><MDI key="OVERVIEW_FILE">{SECRET}</MDI></Metadata></PAMDataset>'
    for name in ("plain.tif", "big.tif", "-rf.tif"):
        (folder / f"{name}.aux.xml").write_text(aux)
        (folder / f"{name}.ovr").write_bytes(RAW_BAND)
        (folder / f"{name}.msk").write_bytes(RAW_BAND)
        (folder / f"{name.removesuffix('.tif')}.tfw").write_text("1\n0\n0\n-1\n0\n0\n")
