"""Rasters that tests make, and handlers run on them without a platform."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import rasterio
from numpy.typing import NDArray
from rasterio.transform import Affine, from_origin

from rmhdag.handlers import Checkpoint, HandlerContext, HandlerResult, StopReason, load_handlers
from rmhdag.handlers.params import read_params
from rmhdag.models.blobs import BlobAddress, BlobRef
from rmhdag.models.records import Zone
from rmhdag.storage import Storage, StorageSettings, open_storage

UTM = "EPSG:32633"
WGS84 = "EPSG:4326"
TEN_METRES = from_origin(500_000, 5_000_000, 10, 10)


class Ear:
    """A link that keeps what it hears, and may tell to stop at some word."""

    def __init__(self, stop_at: str | None = None) -> None:
        self.progress_said: list[tuple[float, float | None, str | None]] = []
        self.checkpoints: list[tuple[str, Any]] = []
        self.text = ""
        self._stop_at = stop_at

    def log(self, text: str) -> None:
        self.text += text

    def progress(self, current: float, total: float | None, message: str | None) -> None:
        self.progress_said.append((current, total, message))

    def checkpoint(self, phase: str, data: Any) -> None:
        self.checkpoints.append((phase, data))

    def stop_reason(self) -> StopReason | None:
        said = any(self._stop_at in (message or "") for *_, message in self.progress_said) if self._stop_at else False
        return StopReason.CANCELLED if said else None


class Bench:
    """Storage and scratch folders below one folder of the test's."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.storage: Storage = open_storage(StorageSettings(root=str(folder / "storage")))
        self._runs = 0

    def put(self, local: Path, path: str | None = None) -> BlobRef:
        return self.storage.upload(local, BlobAddress(Zone.BRONZE, "in", path or local.name))

    def context(self, params: Any, ear: Ear | None = None, resume: Checkpoint | None = None) -> HandlerContext[Any]:
        self._runs += 1
        return HandlerContext(
            ear or Ear(),
            params,
            scratch=self.folder / f"scratch-{self._runs}",
            open_storage=lambda: self.storage,
            resume=resume,
        )

    def run(self, handler: str, ear: Ear | None = None, **params: Any) -> HandlerResult:
        """The result of a plain handler."""
        spec = load_handlers([]).find(handler)
        assert spec is not None
        assert spec.params is not None
        assert not inspect.isasyncgenfunction(spec.function)
        returned = spec.function(self.context(read_params(spec.params, params), ear))
        return returned if isinstance(returned, HandlerResult) else HandlerResult(output=returned)

    def output(self, handler: str, **params: Any) -> Any:
        return self.run(handler, **params).output

    def path(self, blob: Any) -> Path:
        """Where the file of a reference lies."""
        ref = BlobRef.model_validate(blob)
        return self.folder / "storage" / ref.zone / ref.container / ref.path

    def files(self, zone: Zone) -> list[str]:
        """Everything that lies there, whatever storage would show of it."""
        root = self.folder / "storage" / zone
        return sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())


def write_raster(
    path: Path,
    pixels: NDArray[Any],
    *,
    crs: str | None = UTM,
    transform: Affine = TEN_METRES,
    nodata: float | None = None,
    **options: Any,
) -> Path:
    stack = pixels if pixels.ndim == 3 else pixels[np.newaxis]
    count, height, width = stack.shape
    with rasterio.open(
        path,
        "w",
        driver="GTiff",
        width=width,
        height=height,
        count=count,
        dtype=stack.dtype,
        crs=crs,
        transform=transform,
        nodata=nodata,
        **options,
    ) as target:
        target.write(stack)
    return path


def hills(height: int = 600, width: int = 700, *, dtype: str = "float32", bands: int = 1) -> NDArray[Any]:
    """Smooth, without symmetry, and never 0: a shift by one pixel shows."""
    rows, columns = np.mgrid[0:height, 0:width]
    layers = [
        100 + 40 * np.sin(rows / (31 + band)) + 30 * np.cos(columns / 47) + (rows * 0.02 + columns * 0.03)
        for band in range(bands)
    ]
    return np.stack(layers).astype(dtype)


def read(path: Path, **options: Any) -> NDArray[Any]:
    with rasterio.open(path, **options) as dataset:
        return np.asarray(dataset.read())
