"""A layer of features that can be read in batches, whatever file it comes from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from rmhdag.handlers.vector.refusals import Findings
from rmhdag.handlers.vector_limits import MEGABYTE, VectorLimits

# Several batches are in memory at once, one for each step: this keeps a task far below 500 MB.
MOST_BATCH_ROWS = 8_192
LEAST_BATCH_ROWS = 64


NO_ROWS = np.zeros(0, dtype=np.int64)


class Batch(NamedTuple):
    """Some features: their attributes, and their geometries as WKB. `reported`: rows without a geometry that a finding
    of their own counts.
    """

    attributes: pa.RecordBatch
    geometries: pa.Array
    reported: np.ndarray = NO_ROWS


@dataclass(frozen=True)
class Layer:
    """`crs` is a code or WKT; None if the file names none. `count` is what the file says, if it says so."""

    name: str
    schema: pa.Schema
    crs: str | None
    batches: Callable[[], Iterator[Batch]]
    count: int | None = None
    # A file whose format says by itself which system it has, or one that is refused without.
    is_crs_required: bool = False
    findings: Findings = field(default_factory=Findings)


def batch_rows(size_bytes: int, count: int | None, limits: VectorLimits) -> int:
    """So many features that a batch takes about as much memory as the setting allows."""
    if not count or count < 0:
        return 8_192
    bytes_per_row = max(1, size_bytes // count)
    return max(LEAST_BATCH_ROWS, min(MOST_BATCH_ROWS, limits.vector_batch_mb * MEGABYTE // bytes_per_row))
