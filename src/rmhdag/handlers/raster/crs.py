"""Reads coordinate systems from text. Nothing is ever fetched or opened as a file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Annotated, Any

import rasterio
from pydantic import AfterValidator
from rasterio._err import CPLE_BaseError
from rasterio.crs import CRS
from rasterio.errors import CRSError, RasterioError
from rasterio.io import MemoryFile
from rasterio.transform import Affine

from rmhdag.handlers.contract import NonRetryableError
from rmhdag.handlers.raster.crs_text import find_pointer

MOST_CHARACTERS = 16_384
CODE = re.compile(r"^(EPSG|ESRI|OGC|IAU_2015):([A-Za-z0-9]{1,12})$", re.IGNORECASE)
WKT = re.compile(r"^\s*(COMPD_?CS|COMPOUNDCRS|GEOG(?:CS|CRS)|GEODCRS|PROJ(?:CS|CRS)|GEOGRAPHICCRS)\s*\[")
LAST_AUTHORITY = re.compile(r',AUTHORITY\["[^"]*","[^"]*"\]\]$')
# In degrees, a tenth of a metre: the tolerance for rounded corners.
HAIR = 1e-6
# In metres: ellipsoids and spheres of the earth differ by less than one per cent.
EARTH_RADIUS = 6_371_000.0
OTHER_BODY = 0.01


class CrsRefused(NonRetryableError):
    """The text is not an acceptable coordinate system."""

    default_code = "INVALID_PARAMETER"


def read_crs(text: str) -> CRS:
    """A code such as EPSG:32633, or WKT. GDAL itself would also fetch URLs and read files that a text names."""
    if len(text) <= MOST_CHARACTERS:
        code = CODE.match(text.strip())
        try:
            if code is not None:
                return _with_a_plane(CRS.from_authority(code[1].upper(), code[2].upper()), text)
            if WKT.match(text):
                return _with_a_plane(crs_of_wkt(text), text)
        except CRSError:
            raise CrsRefused(
                f"there is no coordinate system {_shown(text)}: look the code up at epsg.io, as in EPSG:32633"
            ) from None
    if "://" in text:
        raise CrsRefused(
            f"the coordinate system {_shown(text)} is a web address and is not fetched: give its code, as EPSG:4326"
        )
    raise CrsRefused(f"the coordinate system {_shown(text)} is not understood: give its code, as EPSG:4326, or its WKT")


def check_crs(text: str) -> str:
    try:
        read_crs(text)
    except CrsRefused as error:
        raise ValueError(str(error)) from None
    return text


# Of a parameter.
CrsText = Annotated[str, AfterValidator(check_crs)]


def crs_of_wkt(text: str) -> CRS:
    """Read WKT from outside, even if we wrote it earlier. Raises CrsRefused, or CRSError if it is not WKT."""
    _refuse_files(text)
    crs = CRS.from_wkt(text)
    require_no_files(crs)
    return crs


def require_no_files(crs: CRS | None, name: str = "") -> None:
    """Raises CrsRefused for a system that makes PROJ open files when coordinates are transformed.

    Both notations are checked: each omits things that the other cannot express.
    """
    if crs is not None:
        _refuse_files(str(crs.to_wkt()), name)
        _refuse_files(str(crs.to_wkt(version="WKT2_2019")), name, may_be_bound=True)


def _refuse_files(wkt: str, name: str = "", *, may_be_bound: bool = False) -> None:
    pointer = find_pointer(wkt, may_be_bound=may_be_bound)
    if pointer is not None:
        whose = f"of {name} " if name else ""
        raise CrsRefused(
            f"the coordinate system {whose}points to a file or to a transformation ({_shown(pointer)}), and only plain "
            "systems are taken: give its code, as EPSG:4326, or its WKT without that part",
            code="VALIDATION_ERROR" if name else None,
        )


def crs_name(crs: CRS) -> str:
    """Its code if it has one, otherwise its WKT."""
    authority = crs.to_authority(confidence_threshold=70)
    return ":".join(authority) if authority else str(crs.to_wkt())


def radius_of(crs: CRS) -> float:
    """The radius of the system's body in metres; that of the earth if the system does not name one."""
    for ellipsoid in _ellipsoids(crs.to_dict(projjson=True)):
        radius = ellipsoid.get("radius", ellipsoid.get("semi_major_axis"))
        if isinstance(radius, dict):
            factor = radius["unit"]["conversion_factor"] if isinstance(radius.get("unit"), dict) else 1.0
            radius = radius["value"] * factor
        if radius:
            return float(radius)
    return EARTH_RADIUS


def is_of_the_earth(crs: CRS) -> bool:
    return abs(radius_of(crs) / EARTH_RADIUS - 1) <= OTHER_BODY


def kept_crs(crs: CRS) -> CRS:
    """The system that a GeoTIFF can store: the same, or without its ellipsoidal heights.

    GDAL writes a projected system with three axes and cannot read it back, which leaves a file without a system.
    """
    return crs if crs.to_authority() else _kept(str(crs.to_wkt(version="WKT2_2019")))


def goes_beyond_180(crs: CRS, left: float, right: float) -> bool:
    return bool(crs.is_geographic) and (left < -180 - HAIR or right > 180 + HAIR)


def within_180(left: float, right: float) -> list[tuple[float, float]]:
    """The same longitudes within -180 to 180: one span, or one at each end of the range."""
    turned = [(max(left + turn, -180.0), min(right + turn, 180.0)) for turn in (-360, 0, 360)]
    return [(west, east) for west, east in turned if east - west > HAIR]


def around_its_middle(crs: CRS, left: float, right: float) -> CRS:
    """The system to warp a raster from: its own, or one that supports longitudes beyond 180 degrees.

    GDAL's transformations answer from -180 to 180, unless the system has a central longitude. It takes two systems of
    one code or name for one and remembers what it knows of the first, so this one has neither of the plain one's.
    """
    if not goes_beyond_180(crs, left, right):
        return crs
    wkt = str(crs.to_wkt())
    if 'GEOGCS["' not in wkt:
        raise CrsRefused(
            "the longitudes of the raster go beyond 180 degrees, which cannot be followed in a coordinate system with "
            "heights or a rotated pole: give it a plain one, as with `gdal_translate -a_srs EPSG:4326 in.tif out.tif`",
            code="VALIDATION_ERROR",
        )
    middle = (left + right) / 2
    wkt = wkt.replace('GEOGCS["', f'GEOGCS["around {middle} ', 1)
    wkt = wkt.replace(",PRIMEM[", f',EXTENSION["CENTER_LONG","{middle}"],PRIMEM[', 1)
    return CRS.from_wkt(LAST_AUTHORITY.sub("]", wkt))


@lru_cache(maxsize=64)
def _kept(wkt: str) -> CRS:
    crs = CRS.from_wkt(wkt)
    if _comes_back(crs):
        return crs
    described = crs.to_dict(projjson=True)
    system = described.get("coordinate_system")
    if isinstance(system, dict):
        flat = {key: value for key, value in described.items() if key not in ("id", "ids", "$schema")}
        flat["coordinate_system"] = {**system, "axis": system["axis"][:2]}
        try:
            plain = CRS.from_string(json.dumps(flat))
        except CRSError:
            plain = None
        if plain is not None and _comes_back(plain):
            return plain
    raise CrsRefused(
        f"the coordinate system {_shown(wkt)} cannot be kept in a GeoTIFF: give the raster a plain one, as with "
        "`gdal_edit.py -a_srs EPSG:32633 in.tif`",
        code="VALIDATION_ERROR",
    )


def _comes_back(crs: CRS) -> bool:
    """Whether a GeoTIFF that is written with the system returns it when read."""
    profile = {"driver": "GTiff", "width": 1, "height": 1, "count": 1, "dtype": "uint8", "transform": Affine.scale(2)}
    try:
        with MemoryFile() as memory:
            with memory.open(**profile, crs=crs):
                pass
            with rasterio.open(memory.name, driver="GTiff") as written:
                return written.crs is not None
    except (RasterioError, CRSError, CPLE_BaseError):
        return False


def _ellipsoids(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        if isinstance(value.get("ellipsoid"), dict):
            yield value["ellipsoid"]
        for inner in value.values():
            yield from _ellipsoids(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _ellipsoids(inner)


def _with_a_plane(crs: CRS, text: str) -> CRS:
    """Heights alone and distances from the middle of the earth are coordinate systems too."""
    if not (crs.is_geographic or crs.is_projected):
        raise CrsRefused(
            f"the coordinate system {_shown(text)} has no east and north: give a geographic or projected one, "
            "as EPSG:4326 or EPSG:32633"
        )
    return crs


def _shown(text: str) -> str:
    text = ascii(text)
    return text if len(text) <= 100 else f"{text[:100]}…"
