"""What our own reader checks is what GDAL reads: a TIFF that two readers understand differently is refused."""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rmhdag.handlers.raster import opening, tiff_header
from rmhdag.handlers.raster.opening import RasterRefused, open_local
from rmhdag.handlers.raster.tiff_header import COMPRESSIONS, BadTiff, TiffHeader, read_header
from rmhdag.handlers.raster_limits import MEGABYTE, RasterLimits
from tests.handlers.raster.rasters import hills, write_raster

ROOT = Path(__file__).resolve().parents[2]
WIDTH, HEIGHT, BITS, COMPRESSION, PHOTOMETRIC, SAMPLES = 256, 257, 258, 259, 262, 277
TILE_WIDTH, TILE_HEIGHT, TILE_OFFSETS, TILE_BYTES, NESTED = 322, 323, 324, 325, 330
LZMA = 34925

Tags = list[tuple[int, int]]


def tiff(tags: Tags, content: bytes) -> bytes:
    """One directory of short tags in the order given; its only block is behind it."""
    start = 8 + 2 + 12 * len(tags) + 4
    values = [(tag, start if tag == TILE_OFFSETS else value) for tag, value in tags]
    entries = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in values)
    return b"II*\0" + struct.pack("<IH", 8, len(tags)) + entries + struct.pack("<I", 0) + content


def plain(size: int = 256, compression: int = 8) -> Tags:
    content = zlib.compress(bytes(size * size))
    return [
        (WIDTH, size),
        (HEIGHT, size),
        (BITS, 8),
        (COMPRESSION, compression),
        (PHOTOMETRIC, 1),
        (SAMPLES, 1),
        (TILE_WIDTH, size),
        (TILE_HEIGHT, size),
        (TILE_OFFSETS, 0),
        (TILE_BYTES, len(content)),
    ]


def header_of(data: bytes, limits: RasterLimits | None = None) -> TiffHeader:
    return read_header(lambda offset, length: data[offset : offset + length], len(data), limits or RasterLimits())


def inserted(tags: Tags, at: int, tag: tuple[int, int]) -> Tags:
    return [*tags[:at], tag, *tags[at:]]


def test_a_sound_file_passes(tmp_path: Path) -> None:
    path = tmp_path / "a.tif"
    path.write_bytes(tiff(plain(), zlib.compress(bytes(256 * 256))))
    with open_local(path) as dataset:
        assert dataset.block_shapes == [(256, 256)]


@pytest.mark.parametrize(
    ("tags", "sentence"),
    [
        (inserted(plain(), 6, (TILE_WIDTH, 32768)), "twice (tag 322)"),
        (inserted(plain(), 7, (TILE_WIDTH, 32768)), "twice (tag 322)"),
        (inserted(plain(), 3, (COMPRESSION, LZMA)), "twice (tag 259)"),
        (inserted(plain(), 4, (COMPRESSION, LZMA)), "twice (tag 259)"),
        ([*plain(), (COMPRESSION, LZMA)], "twice (tag 259)"),
        (list(reversed(plain())), "out of order"),
        ([*plain(), (254, 0)], "out of order (tag 254)"),
        (plain(compression=LZMA), "compressed in a way that is not accepted (number 34925)"),
    ],
)
def test_repeated_and_unsorted_tags_are_refused(tags: Tags, sentence: str) -> None:
    with pytest.raises(BadTiff, match=re.escape(sentence)):
        header_of(tiff(tags, zlib.compress(bytes(256 * 256))))


@pytest.mark.parametrize(
    "change",
    [
        lambda one: one._replace(block_width=128, block_height=128, blocks=4),
        lambda one: one._replace(compression=5),
        lambda one: one._replace(compression=1),
    ],
)
def test_what_gdal_finds_must_be_what_was_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[tiff_header.Directory], tiff_header.Directory]
) -> None:
    """Should there be another way to make two readers differ: the header says otherwise than GDAL."""
    path = write_raster(
        tmp_path / "a.tif", hills(256, 256), compress="deflate", tiled=True, blockxsize=256, blockysize=256
    )

    def differing(*given: object) -> TiffHeader:
        header = read_header(*given)  # type: ignore[arg-type]
        return header._replace(directories=(change(header.directories[0]), *header.directories[1:]))

    monkeypatch.setattr(opening, "read_header", differing)
    with (
        pytest.raises(RasterRefused, match="two readers find blocks of different size or compression"),
        open_local(path),
    ):
        pass


def nested(directory: Callable[[int], bytes], tag_type: int = 4, many: int = 1) -> bytes:
    """A sound image with another one inside it, which is no member of the file's list of images."""
    content = zlib.compress(bytes(256 * 256))
    tags = inserted(plain(), len(plain()), (NESTED, 0))
    inner = 8 + 2 + 12 * len(tags) + 4 + len(content)
    data = tiff(tags, content)
    entry = struct.pack("<HHI", NESTED, 4, 1)
    given = struct.pack("<HHI", NESTED, tag_type, many)
    return data.replace(entry + bytes(4), given + struct.pack("<I", inner)) + directory(inner)


def image(size: int, block: int, compression: int, following: int | None = None) -> Callable[[int], bytes]:
    """Half as wide as the outer one, as overviews are."""

    def directory(at: int) -> bytes:
        given = {WIDTH: size, HEIGHT: size, TILE_WIDTH: block, TILE_HEIGHT: block, TILE_OFFSETS: 8, TILE_BYTES: 8}
        tags = [(tag, given.get(tag, value)) for tag, value in [(254, 1), *plain(128, compression)]]
        entries = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags)
        return struct.pack("<H", len(tags)) + entries + struct.pack("<I", at if following is None else following)

    return directory


@pytest.mark.parametrize("tag_type", [4, 13])
@pytest.mark.parametrize(
    ("directory", "sentence"),
    [
        (image(128, 32768, 8, 0), "has blocks of 1,024 MB"),
        (image(128, 128, LZMA, 0), "compressed in a way that is not accepted (number 34925)"),
        (image(4_000_000, 128, 8, 0), "pixels, the most is"),
        (image(128, 128, 8), "runs in a circle"),
        (lambda at: b"", "cut off"),
    ],
)
def test_images_within_an_image_are_checked_too(
    directory: Callable[[int], bytes], sentence: str, tag_type: int
) -> None:
    """GDAL reads them as overviews."""
    with pytest.raises(BadTiff, match=re.escape(sentence)):
        header_of(nested(directory, tag_type))


def test_sound_images_within_an_image_pass(tmp_path: Path) -> None:
    path = tmp_path / "a.tif"
    path.write_bytes(nested(image(128, 128, 8, 0)))
    with open_local(path) as dataset:
        assert dataset.overviews(1) == [2], "so GDAL does read them"
    assert len(header_of(path.read_bytes()).directories) == 2


@pytest.mark.parametrize("tiled", [True, False])
@pytest.mark.parametrize(
    "compress", ["none", "lzw", "deflate", "packbits", "lerc", "lerc_zstd", "zstd", "webp", "jpeg"]
)
def test_everything_on_the_list_opens(tmp_path: Path, compress: str, tiled: bool) -> None:
    """By both readers, in tiles and strips: whatever GDAL writes is described alike."""
    pixels = np.tile(np.arange(240, dtype="uint8"), (3, 2600, 2))
    more: dict[str, Any] = {"photometric": "ycbcr"} if compress == "jpeg" else {}
    if tiled:
        more |= {"blockxsize": 256, "blockysize": 256}
    path = write_raster(tmp_path / "a.tif", pixels, compress=compress, tiled=tiled, interleave="pixel", **more)
    with open_local(path) as dataset:
        assert dataset.read(1).shape == (2600, 480)


def test_the_documentation_has_the_list() -> None:
    text = (ROOT / "docs" / "architecture" / "raster-safety.md").read_text()
    for number, compression in COMPRESSIONS.items():
        assert f"{compression.name} ({number})" in text or re.search(rf"{compression.name} \([\d, ]*\b{number}\b", text)
    assert "LZMA" in text


def test_a_small_file_does_not_unpack_to_a_huge_one() -> None:
    """1 MB that claims 19 gigapixels within all other limits: every block is there, and is the same one."""
    side, tile = 131_072, 8_192
    blocks = (side // tile) ** 2
    content = bytes(MEGABYTE)
    tags = [
        (WIDTH, 4, 1, side),
        (HEIGHT, 4, 1, side),
        (BITS, 3, 1, 8),
        (COMPRESSION, 3, 1, 8),
        (PHOTOMETRIC, 3, 1, 1),
        (SAMPLES, 3, 1, 1),
        (TILE_WIDTH, 4, 1, tile),
        (TILE_HEIGHT, 4, 1, tile),
        (TILE_OFFSETS, 4, blocks, 8),
        (TILE_BYTES, 4, blocks, 8),
    ]
    start = 8 + len(content)
    data = b"II*\0" + struct.pack("<I", start) + content + struct.pack("<H", len(tags))
    data += b"".join(struct.pack("<HHII", *tag) for tag in tags) + struct.pack("<I", 0)
    with pytest.raises(BadTiff, match=r"times its size; the most is 2,000 times \(RMHDAG_RASTER_MAX_RATIO\)"):
        header_of(data)
    assert header_of(data, RasterLimits(raster_max_ratio=20_000)).directories[0].width == side
