"""Reads the header of a TIFF by our own code, before GDAL sees the file.

Only the directories are read, never a pixel, in pieces of bounded size. All values of a directory are compared with
the size of the file and with the limits, so that a false value costs nothing.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from rmhdag.handlers.raster.crs_text import find_pointer
from rmhdag.handlers.raster_limits import MEGABYTE, RasterLimits

ReadAt = Callable[[int, int], bytes]

MOST_DIRECTORIES = 256
MOST_TAGS = 4096
MOST_BLOCKS = 10_000_000
MOST_VALUES_READ = 65_536
MOST_TEXT_BYTES = 256
MOST_GEO_TEXT_BYTES = 65_536
PIECE_VALUES = 131_072
# A COG has tiles of this size. A line of pixels fills a small part of each, and costs as much as all of it.
TILE_PIXELS = 512
MOST_TIMES_LARGER = 64
LEAST_TILED_BYTES = 512 * MEGABYTE

WIDTH, HEIGHT, BITS, COMPRESSION, SAMPLES, ROWS, PLANAR = 256, 257, 258, 259, 277, 278, 284
TILE_WIDTH, TILE_HEIGHT, NESTED, NODATA, GEO_TEXTS = 322, 323, 330, 42113, 34737
STRIP_OFFSETS, STRIP_BYTES, TILE_OFFSETS, TILE_BYTES = 273, 279, 324, 325
ASCII = 2
PLAIN_SYSTEM = "give it a plain one, as with `gdal_edit.py -a_srs EPSG:32633 in.tif`"


class Compression(NamedTuple):
    """The usual name, and the names that GDAL may use for it."""

    name: str
    gdal_names: frozenset[str | None]


# The only list of what is accepted; docs/architecture/raster-safety.md shows it. LZMA is rare and slow, and not on it.
COMPRESSIONS = {
    1: Compression("none", frozenset({None})),
    5: Compression("LZW", frozenset({"LZW"})),
    7: Compression("JPEG", frozenset({"JPEG", "YCbCr JPEG"})),
    8: Compression("deflate", frozenset({"DEFLATE"})),
    32773: Compression("packbits", frozenset({"PACKBITS"})),
    32946: Compression("deflate", frozenset({"DEFLATE"})),
    34887: Compression("LERC", frozenset({"LERC", "LERC_DEFLATE", "LERC_ZSTD"})),
    50000: Compression("zstd", frozenset({"ZSTD"})),
    50001: Compression("WebP", frozenset({"WEBP"})),
}
# Up to this unpacked size, any file size is accepted: it takes some minutes, and sparse rasters are common.
LEAST_DECODED_BYTES = 4096 * MEGABYTE

# Width in bytes and numpy's letter, by the number of the type; text and the like have no letter.
TYPES: dict[int, tuple[int, str]] = {
    1: (1, "u1"),
    2: (1, ""),
    3: (2, "u2"),
    4: (4, "u4"),
    5: (8, ""),
    6: (1, ""),
    7: (1, ""),
    8: (2, ""),
    9: (4, ""),
    10: (8, ""),
    11: (4, ""),
    12: (8, ""),
    13: (4, "u4"),
    16: (8, "u8"),
    17: (8, ""),
    18: (8, "u8"),
}

# First bytes of other files that are often named .tif, and what to do with them.
OTHER_FORMATS: list[tuple[bytes, str]] = [
    (b"PK", "a ZIP archive; unpack it and upload the GeoTIFFs that are in it one by one"),
    (b"\x1f\x8b", "a gzip archive; unpack it and upload the GeoTIFF that is in it"),
    (b"BZh", "a bzip2 archive; unpack it and upload the GeoTIFF that is in it"),
    (b"\xfd7zXZ", "an xz archive; unpack it and upload the GeoTIFF that is in it"),
    (b"7z\xbc\xaf", "a 7-Zip archive; unpack it and upload the GeoTIFFs that are in it one by one"),
    (b"Rar!", "a RAR archive; unpack it and upload the GeoTIFFs that are in it one by one"),
    (b"\x28\xb5\x2f\xfd", "a zstd archive; unpack it and upload the GeoTIFF that is in it"),
    (b"\x89PNG", "a PNG picture; convert it to a GeoTIFF with its place on the earth"),
    (b"\xff\xd8\xff", "a JPEG picture; convert it to a GeoTIFF with its place on the earth"),
    (b"\x89HDF", "an HDF5 or netCDF file; export the variable that you need as a GeoTIFF"),
    (b"CDF", "a netCDF file; export the variable that you need as a GeoTIFF"),
    (b"\x00\x00\x00\x0cjP", "a JPEG 2000 file; convert it with `gdal_translate in.jp2 out.tif`"),
    (b"%PDF", "a PDF; export its map as a GeoTIFF"),
    (b"SQLite format 3", "a database such as a GeoPackage; export its raster as a GeoTIFF"),
]
VIRTUAL = (
    "a virtual raster (VRT), a text that points to other files; convert it with `gdal_translate in.vrt out.tif` "
    "and upload the result"
)


class BadTiff(ValueError):
    """What is wrong with the file, as the second half of a sentence that begins with its name; and its code."""

    def __init__(self, message: str, code: str = "CORRUPTED_FILE") -> None:
        super().__init__(message)
        self.code = code


class Directory(NamedTuple):
    """One image of the file: the first is the raster itself, others are overviews, masks or further pages."""

    width: int
    height: int
    bands: int
    bits: int
    compression: int
    block_width: int
    block_height: int
    block_bytes: int
    blocks: int
    # As written in the file; GDAL ignores values that no pixel can have.
    nodata: str | None
    is_tiled: bool = False

    @property
    def decoded_bytes(self) -> int:
        return self.width * self.height * self.bands * self.bits // 8

    @property
    def is_plain_strip(self) -> bool:
        """GDAL reads a lone strip without compression in small pieces, however high it is."""
        return self.compression == 1 and self.block_width == self.width and self.blocks == 1

    @property
    def tiled_bytes(self) -> int:
        """The unpacked size in whole tiles of a COG."""
        tiles = -(-self.width // TILE_PIXELS) * -(-self.height // TILE_PIXELS)
        return tiles * TILE_PIXELS**2 * self.bands * self.bits // 8


class TiffHeader(NamedTuple):
    is_big: bool
    directories: tuple[Directory, ...]


class _Tag(NamedTuple):
    type: int
    length: int
    # The offset of its values.
    offset: int


def read_header(read_at: ReadAt, size_bytes: int, limits: RasterLimits) -> TiffHeader:
    """Raises BadTiff if the file is not a TIFF, is damaged, or exceeds the limits."""
    if size_bytes == 0:
        raise BadTiff("is empty (0 bytes): the upload has probably failed, upload it again")
    if size_bytes > limits.raster_max_file_mb * MEGABYTE:
        raise BadTiff(
            f"has {size_bytes // MEGABYTE:,} MB, the most is {limits.raster_max_file_mb:,} MB "
            "(RMHDAG_RASTER_MAX_FILE_MB): cut it into smaller files",
            code="RASTER_TOO_LARGE",
        )
    start = read_at(0, min(size_bytes, 512))
    order, is_big = _recognise(start)
    reader = _Reader(read_at, size_bytes, order, is_big)
    directories: list[Directory] = []
    offsets: set[int] = set()
    pending = [reader.first_directory(start)]
    while pending:
        offset = pending.pop(0)
        if offset == 0:
            continue
        if offset in offsets:
            raise BadTiff("is damaged: its list of images runs in a circle; export it again from its source")
        if len(directories) >= MOST_DIRECTORIES:
            raise BadTiff(
                f"has more than {MOST_DIRECTORIES} images in one file: upload them one by one", code="INVALID_FORMAT"
            )
        offsets.add(offset)
        tags, following = reader.read_directory(offset)
        # GDAL takes images within an image for overviews of it.
        pending += [following, *reader.nested(tags)]
        directory = _directory_of(reader, tags)
        _check_limits(directory, limits)
        _check_blocks(reader, tags, directory)
        _check_geo_texts(reader, tags)
        directories.append(directory)
    if not directories:
        raise BadTiff("is damaged: it is a TIFF without any image; export it again from its source")
    _check_ratio(sum(directory.decoded_bytes for directory in directories), size_bytes, limits)
    return TiffHeader(is_big, tuple(directories))


def _recognise(start: bytes) -> tuple[str, bool]:
    """Byte order and whether it is a BigTIFF."""
    order = {b"II": "<", b"MM": ">"}.get(start[:2])
    if order is not None and len(start) >= 8:
        (version,) = struct.unpack(f"{order}H", start[2:4])
        if version == 42:
            return order, False
        if version == 43 and len(start) >= 16 and struct.unpack(f"{order}HH", start[4:8]) == (8, 0):
            return order, True
    text = start.lstrip(b"\xef\xbb\xbf \t\r\n")
    if b"<VRTDataset" in start or b"<GDALTileIndexDataset" in start:
        raise BadTiff(f"is not a GeoTIFF but {VIRTUAL}", code="INVALID_FORMAT")
    if text[:4].upper() in (b"MEM:", b"/VSI"):
        raise BadTiff(
            "is not a GeoTIFF but a text with an address in it: upload the raster itself", code="INVALID_FORMAT"
        )
    for signature, described in OTHER_FORMATS:
        if start.startswith(signature):
            raise BadTiff(f"is not a GeoTIFF but {described}", code="INVALID_FORMAT")
    if start[257:262] == b"ustar":
        raise BadTiff(
            "is not a GeoTIFF but a tar archive; unpack it and upload the GeoTIFFs that are in it one by one",
            code="INVALID_FORMAT",
        )
    if text.startswith(b"<"):
        raise BadTiff(
            "is not a GeoTIFF but a page or a text in XML, perhaps the error page of a download: look into it",
            code="INVALID_FORMAT",
        )
    if not start.strip(b"\0"):
        raise BadTiff("is not a GeoTIFF: it begins with zeros, as after an upload that was broken off; upload it again")
    raise BadTiff(
        "is not a GeoTIFF, whatever its name says: export it as a GeoTIFF and upload that", code="INVALID_FORMAT"
    )


class _Reader:
    """Numbers and lists at offsets of the file, none of them beyond its end."""

    def __init__(self, read_at: ReadAt, size_bytes: int, order: str, is_big: bool) -> None:
        self._read_at = read_at
        self._size_bytes = size_bytes
        self._order = order
        self._is_big = is_big
        self._offset_format = f"{order}Q" if is_big else f"{order}I"
        self._offset_bytes = 8 if is_big else 4

    def first_directory(self, start: bytes) -> int:
        return self._offset(start, 8 if self._is_big else 4)

    def _offset(self, data: bytes, at: int) -> int:
        return int(struct.unpack_from(self._offset_format, data, at)[0])

    def bytes_at(self, offset: int, length: int) -> bytes:
        if offset + length > self._size_bytes:
            raise cut_off(self._size_bytes)
        data = self._read_at(offset, length)
        if len(data) != length:
            raise cut_off(self._size_bytes)
        return data

    def read_directory(self, offset: int) -> tuple[dict[int, _Tag], int]:
        """Its tags, and where the next directory is; 0 at the end."""
        head, tag_bytes = (8, 20) if self._is_big else (2, 12)
        (count,) = struct.unpack(self._order + ("Q" if self._is_big else "H"), self.bytes_at(offset, head))
        if not 0 < count <= MOST_TAGS:
            raise BadTiff("is damaged: a list of its properties makes no sense; export it again from its source")
        data = self.bytes_at(offset + head, count * tag_bytes + self._offset_bytes)
        tags: dict[int, _Tag] = {}
        before = -1
        for number in range(count):
            at = number * tag_bytes
            name, kind = struct.unpack_from(f"{self._order}HH", data, at)
            if name <= before:
                # Of repeated tags, other readers use the first, the last, or both: perhaps not the one that we check.
                raise BadTiff(
                    f"names its properties {'twice' if name in tags else 'out of order'} (tag {name}), which readers "
                    "understand differently: rewrite it with `gdal_translate in.tif out.tif`"
                )
            before = name
            values = self._offset(data, at + 4)
            place = at + 4 + self._offset_bytes
            fits = TYPES.get(kind, (1, ""))[0] * values <= self._offset_bytes
            tags[name] = _Tag(kind, values, offset + head + place if fits else self._offset(data, place))
        return tags, self._offset(data, count * tag_bytes)

    def nested(self, tags: dict[int, _Tag]) -> list[int]:
        """Where the images are that belong to one."""
        return self.numbers(tags[NESTED], most=MOST_DIRECTORIES).tolist() if NESTED in tags else []

    def numbers(self, tag: _Tag, first: int = 0, most: int = MOST_VALUES_READ) -> np.ndarray[Any, np.dtype[Any]]:
        width, letter = TYPES.get(tag.type, (0, ""))
        if not letter:
            raise BadTiff("is damaged: a property that should be a number is none; export it again from its source")
        length = max(0, min(tag.length - first, most))
        data = self.bytes_at(tag.offset + first * width, length * width)
        return np.frombuffer(data, f"{self._order}{letter}")

    def number(self, tags: dict[int, _Tag], name: int, default: int | None = None) -> int:
        tag = tags.get(name)
        if tag is None or tag.length == 0:
            if default is None:
                raise BadTiff("is damaged: it does not say how large its image is; export it again from its source")
            return default
        return int(self.numbers(tag, most=1)[0])

    def text(self, tags: dict[int, _Tag], name: int) -> str | None:
        tag = tags.get(name)
        if tag is None:
            return None
        data = self.bytes_at(tag.offset, min(tag.length, MOST_TEXT_BYTES))
        return data.partition(b"\0")[0].decode("ascii", "replace").strip() or None

    def check_places(self, offsets: _Tag, lengths: _Tag) -> None:
        """Every block is inside the file. Missing blocks are empty, not damaged."""
        for first in range(0, min(offsets.length, lengths.length), PIECE_VALUES):
            begins = self.numbers(offsets, first, PIECE_VALUES).astype(np.uint64)
            sizes = self.numbers(lengths, first, PIECE_VALUES).astype(np.uint64)
            begins, sizes = begins[: len(sizes)], sizes[: len(begins)]
            # Not begins + sizes, which could overflow.
            outside = (sizes > 0) & (
                (begins > self._size_bytes) | (sizes > self._size_bytes - np.minimum(begins, self._size_bytes))
            )
            if outside.any():
                raise cut_off(self._size_bytes)


def cut_off(size_bytes: int) -> BadTiff:
    return BadTiff(
        f"is cut off: parts of it should lie behind its end at {size_bytes:,} bytes; "
        "the upload was probably broken off, upload it again"
    )


def _directory_of(reader: _Reader, tags: dict[int, _Tag]) -> Directory:
    width, height = reader.number(tags, WIDTH), reader.number(tags, HEIGHT)
    bands = reader.number(tags, SAMPLES, 1)
    if not (width and height and bands):
        raise BadTiff(f"has no pixels: {width} × {height}, {bands} bands; export it again from its source")
    bits = int(max(reader.numbers(tags[BITS]).tolist(), default=1)) if BITS in tags else 1
    compression = reader.number(tags, COMPRESSION, 1)
    if TILE_WIDTH in tags:
        block_width, block_height = reader.number(tags, TILE_WIDTH), reader.number(tags, TILE_HEIGHT)
    else:
        block_width, block_height = width, min(height, reader.number(tags, ROWS, height))
    if not (block_width and block_height):
        raise BadTiff("is damaged: its blocks have no size; export it again from its source")
    is_separate = reader.number(tags, PLANAR, 1) == 2
    blocks = -(-width // block_width) * -(-height // block_height) * (bands if is_separate else 1)
    block_bytes = block_width * block_height * bits * (1 if is_separate else bands) // 8
    nodata = reader.text(tags, NODATA)
    return Directory(
        width,
        height,
        bands,
        bits,
        compression,
        block_width,
        block_height,
        block_bytes,
        blocks,
        nodata,
        TILE_WIDTH in tags,
    )


def _check_limits(directory: Directory, limits: RasterLimits) -> None:
    pixels = directory.width * directory.height
    if pixels > limits.raster_max_pixels:
        raise BadTiff(
            f"says that it has {directory.width:,} × {directory.height:,} pixels, the most is "
            f"{limits.raster_max_pixels:,} in all (RMHDAG_RASTER_MAX_PIXELS): cut it into smaller files",
            code="RASTER_TOO_LARGE",
        )
    if directory.bands > limits.raster_max_bands:
        raise BadTiff(
            f"has {directory.bands:,} bands, the most is {limits.raster_max_bands:,} (RMHDAG_RASTER_MAX_BANDS): "
            "split it by bands",
            code="RASTER_BAND_INVALID",
        )
    if directory.decoded_bytes > limits.raster_max_decoded_mb * MEGABYTE:
        raise BadTiff(
            f"has {directory.decoded_bytes // MEGABYTE:,} MB when it is unpacked, the most is "
            f"{limits.raster_max_decoded_mb:,} MB (RMHDAG_RASTER_MAX_DECODED_MB): cut it into smaller files",
            code="RASTER_TOO_LARGE",
        )
    if directory.tiled_bytes > max(LEAST_TILED_BYTES, MOST_TIMES_LARGER * directory.decoded_bytes):
        raise BadTiff(
            f"is a line of {directory.width:,} × {directory.height:,} pixels: in the tiles of a COG it would take "
            f"{directory.tiled_bytes // MEGABYTE:,} MB instead of {directory.decoded_bytes // MEGABYTE:,} MB. "
            "Cut it into pieces, or keep it as a table",
            code="RASTER_TOO_LARGE",
        )
    if directory.compression not in COMPRESSIONS:
        raise BadTiff(
            f"is compressed in a way that is not accepted (number {directory.compression}): "
            "rewrite it with `gdal_translate -co COMPRESS=DEFLATE -co TILED=YES in.tif out.tif`",
            code="INVALID_FORMAT",
        )
    if directory.blocks > MOST_BLOCKS:
        raise BadTiff(
            f"is cut into {directory.blocks:,} blocks, the most is {MOST_BLOCKS:,}: "
            "rewrite it with `gdal_translate -co TILED=YES in.tif out.tif`",
            code="INVALID_FORMAT",
        )
    if directory.block_bytes > limits.raster_max_block_mb * MEGABYTE and not directory.is_plain_strip:
        raise BadTiff(
            f"has blocks of {directory.block_bytes // MEGABYTE:,} MB, the most is {limits.raster_max_block_mb:,} MB "
            "(RMHDAG_RASTER_MAX_BLOCK_MB): rewrite it with `gdal_translate -co TILED=YES in.tif out.tif`",
            code="INVALID_FORMAT",
        )


def _check_geo_texts(reader: _Reader, tags: dict[int, _Tag]) -> None:
    """One of them may be a whole coordinate system, as ESRI's programs write it, and GDAL reads it on opening."""
    tag = tags.get(GEO_TEXTS)
    if tag is None:
        return
    if tag.type != ASCII or tag.length > MOST_GEO_TEXT_BYTES:
        raise BadTiff(
            f"has names in its coordinate system that are not text, or very long: {PLAIN_SYSTEM}",
            code="VALIDATION_ERROR",
        )
    pointer = find_pointer(reader.bytes_at(tag.offset, tag.length).replace(b"\0", b" ").decode("utf-8", "replace"))
    if pointer is not None:
        raise BadTiff(
            f"has a coordinate system that points to a file or to a transformation ({pointer[:80]!r}), and nothing but "
            f"the file itself is read: {PLAIN_SYSTEM}",
            code="VALIDATION_ERROR",
        )


def _check_ratio(decoded_bytes: int, size_bytes: int, limits: RasterLimits) -> None:
    """A small file that unpacks to a huge raster would occupy a worker for hours."""
    if decoded_bytes > max(LEAST_DECODED_BYTES, limits.raster_max_ratio * size_bytes):
        raise BadTiff(
            f"has {decoded_bytes // MEGABYTE:,} MB when it is unpacked, {decoded_bytes // size_bytes:,} times its "
            f"size; the most is {limits.raster_max_ratio:,} times (RMHDAG_RASTER_MAX_RATIO): cut away what is empty",
            code="RASTER_TOO_LARGE",
        )


def _check_blocks(reader: _Reader, tags: dict[int, _Tag], directory: Directory) -> None:
    places = (TILE_OFFSETS, TILE_BYTES) if TILE_OFFSETS in tags else (STRIP_OFFSETS, STRIP_BYTES)
    offsets, lengths = (tags.get(name) for name in places)
    if offsets is None:
        raise BadTiff("is damaged: it does not say where its pixels are; export it again from its source")
    if max(offsets.length, lengths.length if lengths else 0) > 2 * directory.blocks + 16:
        raise BadTiff("is damaged: it names more blocks than its image has; export it again from its source")
    if lengths is not None:
        reader.check_places(offsets, lengths)
