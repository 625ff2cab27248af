"""The real services on Debian's PostgreSQL 15 with PostGIS and pgSTAC, started once by `rmhdag serve`."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
import rasterio
import shapely

from rmhdag.cli.service_databases import service_databases
from rmhdag.cli.settings import Settings
from rmhdag.embedded import EmbeddedPostgres
from rmhdag.models.blobs import BlobAddress
from rmhdag.models.records import Zone
from rmhdag.sampledata.files import write_sample
from rmhdag.sampledata.kinds import SAMPLES, Kind
from rmhdag.sampledata.vector_files import moved
from rmhdag.sampledata.vector_kinds import DEGREES, UTM, Layer
from rmhdag.sampledata.vector_scenes import batches_of
from rmhdag.serving.environment import find_python
from rmhdag.serving.service_kinds import Service
from rmhdag.storage import Storage, StorageSettings, open_storage
from rmhdag.store.migration import apply
from tests.cli import conftest as cli
from tests.conftest import require, required_binaries
from tests.orchestrator.test_pgstac import EXTENSIONS, pgstac_script

# The command, for tests of this folder.
home, call_cli = cli.home, cli.call_cli

FEATURES = 400
SIZE = 600
SCHEMA = """
    CREATE SCHEMA geo;
    CREATE TABLE geo.places (
        id serial PRIMARY KEY, geom geometry(Point, 4326), name text, script text, population bigint,
        elevation_m double precision, founded date, observed_at timestamptz, note text
    );
    CREATE TABLE geo.places_r1 (id serial PRIMARY KEY, geom geometry(Point, 4326));
    CREATE TABLE geo.table_catalog (table_name text PRIMARY KEY, title text);
    INSERT INTO geo.table_catalog VALUES ('places', 'Places');
    CREATE FUNCTION geo.secret_places(n integer DEFAULT 1) RETURNS TABLE (id integer, geom geometry) LANGUAGE sql
        AS 'SELECT 1, ST_SetSRID(ST_Point(1, 2), 4326)';
    CREATE TABLE public.outside (id serial PRIMARY KEY, geom geometry(Point, 4326));
    CREATE SCHEMA other;
    CREATE TABLE other.hidden (id serial PRIMARY KEY, geom geometry(Point, 4326));"""
VRT = (
    '<VRTDataset rasterXSize="20" rasterYSize="20"><VRTRasterBand dataType="Byte" band="1"><SimpleSource>'
    "<SourceFilename>{}</SourceFilename></SimpleSource></VRTRasterBand></VRTDataset>"
)
COLUMNS = ("name", "script", "population", "elevation_m", "founded", "observed_at", "note")


@dataclass
class Running:
    """`rmhdag serve` and what it serves from."""

    url: str
    process: subprocess.Popen[str]
    server: EmbeddedPostgres
    dsns: dict[Service, str]
    storage: Storage
    folder: Path
    places: list[dict[str, Any]] = field(default_factory=list)
    # Nobody may ever connect to it.
    trap: socket.socket = field(default_factory=socket.socket)

    def get(self, path: str, **more: Any) -> httpx.Response:
        return httpx.get(f"{self.url}{path}", timeout=40, trust_env=False, **more)

    def child_of(self, service: Service) -> int:
        """The process of a service: a child of ours that runs its program."""
        task = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        for child in task.read_text().split():
            if f"{service}:app" in Path(f"/proc/{child}/cmdline").read_bytes().decode():
                return int(child)
        raise AssertionError(f"no process of {service}")


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    require(find_python(), "the services are not installed: scripts/setup dev installs them")
    folder = tmp_path_factory.mktemp("serving")
    with EmbeddedPostgres.temporary(binaries=required_binaries("debian15")) as server:
        places = fill_database(server)
        settings = StorageSettings(str(folder / "files"), {}, {}, {})
        storage = open_storage(settings, "default")
        trap = socket.create_server(("127.0.0.1", 0))
        fill_catalogue(server, storage, folder, trap.getsockname()[1])
        dsns, reasons = service_databases(server, Settings())
        assert not reasons
        with serving(folder, server, dsns) as process:
            assert process.stderr is not None
            url = find_url(process)
            yield Running(url, process, server, dsns, storage, folder, places, trap)
        trap.close()


def fill_database(server: EmbeddedPostgres) -> list[dict[str, Any]]:
    apply(server.owner_dsn())
    rows = []
    with psycopg.connect(server.owner_dsn(), autocommit=True) as conn:
        known = conn.execute("SELECT count(*) FROM pg_available_extensions WHERE name = 'postgis'").fetchone()
        require(known == (1,), "Debian's postgresql-15-postgis-3 is not installed")
        for name in EXTENSIONS:
            conn.execute(f"CREATE EXTENSION {name}".encode())
        conn.execute(pgstac_script().read_bytes())
        conn.execute("RESET ROLE")
        conn.execute("RESET search_path")
        conn.execute(SCHEMA.encode())
        for columns, shapes in batches_of(Layer.PLACES, FEATURES, 9):
            for row, shape in zip(columns.to_pylist(), moved(shapes, UTM, DEGREES), strict=True):
                values = [row[name] for name in COLUMNS]
                insert = f"INSERT INTO geo.places (geom, {', '.join(COLUMNS)}) VALUES (ST_GeomFromText(%s, 4326)"
                text = shapely.to_wkt(shape, rounding_precision=7)
                conn.execute(f"{insert}{', %s' * len(COLUMNS)})".encode(), [text, *values])
                rows.append({**row, "x": shape.x, "y": shape.y})
        conn.execute("INSERT INTO public.outside (geom) VALUES (ST_SetSRID(ST_Point(1, 2), 4326))")
        conn.execute("INSERT INTO other.hidden (geom) VALUES (ST_SetSRID(ST_Point(1, 2), 4326))")
        conn.execute("ANALYZE geo.places")
    return rows


def fill_catalogue(server: EmbeddedPostgres, storage: Storage, folder: Path, trap_port: int) -> None:
    """A raster as it should be, and items that nobody should be able to use."""
    write_sample(folder / "dem.tif", SAMPLES[Kind.DEM][0], SIZE, 9)
    good = store(storage, folder / "dem.tif", "cogs/dem.tif")
    secret = folder / "secret.txt"
    secret.write_text("the secret of this machine")
    vrt, remote = folder / "vrt.tif", folder / "remote.tif"
    vrt.write_text(VRT.format(folder / "dem.tif"))
    remote.write_text(VRT.format(f"/vsicurl/http://127.0.0.1:{trap_port}/a.tif"))
    pointing = folder / "pointing.tif"
    pointing.write_bytes((folder / "dem.tif").read_bytes())
    with rasterio.open(pointing, "r+") as raster:
        raster.update_tags(ns="OVERVIEWS", OVERVIEW_FILE=str(folder / "dem.tif"))
    items = {
        "dem": good,
        "vrt": store(storage, vrt, "cogs/vrt.tif"),
        "pointing": store(storage, pointing, "cogs/pointing.tif"),
        "text": store(storage, secret, "cogs/text.tif"),
        "outside": secret.as_uri(),
        "remote": store(storage, remote, "cogs/remote.tif"),
        "network": f"http://127.0.0.1:{trap_port}/a.tif",
        "gone": good.replace("dem.tif", "gone.tif"),
    }
    with psycopg.connect(server.owner_dsn(), autocommit=True) as conn:
        conn.execute("SET search_path = pgstac, public")
        conn.execute("SELECT create_collection(%s::jsonb)", [json.dumps(collection())])
        conn.execute("SELECT upsert_items(%s::jsonb)", [json.dumps([item(*pair) for pair in items.items()])])


def store(storage: Storage, path: Path, name: str) -> str:
    address = BlobAddress(Zone.SILVER, *name.split("/", 1))
    storage.upload(path, address)
    return storage.url(address)


def collection() -> dict[str, Any]:
    extent = {"spatial": {"bbox": [[7, 46, 9, 47]]}, "temporal": {"interval": [["2020-01-01T00:00:00Z", None]]}}
    body = {"id": "rasters", "type": "Collection", "stac_version": "1.0.0", "license": "CC0-1.0", "links": []}
    return {**body, "description": "Rasters", "extent": extent}


def item(item_id: str, href: str) -> dict[str, Any]:
    box = (7.68, 46.79, 7.91, 46.95)
    return {
        "id": item_id,
        "type": "Feature",
        "stac_version": "1.0.0",
        "collection": "rasters",
        "geometry": shapely.geometry.mapping(shapely.box(*box)),
        "bbox": list(box),
        "properties": {"datetime": "2024-06-15T10:30:00Z"},
        "links": [],
        "assets": {"data": {"href": href, "type": "image/tiff; application=geotiff; profile=cloud-optimized"}},
    }


@contextmanager
def serving(
    folder: Path, server: EmbeddedPostgres, dsns: dict[Service, str], **more: str
) -> Iterator[subprocess.Popen[str]]:
    """The command, until the block ends."""
    variables = {
        "RMHDAG_HOME": str(folder / "home"),
        "RMHDAG_STORAGE": str(folder / "files"),
        "RMHDAG_DATABASE_URL": server.app_dsn(),
        "RMHDAG_STAC_DATABASE_URL": dsns.get(Service.STAC, ""),
        "RMHDAG_FEATURES_DATABASE_URL": dsns.get(Service.FEATURES, ""),
        "RMHDAG_CATALOGUE": "pgstac",
        "RMHDAG_SERVE_PORT": "0",
        "RMHDAG_SERVE_REQUEST_SECONDS": "20",
        **more,
    }
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("RMHDAG_")}
    command = [sys.executable, "-m", "rmhdag.cli", "serve"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=inherited | variables)
    try:
        yield process
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.communicate()


def find_url(process: subprocess.Popen[str]) -> str:
    """Waits until everything is ready. What the processes write afterwards is read, so that they never wait for it."""
    lines = []
    assert process.stderr is not None
    for line in process.stderr:
        lines.append(line)
        if " listen on " in line:
            threading.Thread(target=lambda pipe: list(pipe), args=(process.stderr,), daemon=True).start()
            return line.split(" listen on ")[1].split(": /")[0].strip()
    raise AssertionError("".join(lines))
