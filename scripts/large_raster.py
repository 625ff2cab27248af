"""One large raster through the shipped workflow, measured from outside: memory of every worker process, and time."""

from __future__ import annotations

import argparse
import sys
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import rasterio
from rasterio.windows import Window
from rio_cogeo.cogeo import cog_validate

import rmhdag
from rmhdag.lab.bench.rig import Rig, open_server
from rmhdag.models.blobs import BlobAddress, BlobRef
from rmhdag.models.records import Zone
from rmhdag.storage import StorageSettings, open_storage
from rmhdag.workflow import load, validate_inputs

MOST_MEMORY_MB = 700
SOURCE = BlobAddress(Zone.BRONZE, "incoming", "large.tif")
STRIPE = 1_024


def write_terrain(path: Path, size: int) -> None:
    """Hills, noise and a coast of nodata, stripe by stripe: 80 MB of memory whatever the size."""
    profile = {
        "driver": "GTiff",
        "width": size,
        "height": size,
        "count": 1,
        "dtype": "float32",
        "crs": "EPSG:32633",
        "transform": rasterio.Affine(10, 0, 400_000, 0, -10, 5_500_000),
        "nodata": -9_999.0,
        "tiled": True,
        "blockxsize": 512,
        "blockysize": 512,
        "bigtiff": "if_safer",
    }
    across = np.arange(size, dtype="float32")
    with rasterio.open(path, "w", **profile) as target:
        for top in range(0, size, STRIPE):
            rows = np.arange(top, min(top + STRIPE, size), dtype="float32")
            noise = np.random.default_rng(top).standard_normal((len(rows), size), dtype="float32")
            hills = 800 * np.sin(rows / 900)[:, None] * np.cos(across / 1_300)[None, :] + noise
            hills[hills < -500] = -9_999
            target.write(hills, 1, window=Window(0, top, size, len(rows)))


class MemoryWatch:
    """The most that each of a process's children had, looked at while they live."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self.peaks_mb: dict[int, float] = {}

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _look(self) -> None:
        while True:
            for pid in (self._pid, *children_of(self._pid)):
                try:
                    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
                    peak = int(status.split("VmHWM:")[1].split()[0]) / 1024
                except (OSError, IndexError):
                    continue
                self.peaks_mb[pid] = max(peak, self.peaks_mb.get(pid, 0))
            if self._ended.wait(0.2):
                return


def children_of(pid: int) -> list[int]:
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        return [int(child) for task in tasks for child in (task / "children").read_text().split()]
    except OSError:
        return []


def same_pixels(cog: str, source: str, size: int) -> bool:
    with rasterio.open(cog) as after, rasterio.open(source) as before:
        stripes = (Window(0, top, size, min(STRIPE, size - top)) for top in range(0, size, STRIPE))
        return all(np.array_equal(after.read(1, window=one), before.read(1, window=one)) for one in stripes)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=20_000)
    parser.add_argument("--concurrency", type=int, default=2)
    arguments = parser.parse_args()
    file = Path(rmhdag.__file__).parent / "workflows" / "raster_processing.yaml"
    definition = load(file.read_text(encoding="utf-8"), file=file.name).definition
    with open_server(None) as server:
        folder = server.folder / "storage"
        storage = open_storage(StorageSettings(str(folder)), "default")
        began = time.perf_counter()
        write_terrain(server.folder / "large.tif", arguments.size)
        storage.upload(server.folder / "large.tif", SOURCE)
        (server.folder / "large.tif").unlink()
        size_mb = storage.info(SOURCE).size_bytes / 1024**2
        print(f"source: {arguments.size}² float32, {size_mb:,.0f} MB, made in {time.perf_counter() - began:.0f} s")
        worker = {
            "queues": ["light-tasks", "heavy-tasks"],
            "storage": str(folder),
            "scratch_root": str(server.folder / "scratch"),
            "handler_modules": ["rmhdag.handlers.raster", "rmhdag.handlers.stac"],
        }
        with Rig(server, concurrency=arguments.concurrency, worker=worker) as rig:
            stored = rig.register(definition)
            params = {
                "container_name": SOURCE.container,
                "blob_name": SOURCE.path,
                "item_id": "large",
                "datetime": "2024-05-01T00:00:00Z",
                "tiled_above_pixels": 0,
            }
            assert rig.worker is not None
            with MemoryWatch(rig.worker.pid) as watch:
                began = time.perf_counter()
                (job_id,) = rig.submit(stored, 1, validate_inputs(definition, params))
                rig.wait_for([job_id], timeout_seconds=3_600)
                seconds = time.perf_counter() - began
            row = rig.conn.execute("SELECT result_data FROM dag_jobs WHERE job_id = %s", [job_id]).fetchone()
            nodes = rig.conn.execute(
                """
                SELECT coalesce(parent_node_id, node_id), count(*),
                       extract(epoch FROM max(completed_at) - min(coalesce(started_at, dispatched_at)))
                FROM dag_node_states WHERE job_id = %s AND task_id IS NOT NULL
                GROUP BY 1 ORDER BY min(coalesce(started_at, dispatched_at))
                """,
                [job_id],
            ).fetchall()
        assert row is not None
        cog = BlobRef.model_validate(row[0]["cog"])
        path = storage.gdal_path(cog.address)
        valid = bool(cog_validate(path, strict=True, quiet=True)[0])
        equal = same_pixels(path, storage.gdal_path(SOURCE), arguments.size)
    for node, count, took in nodes:
        print(f"  {node:<12} {count:>4} task{'s' if count > 1 else ' '} {took or 0:7.1f} s")
    peak = max(watch.peaks_mb.values())
    print(f"COG: {cog.size_bytes / 1024**2:,.0f} MB, valid: {valid}, same pixels: {equal}, tiled: {row[0]['tiled']}")
    print(f"time: {seconds:.0f} s; peak memory of worker processes: " + list_of(watch.peaks_mb))
    return 0 if valid and equal and row[0]["tiled"] and peak <= MOST_MEMORY_MB else 1


def list_of(peaks_mb: dict[int, float]) -> str:
    told = ", ".join(f"{peak:.0f}" for peak in sorted(peaks_mb.values(), reverse=True))
    return f"{told} MB (at most {MOST_MEMORY_MB})"


if __name__ == "__main__":
    sys.exit(main())
