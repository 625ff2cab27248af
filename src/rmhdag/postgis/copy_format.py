"""PostgreSQL's binary COPY format, encoded column by column from Arrow arrays.

A row is a chain of pieces: runs of columns with a fixed width, which numpy lays out as records, and values of any
length, which stay where Arrow has them. Arrow joins the pieces of all rows at once; no row becomes a Python object.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

HEADER = b"PGCOPY\n\xff\r\n\0" + struct.pack(">II", 0, 0)
TRAILER = struct.pack(">h", -1)
NULL = struct.pack(">i", -1)
# Rows are joined in one Arrow array, which holds less than 2 GB; this much keeps the memory low.
PIECE_BYTES = 16 * 1024 * 1024
# PostgreSQL counts from the year 2000.
EPOCH_DAYS = (datetime(2000, 1, 1, tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)).days
EPOCH_MICROSECONDS = EPOCH_DAYS * 86_400 * 10**6
JSONB_VERSION = b"\x01"
# A numeric has digits to the base of 10,000. A decimal of 38 digits, 9 of them behind the point, needs 11 of them, 3
# behind the point; PostgreSQL removes the zeros at both ends.
NUMERIC_DIGITS, NUMERIC_FRACTION, NUMERIC_SCALE = 11, 3, 9
NUMERIC_FILL = 10 ** (4 * NUMERIC_FRACTION - NUMERIC_SCALE)
NEGATIVE = 0x4000
LIMB_BITS = 32
VARIABLE = frozenset({"bytea", "jsonb", "text"})


class CopyColumn(NamedTuple):
    """A column of one batch; `type` is a name of PostgreSQL, and a geometry is `bytea` with its WKB."""

    type: str
    values: pa.Array


def encode_rows(first_id: int, columns: Sequence[CopyColumn]) -> Iterator[memoryview]:
    """Rows without the header and the trailer, each with a number before its columns: the key of the table."""
    count = len(columns[0].values)
    size_bytes = sum(column.values.nbytes for column in columns) + 8 * count
    pieces = min(count, max(1, -(-size_bytes // PIECE_BYTES)))
    step = -(-count // pieces) if count else 1
    for start in range(0, count, step):
        rows = [column._replace(values=column.values.slice(start, step)) for column in columns]
        yield from _encode(first_id + start, rows)


def _encode(first_id: int, columns: Sequence[CopyColumn]) -> Iterator[memoryview]:
    """One slice; it is cut in two if some rows are much longer than the others."""
    count = len(columns[0].values)
    if count > 1 and sum(column.values.nbytes for column in columns) > 2 * PIECE_BYTES:
        half = count // 2
        yield from _encode(first_id, [column._replace(values=column.values.slice(0, half)) for column in columns])
        yield from _encode(first_id + half, [column._replace(values=column.values.slice(half)) for column in columns])
        return
    row = _Row(count)
    row.add_plain(np.full(count, len(columns) + 1, dtype=">i2"))
    row.add_fixed(np.arange(first_id, first_id + count, dtype=">i8"), None)
    for column in columns:
        if column.type in VARIABLE:
            row.add_variable(column.values, JSONB_VERSION if column.type == "jsonb" else b"")
        else:
            row.add_fixed(_fixed_values(column), column.values if column.values.null_count else None)
    yield row.joined()


class _Row:
    """The pieces of all rows, from left to right."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._pieces: list[pa.Array] = []
        self._waiting: list[np.ndarray] = []

    def add_plain(self, values: np.ndarray) -> None:
        """Values of a fixed width without their length; they wait for their neighbours."""
        self._waiting.append(values)

    def add_fixed(self, values: np.ndarray, nulls: pa.Array | None) -> None:
        """Values of a fixed width with their length. `nulls` is the array that says which are null."""
        lengths = np.full(self._count, values.dtype.itemsize, dtype=">i4")
        if nulls is None:
            self._waiting += [lengths, values]
            return
        self._flush()
        self._waiting += [lengths, values]
        full = self._taken()
        self._pieces.append(pc.if_else(nulls.is_valid(), full, pa.scalar(NULL, pa.binary())))

    def add_variable(self, values: pa.Array, prefix: bytes) -> None:
        sizes = pc.add(pc.binary_length(values), pa.scalar(len(prefix), pa.int32())).cast(pa.int32())
        self._waiting.append(pc.fill_null(sizes, -1).to_numpy(zero_copy_only=False).astype(">i4"))
        self._flush()
        data = values.cast(pa.binary())
        if prefix:
            data = pc.binary_join_element_wise(pa.scalar(prefix, pa.binary()), data, pa.scalar(b"", pa.binary()))
        self._pieces.append(pc.fill_null(data, b""))

    def joined(self) -> memoryview:
        self._flush()
        rows = self._pieces[0]
        if len(self._pieces) > 1:
            rows = pc.binary_join_element_wise(*self._pieces, pa.scalar(b"", pa.binary()))
        first, last = rows.offset, rows.offset + len(rows)
        offsets = np.frombuffer(rows.buffers()[1], dtype=np.int32)
        return memoryview(rows.buffers()[2])[int(offsets[first]) : int(offsets[last])]

    def _flush(self) -> None:
        if self._waiting:
            self._pieces.append(self._taken())

    def _taken(self) -> pa.Array:
        """What waits, side by side, as one binary value per row."""
        fields = [(str(index), values.dtype, values.shape[1:]) for index, values in enumerate(self._waiting)]
        records = np.empty(self._count, dtype=np.dtype(fields))
        for index, values in enumerate(self._waiting):
            records[str(index)] = values
        self._waiting = []
        offsets = np.arange(self._count + 1, dtype=np.int32) * np.int32(records.dtype.itemsize)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(records.view(np.uint8))]
        return pa.Array.from_buffers(pa.binary(), self._count, buffers)


def _fixed_values(column: CopyColumn) -> np.ndarray:
    """As PostgreSQL sends them; anything in the place of a null."""
    type_, values = column
    if type_ == "numeric":
        return _numerics(values)
    if type_ == "boolean":
        flags: np.ndarray = pc.fill_null(values, False).to_numpy(zero_copy_only=False).astype(np.uint8)
        return flags
    if type_ == "double precision":
        return _numbers(values, pa.float64()).astype(">f8")
    if type_ == "integer":
        return _numbers(values, pa.int32()).astype(">i4")
    if type_ == "date":
        return (_numbers(values, pa.int32()).astype(np.int64) - EPOCH_DAYS).astype(">i4")
    if type_ == "timestamptz":
        return (_numbers(values, pa.int64()) - EPOCH_MICROSECONDS).astype(">i8")
    if type_ in ("bigint", "time"):
        return _numbers(values, pa.int64()).astype(">i8")
    raise ValueError(f"there is no binary form of {type_!r}")


def _numbers(values: pa.Array, type_: pa.DataType) -> np.ndarray:
    numbers: np.ndarray = pc.fill_null(values.cast(type_), 0).to_numpy(zero_copy_only=False)
    return numbers


def _numerics(values: pa.Array) -> np.ndarray:
    """Decimals with 9 digits behind the point, by long division of all of them at once."""
    count = len(values)
    words = np.frombuffer(values.buffers()[1], dtype="<u8", count=2 * (values.offset + count))[2 * values.offset :]
    low, high = words[0::2].copy(), words[1::2].copy()
    is_negative = high >> np.uint64(63) == 1
    # The amount of a negative number of two's complement.
    high = np.where(is_negative, ~high + (low == 0), high)
    low = np.where(is_negative, ~low + np.uint64(1), low)
    mask = np.uint64(2**LIMB_BITS - 1)
    shift = np.uint64(LIMB_BITS)
    limbs = [low & mask, low >> shift, high & mask, high >> shift, np.zeros(count, dtype=np.uint64)]
    carry = np.zeros(count, dtype=np.uint64)
    for index, limb in enumerate(limbs):
        product = limb * np.uint64(NUMERIC_FILL) + carry
        limbs[index], carry = product & mask, product >> shift
    digits = np.empty((count, NUMERIC_DIGITS), dtype=">i2")
    for place in reversed(range(NUMERIC_DIGITS)):
        rest = np.zeros(count, dtype=np.uint64)
        for index in reversed(range(len(limbs))):
            dividend = (rest << shift) | limbs[index]
            limbs[index], rest = dividend // np.uint64(10_000), dividend % np.uint64(10_000)
        digits[:, place] = rest
    dtype = np.dtype([("ndigits", ">i2"), ("weight", ">i2"), ("sign", ">u2"), ("dscale", ">i2"), ("d", ">i2", 11)])
    numerics = np.zeros(count, dtype=dtype)
    numerics["ndigits"], numerics["weight"] = NUMERIC_DIGITS, NUMERIC_DIGITS - NUMERIC_FRACTION - 1
    numerics["sign"] = np.where(is_negative, NEGATIVE, 0)
    numerics["dscale"], numerics["d"] = NUMERIC_SCALE, digits
    return numerics
