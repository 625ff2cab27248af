"""A GeoPackage of polygons becomes an indexed PostGIS table in three ways, interleaved in one run.

`rmhdag` is the workflow `vector_etl` by real processes: an orchestrator, and a worker with two children. `COPY` is the
least that any program must do: rows that are already in PostgreSQL's own binary format, copied, indexed and analysed.
`geopandas` reads the file by Arrow and writes it by `to_postgis`. All of them use one server, make the same indexes
with the same memory, and collect statistics. `COPY` neither reads the file nor cleans, counts or catalogues anything,
and it uses one connection; `rmhdag` may use two, and its time ends when the table has its public name.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import geopandas
import numpy as np
import psycopg
import shapely
import sqlalchemy

from rmhdag.embedded import EmbeddedPostgres, debian_binaries
from rmhdag.handlers.vector.ogr import pyogrio
from rmhdag.models.blobs import BlobAddress
from rmhdag.models.records import Zone
from rmhdag.postgis.loading import MAINTENANCE_MB
from rmhdag.services.submissions import submit
from rmhdag.storage import StorageSettings, open_storage
from rmhdag.store import workflows
from rmhdag.store.connection import connect
from rmhdag.store.migration import apply
from rmhdag.workflow import definition_hash, definition_json, load_file

WORKFLOW = Path(__file__).resolve().parents[1] / "src" / "rmhdag" / "workflows" / "vector_etl.yaml"
LEAST_OF_GEOPANDAS, LEAST_OF_COPY, MOST_MEGABYTES = 4.0, 0.6, 500
FINISH = (
    f"SET maintenance_work_mem = '{MAINTENANCE_MB}MB'",
    "ALTER TABLE {0} ADD PRIMARY KEY (id)",
    "CREATE INDEX ON {0} USING gist (geom)",
    "ANALYZE {0}",
)


def write_polygons(path: Path, count: int) -> None:
    """Houses of ten corners, with seven columns."""
    random = np.random.default_rng(7)
    angles = np.linspace(0, 2 * np.pi, 11)[:-1]
    x, y = random.uniform(-179, 179, count), random.uniform(-80, 80, count)
    radius = random.uniform(0.0001, 0.001, count)
    corners = np.stack(
        [x[:, None] + radius[:, None] * np.cos(angles), y[:, None] + radius[:, None] * np.sin(angles)], axis=-1
    )
    numbers = np.arange(count)
    columns: dict[str, Any] = {
        "house": numbers,
        "street": np.array([f"street {number % 5000}" for number in numbers], dtype=object),
        "kind": np.array([("house", "shed", "school")[number % 3] for number in numbers], dtype=object),
        "height": random.normal(9, 3, count),
        "storeys": random.integers(1, 9, count).astype("int32"),
        "listed": random.integers(0, 2, count).astype(bool),
        "seen": np.datetime64("2020-01-01T00:00:00", "ms") + random.integers(0, 10**9, count).astype("timedelta64[ms]"),
    }
    pyogrio.raw.write(
        path,
        shapely.to_wkb(shapely.polygons(corners)),
        list(columns.values()),
        list(columns),
        geometry_type="Polygon",
        crs="EPSG:4326",
    )


class Platform:
    """An orchestrator and a worker with two children, on a database of their own."""

    def __init__(self, server: EmbeddedPostgres, data_dsn: str, folder: Path) -> None:
        self._dsn = server.create_database("platform")
        apply(self._dsn, "dagapp")
        root = f"file://{folder / 'blobs'}"
        self._data_dsn = data_dsn
        self.storage = open_storage(StorageSettings(root=root), "default")
        variables = {
            **{name: value for name, value in os.environ.items() if not name.startswith("RMHDAG_")},
            "RMHDAG_DATABASE_URL": self._dsn,
            "RMHDAG_POSTGIS_URL": data_dsn,
            "RMHDAG_STORAGE": root,
            "RMHDAG_HOME": str(folder / "home"),
            "JOB_QUEUE_NAME": "jobs",
            "DAG_WORKER_QUEUE": "light-tasks",
            "WORKER_QUEUE": "heavy-tasks",
        }
        commands = (["orchestrator"], ["worker", "--concurrency", "2", "--warm"])
        self._processes = []
        for command in commands:
            with (folder / f"{command[0]}.log").open("wb") as log:
                whole = [sys.executable, "-m", "rmhdag.cli", *command]
                self._processes.append(subprocess.Popen(whole, env=variables, stdout=log, stderr=log))
        self.peak_megabytes = 0
        self.steps = ""
        self._conn = connect(self._dsn, "bench", autocommit=True)
        self._conn.execute("SET search_path TO dagapp")
        definition = load_file(WORKFLOW).definition
        self._wait(lambda: self._ask("SELECT count(*) FROM dag_handlers WHERE handler = 'vector.prepare'"))
        stored = workflows.StoredWorkflow(
            definition.workflow_id, definition.version, definition_hash(definition), definition_json(definition)
        )
        workflows.register_workflow(self._conn, "default", stored, "bench", {}, development=True)

    def load(self, blob: str, table: str) -> None:
        inputs = {"container_name": "in", "blob_name": blob, "table_name": table, "overwrite": True}
        job_id = submit(self._conn, "vector_etl", inputs, submitted_by="bench")
        ended = "SELECT status::text FROM dag_jobs WHERE job_id = %s AND completed_at IS NOT NULL"
        self._wait(lambda: self._ask(ended, job_id))
        assert self._ask(ended, job_id) == "completed", self._ask(
            "SELECT error_message FROM dag_jobs WHERE job_id = %s", job_id
        )
        shown = (
            "SELECT count(*) FROM dag_table_places WHERE table_name = %s AND status = 'shown' AND table_id IS NOT NULL"
        )
        self._wait(lambda: self._ask(shown, table))
        # When the steps were done, in seconds after the order: where to look for time.
        query = """SELECT string_agg(
                format('%%s %%s s', node_id, round(extract(epoch FROM n.completed_at - j.created_at), 1)),
                ', ' ORDER BY n.completed_at
            ) FROM dag_node_states AS n JOIN dag_jobs AS j USING (job_id)
            WHERE job_id = %s AND n.parent_node_id IS NULL AND n.status = 'completed'"""
        self.steps = self._ask(query, job_id)

    def close(self) -> None:
        for process in reversed(self._processes):
            process.terminate()
            process.wait(60)
        self._conn.close()

    def _wait(self, condition: Callable[[], Any]) -> None:
        while not condition():
            self._measure()
            time.sleep(0.05)

    def _measure(self) -> None:
        """The most memory that a child of the worker has had."""
        for status in Path("/proc").glob("[0-9]*/status"):
            with suppress(OSError, StopIteration):
                lines = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
                if int(lines["PPid"]) == self._processes[1].pid:
                    self.peak_megabytes = max(self.peak_megabytes, int(lines["VmHWM"].split()[0]) // 1024)

    def _ask(self, query: str, *values: Any) -> Any:
        row = self._conn.execute(query.encode(), values).fetchone()
        return None if row is None else row[0]


def copy_bare(dsn: str, file: Path, columns: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("DROP TABLE IF EXISTS bare")
        conn.execute(f"CREATE TABLE bare ({columns})".encode())
        with file.open("rb") as source, conn.cursor().copy("COPY bare FROM STDIN (FORMAT BINARY)") as copy:
            while piece := source.read(1 << 20):
                copy.write(piece)
        for statement in FINISH:
            conn.execute(statement.format("bare").encode())


def by_geopandas(dsn: str, path: Path) -> None:
    engine = sqlalchemy.create_engine(dsn.replace("postgresql://", "postgresql+psycopg://"))
    frame = geopandas.read_file(path, use_arrow=True).rename_geometry("geom")
    frame.index.name = "id"
    frame.to_postgis("frame", engine, if_exists="replace", index=True)
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("DROP INDEX IF EXISTS ix_frame_id")
        conn.execute("DROP INDEX IF EXISTS idx_frame_geom")
        for statement in FINISH:
            conn.execute(statement.format("frame").encode())
    engine.dispose()


def timed(action: Callable[[], None]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--features", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=1)
    words = parser.parse_args()
    binaries = debian_binaries(15)
    if binaries is None or not binaries.has_postgis:
        print("bench-vector: install postgresql-15-postgis-3 first", file=sys.stderr)
        return 1
    with (
        tempfile.TemporaryDirectory(prefix="rmhdag-bench-") as name,
        EmbeddedPostgres.temporary(binaries=binaries) as server,
    ):
        folder = Path(name)
        path = folder / "houses.gpkg"
        write_polygons(path, words.features)
        dsn = server.create_database("data")
        with psycopg.connect(dsn, autocommit=True) as conn:
            conn.execute("CREATE EXTENSION postgis")
        platform = Platform(server, dsn, folder)
        try:
            platform.storage.upload(path, BlobAddress(Zone.BRONZE, "in", "houses.gpkg"))
            # The first load makes the rows for COPY, and warms everybody up.
            platform.load("houses.gpkg", "houses")
            columns, rows = export_rows(dsn, folder / "rows.copy")
            seconds: dict[str, list[float]] = {"COPY": [], "rmhdag": [], "geopandas": []}
            for number in range(words.rounds):
                seconds["COPY"].append(timed(lambda: copy_bare(dsn, folder / "rows.copy", columns)))
                seconds["rmhdag"].append(timed(lambda number=number: platform.load("houses.gpkg", f"houses_{number}")))
                seconds["geopandas"].append(timed(lambda: by_geopandas(dsn, path)))
        finally:
            platform.close()
    print(f"steps of the last load were done after: {platform.steps}")
    return report(seconds, rows, platform.peak_megabytes)


def export_rows(dsn: str, file: Path) -> tuple[str, int]:
    """The rows of the loaded table in PostgreSQL's format, and the columns of such a table."""
    with psycopg.connect(dsn, autocommit=True) as conn:
        with file.open("wb") as target, conn.cursor().copy("COPY geo.houses TO STDOUT (FORMAT BINARY)") as copy:
            for piece in copy:
                target.write(piece)
        query = """SELECT
            string_agg(quote_ident(attname) || ' ' || format_type(atttypid, atttypmod), ', ' ORDER BY attnum),
            (SELECT count(*) FROM geo.houses) FROM pg_attribute
            WHERE attrelid = 'geo.houses'::regclass AND attnum > 0 AND NOT attisdropped"""
        row = conn.execute(query).fetchone()
    assert row is not None
    return row[0], row[1]


def report(seconds: dict[str, list[float]], rows: int, megabytes: int) -> int:
    best = {way: min(times) for way, times in seconds.items()}
    print(f"{rows:,} polygons to an indexed table, best of {len(seconds['COPY'])} (median)")
    for way, times in seconds.items():
        speed = rows / best[way] / 1000
        print(f"  {way:<10} {best[way]:8.1f} s ({statistics.median(times):.1f} s)  {speed:8.1f} k rows/s")
    faster, share = best["geopandas"] / best["rmhdag"], best["COPY"] / best["rmhdag"]
    print(f"  rmhdag is {faster:.1f} times as fast as geopandas (at least {LEAST_OF_GEOPANDAS:g} wanted)")
    print(f"  and reaches {share:.2f} of bare COPY (at least {LEAST_OF_COPY:g} wanted)")
    print(f"  most memory of a worker's process: {megabytes} MB (at most {MOST_MEGABYTES} wanted)")
    is_good = faster >= LEAST_OF_GEOPANDAS and share >= LEAST_OF_COPY and megabytes <= MOST_MEGABYTES
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
