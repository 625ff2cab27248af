"""A job that nobody refers to any more is gone at once: the garbage collector of an orchestrator comes rarely."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from tests.engine.definitions import fan
from tests.engine.driver import Job


@pytest.fixture(autouse=True)
def _no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("finished", [0, 1, 3])
def test_no_part_of_a_job_refers_to_the_whole(finished: int) -> None:
    job = Job(fan(), {"items": ["a", "b", "c"]}).begin()
    for index in range(finished):
        job.succeed(f"split__{index}", {"n": index})
    if finished == 3:
        job.aggregate_all()
        job.succeed("after")
    run = weakref.ref(job.run)
    del job
    assert run() is None
