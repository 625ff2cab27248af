"""`vector_etl` by real processes that are killed: the old table or the new one, and each row once."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
import shapely

from rmhdag.models.assets import Classification
from rmhdag.models.blobs import BlobAddress
from rmhdag.models.jobs import CommandOutcome
from rmhdag.models.records import Zone
from rmhdag.services.commands import decide
from rmhdag.storage import StorageSettings, open_storage
from rmhdag.workflow import load_file
from tests.faults.processes import Cluster
from tests.handlers.vector.files import write

WORKFLOW = Path(__file__).resolve().parents[2] / "src" / "rmhdag" / "workflows" / "vector_etl.yaml"
OLD, NEW = 300, 2_000
# Several processes start one after the other, each of which a busy machine may need half a minute for.
pytestmark = pytest.mark.timeout(400)


def variables_of(root: str, postgis_dsn: str) -> dict[str, str]:
    return {
        "RMHDAG_STORAGE": root,
        "RMHDAG_POSTGIS_URL": postgis_dsn,
        "DAG_WORKER_QUEUE": "light-tasks",
        "WORKER_QUEUE": "heavy-tasks",
    }


class Reader:
    """Looks at the public table all the time."""

    def __init__(self, dsn: str, table: str) -> None:
        self._dsn = dsn
        self._count = f"SELECT count(*) FROM {table}".encode()
        self._over = threading.Event()
        self.counts: set[int] = set()
        self._thread = threading.Thread(target=self._read)

    def _read(self) -> None:
        with psycopg.connect(self._dsn, autocommit=True) as conn:
            while not self._over.wait(0.005):
                row = conn.execute(self._count).fetchone()
                assert row is not None
                self.counts.add(row[0])

    def __enter__(self) -> Reader:
        self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._over.set()
        self._thread.join()


def test_killed_processes_lose_and_double_nothing(cluster: Cluster, tmp_path: Path, postgis_dsn: str) -> None:
    root = f"file://{tmp_path / 'blobs'}"
    storage = open_storage(StorageSettings(root=root), "default")
    for name, count in (("old.gpkg", OLD), ("new.gpkg", NEW)):
        boxes = [shapely.box(n % 300 / 2, 0, n % 300 / 2 + 0.4, 1 + n / 100) for n in range(count)]
        storage.upload(write(tmp_path / name, boxes, {"n": list(range(count))}), BlobAddress(Zone.BRONZE, "in", name))
    definition = load_file(WORKFLOW).definition
    variables = variables_of(root, postgis_dsn)
    inputs = {"container_name": "in", "table_name": "killed", "chunk_size": 100, "overwrite": True}
    orchestrator = cluster.orchestrator(**variables)
    worker = cluster.worker("--concurrency", "1", **variables)
    first = cluster.submit(definition, {**inputs, "blob_name": "old.gpkg"})
    assert cluster.wait_for_end(first) == ["completed"]
    with psycopg.connect(postgis_dsn, autocommit=True) as data:

        def ask(query: str) -> Any:
            row = data.execute(query.encode()).fetchone()
            return None if row is None else row[0]

        cluster.wait_for(lambda: ask("SELECT to_regclass('geo.killed') IS NOT NULL"), "the first table is shown")
        assert ask("SELECT count(*) FROM geo.killed") == OLD
        with Reader(postgis_dsn, "geo.killed") as reader:
            second = cluster.submit(definition, {**inputs, "blob_name": "new.gpkg"})
            chunks = "SELECT count(*) FROM geo_work.loaded_chunks WHERE stored_name LIKE 'killed_%' AND first_id > 300"
            cluster.wait_for(lambda: ask(chunks) >= 2, "some chunks are loaded")
            os.killpg(worker.pid, signal.SIGKILL)
            worker = cluster.worker("--concurrency", "1", **variables)
            cluster.wait_for(lambda: ask(chunks) >= 8, "the next worker continues")
            os.killpg(orchestrator.pid, signal.SIGKILL)
            cluster.orchestrator(**variables)
            assert cluster.wait_for_end(second) == ["completed"]
            cluster.wait_for(lambda: ask("SELECT count(*) FROM geo.killed") == NEW, "the new table is shown")
        assert reader.counts <= {OLD, NEW}
        assert (
            ask("SELECT count(DISTINCT n) FROM geo.killed") == ask("SELECT count(DISTINCT id) FROM geo.killed") == NEW
        )
        cluster.wait_for(
            lambda: ask("SELECT count(*) FROM pg_tables WHERE tablename LIKE 'killed%'") == 1,
            "the old table is dropped",
        )


# What a step waits for while somebody else holds this lock: both processes are killed right there.
STORED = "geo_work.{stored}"
STOPS = {
    "the name is looked up": "LOCK TABLE geo_work.places IN ACCESS EXCLUSIVE MODE",
    "the table is made": "LOCK TABLE geo_work.loaded_tables IN EXCLUSIVE MODE",
    "a chunk is loaded": "LOCK TABLE geo_work.loaded_chunks IN EXCLUSIVE MODE",
    "the table is indexed": f"LOCK TABLE {STORED} IN ROW EXCLUSIVE MODE",
    "the new table is shown": "LOCK TABLE geo.stopped IN ACCESS SHARE MODE",
}


def test_both_killed_in_the_middle_of_every_step(cluster: Cluster, tmp_path: Path, postgis_dsn: str) -> None:
    root = f"file://{tmp_path / 'blobs'}"
    storage = open_storage(StorageSettings(root=root), "default")
    definition = load_file(WORKFLOW).definition
    variables = variables_of(root, postgis_dsn)
    inputs = {"container_name": "in", "table_name": "stopped", "chunk_size": 100, "overwrite": True}

    def order(count: int) -> str:
        boxes = [shapely.box(n % 300 / 2, 0, n % 300 / 2 + 0.4, 1 + n / 100) for n in range(count)]
        file = write(tmp_path / f"{count}.gpkg", boxes, {"n": list(range(count))})
        storage.upload(file, BlobAddress(Zone.BRONZE, "in", file.name))
        return cluster.submit(definition, {**inputs, "blob_name": file.name})

    def start() -> list[subprocess.Popen[bytes]]:
        return [cluster.orchestrator(**variables), cluster.worker("--concurrency", "1", **variables)]

    with (
        psycopg.connect(postgis_dsn, autocommit=True) as data,
        psycopg.connect(postgis_dsn, autocommit=True) as holder,
    ):

        def ask(query: str, *values: Any) -> Any:
            row = data.execute(query.encode(), values).fetchone()
            return None if row is None else row[0]

        def is_shown_alone(count: int) -> bool:
            tables = "SELECT count(*) FROM pg_tables WHERE tablename LIKE 'stopped%%'"
            shown = ask("SELECT to_regclass('geo.stopped') IS NOT NULL") and ask("SELECT count(*) FROM geo.stopped")
            return bool(shown == count and ask(tables) == 1)

        processes = start()
        count = OLD
        assert cluster.wait_for_end(order(count)) == ["completed"]
        cluster.wait_for(partial(is_shown_alone, count), "the first table is shown")
        waiting = """SELECT count(*) FROM pg_locks WHERE NOT granted
            AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"""
        newest = """SELECT max(stored_name) FROM geo_work.loaded_tables
            WHERE NOT is_finished AND relation <> 0 AND stored_name LIKE 'stopped%%'"""
        for stop, lock in STOPS.items():
            before, count = count, count + 700
            with Reader(postgis_dsn, "geo.stopped") as reader:
                with holder.transaction():
                    if STORED in lock:
                        job_id = order(count)
                        cluster.wait_for(partial(ask, newest), "a new table")
                        holder.execute(lock.format(stored=ask(newest)).encode())
                    else:
                        holder.execute(lock.encode())
                        job_id = order(count)
                    cluster.wait_for(partial(ask, waiting), f"{stop}, and waits for the lock")
                    for process in processes:
                        cluster.kill(process)
                processes = start()
                assert cluster.wait_for_end(job_id) == ["completed"], stop
                cluster.wait_for(partial(is_shown_alone, count), f"the new table is shown after: {stop}")
            assert reader.counts <= {before, count}, stop
            numbers = ask("SELECT count(DISTINCT n) || ' ' || count(DISTINCT id) || ' ' || max(id) FROM geo.stopped")
            assert numbers == f"{count} {count} {count}", stop
            indexes = "SELECT count(*) FROM pg_index WHERE indrelid = 'geo.stopped'::regclass AND indisvalid"
            assert ask(indexes) == 2, stop
    cluster.check_rows()


def test_tables_wait_for_an_approval_if_the_order_says_so(cluster: Cluster, tmp_path: Path, postgis_dsn: str) -> None:
    root = f"file://{tmp_path / 'blobs'}"
    storage = open_storage(StorageSettings(root=root), "default")
    boxes = [shapely.box(n, 0, n + 0.5, 1) for n in range(OLD // 10)]
    file = write(tmp_path / "asked.gpkg", boxes, {"n": list(range(len(boxes)))})
    storage.upload(file, BlobAddress(Zone.BRONZE, "in", "asked.gpkg"))
    variables = variables_of(root, postgis_dsn)
    inputs = {"container_name": "in", "blob_name": "asked.gpkg", "require_approval": True}
    definition = load_file(WORKFLOW).definition
    cluster.orchestrator(**variables)
    cluster.worker("--concurrency", "1", **variables)
    shown = "SELECT to_regclass('geo.asked_1') IS NOT NULL, to_regclass('geo.asked_2') IS NOT NULL"
    with psycopg.connect(postgis_dsn, autocommit=True) as data:
        for number, approved in ((1, True), (2, False)):
            job_id = cluster.submit(definition, {**inputs, "table_name": f"asked_{number}"})
            waiting = "SELECT count(*) FROM dag_waiting_approvals WHERE job_id = %s AND node_id = 'approval'"
            cluster.wait_for(partial(cluster.one, waiting, job_id), "the job asks")
            assert data.execute(shown).fetchone() == (number == 2, False), "nothing is shown before the decision"
            clearance = Classification.PUBLIC if approved else None
            answer = decide(
                cluster.conn,
                job_id,
                "approval",
                approved=approved,
                issued_by="rita",
                reason="as asked",
                clearance=clearance,
                answer_seconds=60,
            )
            assert answer.outcome is CommandOutcome.APPLIED
            assert cluster.wait_for_end(job_id) == ["completed" if approved else "failed"]
            cluster.wait_for(lambda: data.execute(shown).fetchone() == (True, False), "the first one is shown")
