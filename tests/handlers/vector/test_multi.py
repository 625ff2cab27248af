"""Bytes that are kept are those that GEOS would write; threads end with the task that started them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing

import numpy as np
import pyarrow as pa
import pytest
import shapely

from rmhdag.handlers.vector.multi import multi_wkb, oriented
from rmhdag.handlers.vector.pipelines import WriteBehind, read_ahead

RING = ((7.0, 50.0), (7.001, 50.0), (7.001, 50.001), (7.0, 50.001), (7.0, 50.0))
HOLE = ((7.0002, 50.0002), (7.0004, 50.0002), (7.0004, 50.0004), (7.0002, 50.0002))
SLIVER = ((0.0, 0.0), (100.0, 1e-13), (50.0, 0.0), (0.0, 0.0))


def shapes() -> np.ndarray:
    random = np.random.default_rng(3)
    angles = np.linspace(0, 2 * np.pi, 8)[:-1]
    polygons = []
    for _ in range(300):
        turned = angles if random.random() < 0.5 else angles[::-1]
        radius = 10 ** random.uniform(-7, 1)
        x, y = random.uniform(-179, 179), random.uniform(-80, 80)
        polygons.append(shapely.Polygon(np.column_stack([x + radius * np.cos(turned), y + radius * np.sin(turned)])))
    others = [
        shapely.Polygon(RING, [HOLE]),
        shapely.Polygon(RING[::-1], [HOLE[::-1]]),
        shapely.Polygon(SLIVER),
        shapely.Polygon(SLIVER[::-1]),
        shapely.MultiPolygon([shapely.Polygon(RING[::-1])]),
        shapely.Point(1, 2),
        shapely.MultiPoint([(1, 2), (3, 4)]),
        shapely.LineString([(0, 0), (1, 1)]),
    ]
    return np.array([*polygons, *others], dtype=object)


@pytest.mark.parametrize("form", ["little-endian", "big-endian", "with-srid", "mixed"])
def test_the_bytes_are_those_that_geos_would_write(form: str) -> None:
    originals = shapes()
    forms = {
        "little-endian": shapely.to_wkb(originals, byte_order=1),
        "big-endian": shapely.to_wkb(originals, byte_order=0),
        "with-srid": shapely.to_wkb(shapely.set_srid(originals, 4326), byte_order=1, include_srid=True),
    }
    forms["mixed"] = np.where(np.arange(len(originals)) % 2 == 0, forms["little-endian"], forms["big-endian"])
    source = pa.array(forms[form], type=pa.binary())
    originals = shapely.from_wkb(forms[form])
    wkb = multi_wkb(oriented(originals), source, originals)
    geometries = shapely.from_wkb(wkb.to_numpy(zero_copy_only=False))
    expected = shapely.orient_polygons(originals, exterior_cw=False)
    parts, rows = shapely.get_parts(expected, return_index=True)
    same_parts, same_rows = shapely.get_parts(geometries, return_index=True)
    assert rows.tolist() == same_rows.tolist()
    assert shapely.equals_identical(parts, same_parts).all()
    assert set(shapely.get_type_id(geometries)) == {4, 5, 6}
    assert {value[:1] for value in wkb.to_pylist()} == {b"\x01"}
    assert (shapely.get_srid(geometries) == 0).all()


def test_an_empty_batch_stays_empty() -> None:
    nothing = np.array([], dtype=object)
    assert len(multi_wkb(oriented(nothing), pa.array([], type=pa.binary()), nothing)) == 0


def test_an_error_comes_where_its_item_would_have_come() -> None:
    def items() -> Iterator[int]:
        yield 1
        yield 2
        raise LookupError("the third")

    with closing(read_ahead(items())) as batches:
        assert [next(batches), next(batches)] == [1, 2]
        with pytest.raises(LookupError, match="the third"):
            next(batches)


def test_a_reader_that_stops_early_ends_the_thread_and_closes_the_file() -> None:
    closed = threading.Event()

    def items() -> Iterator[int]:
        try:
            number = 0
            while True:
                yield number
                number += 1
        finally:
            closed.set()

    with closing(read_ahead(items())) as batches:
        assert [next(batches), next(batches)] == [0, 1]
    assert closed.is_set()
    assert not [thread for thread in threading.enumerate() if thread.name == "read-ahead"]


def test_an_error_of_a_writer_is_raised_by_the_next_call_and_at_the_end() -> None:
    def fail() -> None:
        raise OSError("the disk is full")

    def write(times: int, error: Exception | None = None) -> None:
        with WriteBehind() as writer:
            for _ in range(times):
                writer.do(fail)
            if error is not None:
                raise error

    for times in (1, 2):
        with pytest.raises(OSError, match="disk is full"):
            write(times)
    with pytest.raises(KeyError, match="of the caller"):
        write(1, KeyError("of the caller"))
