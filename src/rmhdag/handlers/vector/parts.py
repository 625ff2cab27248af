"""Writes cleaned features as GeoParquet files of bounded size, one sequence of files per kind of geometry."""

from __future__ import annotations

from datetime import date
from functools import partial
from hashlib import file_digest
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rmhdag.handlers.raster.outputs import HASH_LENGTH
from rmhdag.handlers.vector.geometries import GEOMETRY_TYPES, Group
from rmhdag.handlers.vector.geoparquet import GEO, GEOMETRY, MEDIA_TYPE, geo_metadata
from rmhdag.handlers.vector.manifest import Span
from rmhdag.handlers.vector.pipelines import WriteBehind
from rmhdag.models.blobs import BlobAddress, BlobRef
from rmhdag.models.records import Zone
from rmhdag.storage import Storage

PART_BYTES = 64 * 1024 * 1024


class PartFiles:
    """The files of one kind of geometry of one layer. `keeper` moves finished files to storage while the next one is
    written; `files` and `row_count` are complete when it has been waited for.
    """

    def __init__(
        self,
        storage: Storage,
        scratch: Path,
        container: str,
        prefix: str,
        group: Group,
        schema: pa.Schema,
        rows: int,
        keeper: WriteBehind | None = None,
    ) -> None:
        self._keeper = keeper
        self._storage = storage
        self._scratch = scratch
        self._container = container
        self._prefix = prefix
        self._schema = pa.schema(
            [pa.field(GEOMETRY, pa.binary()), *schema], metadata={GEO: geo_metadata(GEOMETRY_TYPES[group], None)}
        )
        self._rows = rows
        self._writer: pq.ParquetWriter | None = None
        self._path = scratch / "unwritten"
        self._part_rows = self._part_bytes = self._part_number = 0
        self.group = group
        self.row_count = 0
        self.files: list[tuple[BlobRef, int]] = []
        self.bounds = np.array([np.inf, np.inf, -np.inf, -np.inf])
        self._firsts: dict[str, date] = {}
        self._lasts: dict[str, date] = {}

    def write(self, geometry: pa.Array, columns: list[pa.Array], bounds: np.ndarray) -> None:
        self.bounds[:2] = np.minimum(self.bounds[:2], bounds[:, :2].min(axis=0))
        self.bounds[2:] = np.maximum(self.bounds[2:], bounds[:, 2:].max(axis=0))
        for column, field in zip(columns, list(self._schema)[1:], strict=True):
            if pa.types.is_date(field.type) or pa.types.is_timestamp(field.type):
                self._widen(field.name, column)
        batch = pa.RecordBatch.from_arrays([geometry, *columns], schema=self._schema)
        start = 0
        while start < batch.num_rows:
            piece = batch.slice(start, self._rows - self._part_rows)
            start += piece.num_rows
            self._writer_now().write_batch(piece)
            self._part_rows += piece.num_rows
            self._part_bytes += piece.get_total_buffer_size() if piece.num_rows == batch.num_rows else piece.nbytes
            if self._part_rows >= self._rows or self._part_bytes >= PART_BYTES:
                self._finish_part()

    def close(self) -> None:
        if self._writer is not None:
            self._finish_part()

    @property
    def bbox(self) -> list[float] | None:
        return [float(value) for value in self.bounds] if self.row_count else None

    @property
    def spans(self) -> dict[str, Span]:
        return {
            name: Span(first=first.isoformat(), last=self._lasts[name].isoformat())
            for name, first in self._firsts.items()
        }

    def _widen(self, name: str, column: pa.Array) -> None:
        first, last = pc.min_max(column).as_py().values()
        if first is not None:
            self._firsts[name] = min(first, self._firsts.get(name, first))
            self._lasts[name] = max(last, self._lasts.get(name, last))

    def _writer_now(self) -> pq.ParquetWriter:
        if self._writer is None:
            self._path = self._scratch / f"{self._prefix.replace('/', '-')}-{self.group}-{self._part_number:05}.parquet"
            # The least and the largest WKB of a page tell nobody anything.
            names = [name for name in self._schema.names if name != GEOMETRY]
            self._writer = pq.ParquetWriter(
                self._path, self._schema, compression="snappy", use_dictionary=False, write_statistics=names or False
            )
        return self._writer

    def _finish_part(self) -> None:
        assert self._writer is not None
        self._writer.close()
        self._writer = None
        name = f"{self._prefix}/{self.group}-{self._part_number:05}"
        keep = partial(self._keep, self._path, name, self._part_rows)
        if self._keeper is None:
            keep()
        else:
            self._keeper.do(keep)
        self._part_number += 1
        self._part_rows = self._part_bytes = 0

    def _keep(self, path: Path, name: str, rows: int) -> None:
        self.files.append((keep_part(self._storage, path, self._container, name), rows))
        self.row_count += rows


def keep_part(storage: Storage, local: Path, container: str, name: str) -> BlobRef:
    """Named by its content: a repeated task finds the file, and a revision never overwrites another's."""
    with local.open("rb") as file:
        digest = file_digest(file, "sha256").hexdigest()
    address = BlobAddress(Zone.SILVER, container, f"{name}-{digest[:HASH_LENGTH]}{local.suffix}")
    return storage.move(local, address, media_type=MEDIA_TYPE, sha256=digest)
