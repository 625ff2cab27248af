"""`./run` as people see it: a platform comes up, a raster goes through it, and what became of it is told."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pystac
import pytest
import rasterio
from rio_cogeo.cogeo import cog_validate

from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.reference import JSON_OBJECTS
from rmhdag.cli.supervisor import Supervisor
from rmhdag.cli.up import live
from tests.cli.conftest import RunCli, start_cli
from tests.cli.running import Up
from tests.cli.test_reference import compare
from tests.conftest import required_postgis


@pytest.fixture(scope="module")
def up() -> Iterator[Up]:
    """Started as `./run` does it, with the demo before everything else."""
    folder = Path(tempfile.mkdtemp(prefix="rmhdag-home-"))
    folder.chmod(0o755)
    started = Up(folder, "--demo", "--concurrency", "2", RMHDAG_API_PORT="0")
    try:
        yield started
    finally:
        started.end()
        shutil.rmtree(folder)


@pytest.fixture(scope="module")
def told(up: Up) -> dict[str, str]:
    """What the demo of `rmhdag up` writes, by its labels."""
    assert up.process.stdout is not None
    lines: dict[str, str] = {}
    while "asset" not in lines:
        line = up.process.stdout.readline()
        assert line, up.told()
        label, text = line.decode()[:11].strip(), line.decode()[11:].rstrip("\n")
        lines[label or f"more {len(lines)}"] = text
    return lines


def run_demo(up: Up, *arguments: str) -> Any:
    done = start_cli(up.home, "demo", "--json", *arguments, **up.environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_what_it_tells_is_there(up: Up, told: dict[str, str]) -> None:
    assert cog_validate(told["COG"], strict=True)[0]
    with rasterio.open(told["COG"]) as cog:
        assert cog.shape == (2048, 2048)
        assert f"overviews {', '.join(map(str, cog.overviews(1)))}" in "".join(told.values())
    item = pystac.Item.from_file(told["STAC item"])
    assert item.id == "dem-9"
    assert Path(told["thumbnail"]).read_bytes()[:4] == b"RIFF"
    assert "revision 1, content " in told["asset"]
    assert "cog: completed in" in up.told()
    assert "completed in" in up.told()


def test_the_same_again_is_the_next_revision_with_the_same_content(up: Up, told: dict[str, str]) -> None:
    first, second = (run_demo(up, "--kind", "multiband", "--size", "300") for _ in range(2))
    compare(first, JSON_OBJECTS["demo"])
    assert first["cog"] == second["cog"]
    assert first["asset"]["asset_id"] == second["asset"]["asset_id"]
    assert (first["asset"]["revision"], second["asset"]["revision"]) == (1, 2)
    assert first["asset"]["content_hash"] == second["asset"]["content_hash"] is not None
    # All of them are in one catalogue, with links that lead somewhere.
    catalogue = pystac.Catalog.from_file(f"{up.facts['storage']}/gold/catalogue/catalog.json")
    assert {item.id for item in catalogue.get_items(recursive=True)} == {"dem-9", "multiband-9"}


def test_a_table_that_waits_for_a_decision_is_not_called_loaded(up: Up, told: dict[str, str]) -> None:
    required_postgis()
    done = start_cli(up.home, "demo", "--size", "300", **up.environment)
    assert done.returncode == 0, done.stderr
    assert "geo.stations: 240 rows, MultiPoint" in done.stderr
    assert "waits for a decision before it is served; `rmhdag approvals` lists it" in done.stderr
    assert "loaded into these tables" not in done.stderr


def test_a_raster_that_is_refused_ends_the_command_with_the_sentence(up: Up, told: dict[str, str]) -> None:
    broken = Path(up.facts["storage"], "bronze", "samples", "broken.tif")
    broken.write_bytes(b"PK\x03\x04 not a raster")
    arguments = ["container_name=samples", "blob_name=broken.tif", "item_id=broken", "--wait"]
    done = start_cli(up.home, "submit", "raster_processing", *arguments, **up.environment)
    assert done.returncode == ExitCode.FAILED
    assert "broken.tif is not a GeoTIFF" in done.stderr


def test_it_needs_a_platform(call_cli: RunCli, database: str) -> None:
    call_cli("db", "migrate", "--yes", "--database-url", database)
    done = call_cli("demo", "--database-url", database)
    assert done.returncode == ExitCode.UNAVAILABLE
    assert "rmhdag up" in done.stderr


@pytest.mark.parametrize(("once", "code"), [(True, ExitCode.INTERRUPTED), (False, ExitCode.OK)])
def test_being_told_to_stop_before_the_end_is_no_success(once: bool, code: int) -> None:
    watcher = Supervisor(None, os.environ, lambda text: None)
    try:
        watcher.ask_to_stop()
        assert live(watcher, [["version"]], once=once) == code
    finally:
        watcher.close()
