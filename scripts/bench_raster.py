"""The raster pipeline against a plain script that makes the same calls, in turns, on the same files.

The plain side calls the handlers' own functions one after the other in this process, with nothing between them: what
the platform adds is all that is left of the difference. Both sides have imported everything before the clock starts.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

# GDAL reads it when it starts; workers inherit it.
os.environ["GDAL_NUM_THREADS"] = "1"

import numpy as np
import rasterio

import rmhdag
from rmhdag.handlers import HandlerContext, HandlerSpec, StopReason, load_handlers
from rmhdag.handlers.running import run_async, run_plain
from rmhdag.lab.bench.rig import Rig, Server, open_server
from rmhdag.models.blobs import BlobAddress
from rmhdag.models.records import Zone
from rmhdag.storage import Storage, StorageSettings, open_storage
from rmhdag.workflow import load, validate_inputs
from rmhdag.workflow.definition import WorkflowDefinition

MODULES = ["rmhdag.handlers.raster", "rmhdag.handlers.stac"]
QUEUES = ["light-tasks", "heavy-tasks"]
CONTAINER = "incoming"
DATETIME = "2024-05-01T00:00:00Z"
MOST_OVERHEAD_PERCENT = 10.0
LEAST_SPEEDUP = 1.5


class Nobody:
    """A link to a platform that is not there."""

    def log(self, text: str) -> None:
        pass

    def progress(self, current: float, total: float | None, message: str | None) -> None:
        pass

    def checkpoint(self, phase: str, data: Any) -> None:
        pass

    def stop_reason(self) -> StopReason | None:
        return None


async def at_once() -> None:
    """Nothing has to be saved."""


class PlainScript:
    """Handlers as functions: parameters in, output out."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._registry = load_handlers(MODULES)

    def process(self, blob_name: str, item_id: str) -> None:
        """What the direct branch of raster_processing does."""
        source = self.call("raster.validate", container_name=CONTAINER, blob_name=blob_name)["source"]
        cog = self.call("raster.create_cog", source=source, item_id=item_id)["cog"]
        self.call("raster.stac_ensure_collection", collection_id="rasters")
        told = self.call(
            "raster.extract_stac_metadata", cog=cog, collection_id="rasters", item_id=item_id, datetime=DATETIME
        )
        self.call("raster.stac_register_item", item=told["item"], thumbnail=told["thumbnail"])

    def ingest(self, container: str, names: list[str], collection_id: str) -> None:
        """What raster_ingest does, file by file."""
        made = [
            self.call(
                "raster.process_complete",
                container_name=container,
                blob_name=name,
                item_id=Path(name).stem,
                collection_id=collection_id,
            )
            for name in names
        ]
        self.call("raster.stac_register_items", collection={"collection_id": collection_id}, results=made)

    def call(self, name: str, **params: Any) -> Any:
        spec = self._registry.find(name)
        assert spec is not None, name
        with tempfile.TemporaryDirectory() as scratch:
            ctx = HandlerContext(Nobody(), params, scratch=Path(scratch), open_storage=lambda: self._storage)
            outcome = run(spec, ctx)
        if outcome.output is None:
            sys.exit(f"{name}: {outcome.error_message}")
        return json.loads(outcome.output)


def run(spec: HandlerSpec, ctx: HandlerContext[Any]) -> Any:
    return asyncio.run(run_async(spec, ctx, at_once)) if spec.is_async else run_plain(spec, ctx)


def shipped(name: str) -> WorkflowDefinition:
    file = Path(rmhdag.__file__).parent / "workflows" / f"{name}.yaml"
    return load(file.read_text(encoding="utf-8"), file=file.name).definition


def write_raster(path: Path, size: int, seed: int) -> Path:
    """Hills and noise in float32, with a corner of nodata; another seed is another file."""
    chance = np.random.default_rng(seed)
    axis = np.arange(size, dtype="float32")
    hills = 800 * np.sin(axis / 90 + seed)[:, None] * np.cos(axis / 130)[None, :]
    hills += chance.standard_normal((size, size), dtype="float32")
    hills[: size // 8, : size // 8] = -9_999
    profile = {
        "driver": "GTiff",
        "width": size,
        "height": size,
        "count": 1,
        "dtype": "float32",
        "crs": "EPSG:32633",
        "transform": rasterio.Affine(10, 0, 400_000 + seed * 10 * size, 0, -10, 5_500_000),
        "nodata": -9_999.0,
        "tiled": size >= 512,
        **({"blockxsize": 512, "blockysize": 512} if size >= 512 else {}),
    }
    with rasterio.open(path, "w", **profile) as target:
        target.write(hills, 1)
    return path


def take_turns(number: int, turns: Sequence[tuple[list[float], Callable[[], None]]]) -> None:
    """Who comes first changes with the number, so that neither has the warmer machine."""
    for times, act in turns if number % 2 else reversed(turns):
        began = time.perf_counter()
        act()
        times.append(time.perf_counter() - began)


class Bench:
    """Two storages that hold the same files, a platform on one of them and a plain script on the other."""

    def __init__(self, server: Server, rig: Rig, ours: Storage, theirs: Storage) -> None:
        self._folder = server.folder
        self._rig = rig
        self._storages = (ours, theirs)
        self._plain = PlainScript(theirs)

    def _run(self, definition: WorkflowDefinition, count: int, params: dict[str, Any]) -> None:
        stored = self._rig.register(definition)
        job_ids = self._rig.submit(stored, count, validate_inputs(definition, params))
        self._rig.wait_for(job_ids, timeout_seconds=1_200)

    def add_file(self, name: str, size: int, seed: int, container: str = CONTAINER) -> None:
        path = write_raster(self._folder / "made.tif", size, seed)
        for storage in self._storages:
            storage.upload(path, BlobAddress(Zone.BRONZE, container, name))
        path.unlink()

    def warm_up(self) -> None:
        """Both children of the worker and this process have opened and written a raster."""
        self.add_file("warm.tif", 512, 0)
        self._run(shipped("raster_processing"), 6, self._params("warm.tif", "warm"))
        self._plain.process("warm.tif", "warm")

    def one(self, rounds: int, size: int) -> dict[str, Any]:
        plain: list[float] = []
        pipeline: list[float] = []
        workflow = shipped("raster_processing")
        for number in range(1, rounds + 1):
            name = f"one-{number}.tif"
            self.add_file(name, size, number)
            item_id = f"one-{number}"
            turns = [
                (plain, partial(self._plain.process, name, item_id)),
                (pipeline, partial(self._run, workflow, 1, self._params(name, item_id))),
            ]
            take_turns(number, turns)
        overhead = 100 * (statistics.median(pipeline) / statistics.median(plain) - 1)
        return {
            "size": size,
            "rounds": rounds,
            "plain_seconds": round(statistics.median(plain), 3),
            "pipeline_seconds": round(statistics.median(pipeline), 3),
            "overhead_percent": round(overhead, 1),
            "most_percent": MOST_OVERHEAD_PERCENT,
            "good": overhead <= MOST_OVERHEAD_PERCENT,
        }

    def many(self, rounds: int, files: int) -> dict[str, Any]:
        plain: list[float] = []
        pipeline: list[float] = []
        workflow = shipped("raster_ingest")
        for number in range(1, rounds + 1):
            container = f"many-{number}"
            names = [f"file-{index:04d}.tif" for index in range(files)]
            for index, name in enumerate(names):
                self.add_file(name, 256, 1_000 * number + index, container)
            params = {"container_name": container, "collection_id": container}
            turns = [
                (plain, partial(self._plain.ingest, container, names, container)),
                (pipeline, partial(self._run, workflow, 1, params)),
            ]
            take_turns(number, turns)
        pairs = [one / other for one, other in zip(plain, pipeline, strict=True)]
        speedup = statistics.median(pairs)
        return {
            "files": files,
            "rounds": rounds,
            "plain_seconds": round(statistics.median(plain), 3),
            "pipeline_seconds": round(statistics.median(pipeline), 3),
            "speedups": [round(one, 2) for one in pairs],
            "speedup": round(speedup, 2),
            "least_speedup": LEAST_SPEEDUP,
            "good": speedup >= LEAST_SPEEDUP,
        }

    @staticmethod
    def _params(blob_name: str, item_id: str) -> dict[str, Any]:
        return {"container_name": CONTAINER, "blob_name": blob_name, "item_id": item_id, "datetime": DATETIME}


@contextmanager
def opened(children: int) -> Iterator[Bench]:
    with open_server(None) as server:
        ours, theirs = (str(server.folder / name) for name in ("ours", "theirs"))
        worker = {
            "queues": QUEUES,
            "storage": ours,
            "scratch_root": str(server.folder / "scratch"),
            "handler_modules": MODULES,
        }
        with Rig(server, concurrency=children, worker=worker) as rig:
            storages = [open_storage(StorageSettings(place), "default") for place in (ours, theirs)]
            bench = Bench(server, rig, *storages)
            bench.warm_up()
            yield bench


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--size", type=int, default=4_096)
    parser.add_argument("--files", type=int, default=200)
    parser.add_argument("--only", choices=["one", "many"])
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    found: dict[str, Any] = {"processors": len(os.sched_getaffinity(0))}
    with opened(children=2) as bench:
        if arguments.only != "many":
            found["one"] = bench.one(arguments.rounds, arguments.size)
        if arguments.only != "one":
            found["many"] = bench.many(arguments.rounds, arguments.files)
    if arguments.json:
        print(json.dumps(found, indent=2))
    else:
        show(found)
    return 0 if all(part["good"] for part in found.values() if isinstance(part, dict)) else 1


def show(found: dict[str, Any]) -> None:
    if one := found.get("one"):
        print(
            f"one raster of {one['size']}², median of {one['rounds']}: plain script {one['plain_seconds']:.2f} s, "
            f"pipeline {one['pipeline_seconds']:.2f} s: {one['overhead_percent']:+.1f} % "
            f"(at most {one['most_percent']:.0f} %)"
        )
    if many := found.get("many"):
        print(
            f"{many['files']} small files, two children, median of {many['rounds']}: "
            f"plain script {many['plain_seconds']:.2f} s, pipeline {many['pipeline_seconds']:.2f} s: "
            f"{many['speedup']:.2f} × faster (at least {many['least_speedup']:.1f} ×; "
            f"{', '.join(format(one, '.2f') for one in many['speedups'])})"
        )


if __name__ == "__main__":
    sys.exit(main())
