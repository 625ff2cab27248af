"""What is told about a processed raster, in words and as a picture."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest
from PIL import Image

from rmhdag.cli.raster_results import RasterResults, show_results, wait_for_catalogue
from rmhdag.cli.tables import show_bytes
from rmhdag.models.blobs import BlobAddress
from rmhdag.models.records import Zone
from rmhdag.storage import Storage, StorageSettings, open_storage

ITEM = {
    "id": "dem-1",
    "collection": "samples",
    "bbox": [8.123456, 46.4, 8.9, 47.0],
    "properties": {"datetime": "2024-06-15T10:30:00Z"},
    "assets": {"data": {}, "thumbnail": {}},
}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return open_storage(StorageSettings(str(tmp_path / "files")), "default")


@pytest.fixture
def results(storage: Storage) -> RasterResults:
    drawn = io.BytesIO()
    Image.new("RGBA", (4, 4), (200, 30, 30, 255)).save(drawn, "PNG")
    return RasterResults(
        cog=storage.write(BlobAddress(Zone.SILVER, "cogs", "dem-1/dem-1-0123.tif"), b"x" * 1234),
        item=ITEM,
        thumbnail=storage.write(BlobAddress(Zone.SILVER, "cogs", "dem-1/dem-1-0123.png"), drawn.getvalue()),
        facts={"width": 2048, "height": 2048, "crs": "EPSG:32632", "overviews": [2, 4]},
        asset={"asset_id": "a" * 32, "revision": 3, "content_hash": "b" * 64},
    )


def test_it_says_where_everything_is(
    results: RasterResults, storage: Storage, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    show_results(results, storage)
    assert "STAC item  samples/dem-1\n" in capsys.readouterr().out
    listed = storage.write(BlobAddress(Zone.GOLD, "catalogue", "samples/items/dem-1.json"), b"{}")
    wait_for_catalogue(results, storage)
    show_results(results, storage)
    told = capsys.readouterr().out
    files = tmp_path / "files" / "silver" / "cogs" / "dem-1"
    assert told.splitlines() == [
        f"COG        {files}/dem-1-0123.tif",
        "           1.2 kB · 2048 × 2048 pixels · EPSG:32632 · overviews 2, 4",
        f"STAC item  {tmp_path}/files/{listed.address}",
        "           8.123 46.4 8.9 47 · 2024-06-15T10:30:00Z · assets data, thumbnail",
        f"thumbnail  {files}/dem-1-0123.png",
        f"asset      {'a' * 32}, revision 3, content {'b' * 16}",
    ]
    assert all(Path(line.split()[-1]).is_file() for line in told.splitlines() if "/files/" in line)


def test_a_terminal_gets_the_picture_too(
    results: RasterResults, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLORTERM", "truecolor")
    show_results(results, storage)
    assert "\x1b[38;2;200;30;30m\x1b[48;2;200;30;30m▀▀▀▀" in terminal.getvalue()


def test_what_is_not_there_is_not_told(storage: Storage, capsys: pytest.CaptureFixture[str]) -> None:
    cog = storage.write(BlobAddress(Zone.SILVER, "cogs", "a.tif"), b"x")
    bare = RasterResults(cog=cog, item={"id": "a", "collection": "b"}, thumbnail=None)
    show_results(bare, storage)
    told = capsys.readouterr().out
    assert "thumbnail" not in told
    assert "asset " not in told
    assert bare.as_facts()["asset"] is None


def test_sizes_read_well() -> None:
    sizes = [0, 999, 1_000, 8_839_645, 99_949_999, 999_499_999, 1_600_000_000, 5 * 10**15]
    assert [show_bytes(size) for size in sizes] == [
        *("0 B", "999 B", "1.0 kB", "8.8 MB", "99.9 MB", "999 MB", "1.6 GB", "5.0 PB")
    ]
