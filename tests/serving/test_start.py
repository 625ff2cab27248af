"""`rmhdag serve` itself: what it serves without PostGIS and pgSTAC, and how it ends."""

from __future__ import annotations

import gc
import signal
from pathlib import Path

import httpx
import psycopg

from rmhdag.catalogue.static import StaticCatalogue
from rmhdag.cli.exit_codes import ExitCode
from rmhdag.embedded import EmbeddedPostgres
from rmhdag.sampledata.files import write_sample
from rmhdag.sampledata.kinds import SAMPLES, Kind
from rmhdag.serving.announcement import announced, running_url
from rmhdag.serving.environment import find_python
from rmhdag.serving.published import MOST_STORAGES, PublishedFiles, namespace_of
from rmhdag.serving.service_kinds import Service
from rmhdag.storage import Storage, StorageSettings, open_storage
from tests.cli.conftest import RunCli
from tests.conftest import require, required_binaries
from tests.serving.conftest import find_url, item, serving, store


def test_rasters_are_served_without_postgis_from_the_static_catalogue(tmp_path: Path) -> None:
    require(find_python(), "the services are not installed: scripts/setup dev installs them")
    write_sample(tmp_path / "dem.tif", SAMPLES[Kind.DEM][0], 256, 9)
    for namespace in ("default", "alpha"):
        storage = open_storage(StorageSettings(str(tmp_path / "files"), {}, {}, {}), namespace)
        document = item("dem", store(storage, tmp_path / "dem.tif", "cogs/dem.tif"))
        StaticCatalogue(storage).put_item("rasters", document)
    with (
        EmbeddedPostgres.temporary(binaries=required_binaries("wheel18")) as server,
        serving(tmp_path, server, {}, RMHDAG_CATALOGUE="static") as process,
    ):
        url = find_url(process)
        assert running_url(tmp_path / "home") == url
        for collection in ("rasters", "namespace-alpha:rasters"):
            about = httpx.get(f"{url}/tiles/collections/{collection}/items/dem/assets/data/info", trust_env=False)
            assert about.json()["width"] == 256
        unknown = httpx.get(
            f"{url}/tiles/collections/namespace-beta:rasters/items/dem/assets/data/info", trust_env=False
        )
        assert unknown.status_code == 404
        ready = httpx.get(f"{url}/readyz", trust_env=False).json()
        assert ready["services"] == {"tiles": "up"}
        assert set(ready["not_served"]) == {"stac", "features"}
        refusal = httpx.get(f"{url}/stac/search", trust_env=False)
        assert refusal.status_code == 404
        assert "RMHDAG_STAC_DATABASE_URL is not set" in refusal.json()["detail"]
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
    assert running_url(tmp_path / "home") is None


def test_a_role_that_could_write_is_refused_before_anything_starts(call_cli: RunCli, tmp_path: Path) -> None:
    require(find_python(), "the services are not installed: scripts/setup dev installs them")
    with EmbeddedPostgres.temporary(binaries=required_binaries("debian15")) as server:
        with psycopg.connect(server.owner_dsn(), autocommit=True) as conn:
            known = conn.execute("SELECT count(*) FROM pg_available_extensions WHERE name = 'postgis'").fetchone()
            require(known == (1,), "Debian's postgresql-15-postgis-3 is not installed")
            conn.execute("CREATE EXTENSION postgis")
            conn.execute("CREATE SCHEMA geo")
        dsn = server.owner_dsn()
        done = call_cli("serve", RMHDAG_DATABASE_URL=dsn, RMHDAG_FEATURES_DATABASE_URL=dsn, RMHDAG_SERVE_PORT="0")
        assert done.returncode == ExitCode.CONFLICT, done.stderr
        assert "is not fit for /features" in done.stderr
        made = call_cli("db", "roles", "--services", RMHDAG_DATABASE_URL=dsn)
        assert made.returncode == 0, made.stderr
        assert made.stdout.startswith("rmhdag_features (new): ")
        assert "rmhdag_stac is left out: the database has no pgSTAC" in made.stderr
        printed = call_cli("db", "roles", "--services", "--print", "--prefix", "other")
        assert "GRANT SELECT ON ALL TABLES IN SCHEMA geo TO other_features;" in printed.stdout
        examined = call_cli("doctor", RMHDAG_DATABASE_URL=dsn, RMHDAG_FEATURES_DATABASE_URL=dsn)
        assert "is not fit for /features" in examined.stdout + examined.stderr


def test_an_announcement_of_a_killed_process_counts_for_nothing(tmp_path: Path) -> None:
    with announced(tmp_path, "http://127.0.0.1:1"):
        assert running_url(tmp_path) == "http://127.0.0.1:1"
        (tmp_path / "services.json").write_text('{"url": "http://127.0.0.1:1", "process_id": 4194305}')
        assert running_url(tmp_path) is None
    assert not (tmp_path / "services.json").exists()


def test_names_that_callers_invent_are_not_kept(tmp_path: Path) -> None:
    files = PublishedFiles(StorageSettings(str(tmp_path), {}, {}, {}))
    for number in range(3 * MOST_STORAGES):
        assert files.find(f"namespace-n{number}:rasters", "item", "data") is None
    gc.collect()
    assert sum(isinstance(each, Storage) for each in gc.get_objects()) <= MOST_STORAGES + 10


def test_collections_say_whose_they_are() -> None:
    assert namespace_of("rasters") == "default"
    assert namespace_of("a:b") == "default"
    assert namespace_of("namespace-alpha:rasters") == "alpha"
    assert namespace_of("namespace-x-0123456789abcdef0123:rasters") is None
    assert [name.value for name in Service] == ["stac", "features", "tiles"]
