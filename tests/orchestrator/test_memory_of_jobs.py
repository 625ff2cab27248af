"""What an orchestrator has of a job is gone with its end, without the garbage collector, which comes rarely."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from tests.engine.definitions import fan
from tests.orchestrator.platform import Platform


@pytest.fixture
def _no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("_no_collector")
def test_a_job_that_has_ended_is_not_kept_in_memory(platform: Platform) -> None:
    seat = platform.seat()
    job_id = platform.submit(fan(), {"items": ["a" * 100_000, "b", "c"]})
    seat.work()
    job = seat.advance.owned.get(job_id)
    assert job is not None
    run = weakref.ref(job.run)
    del job
    platform.finish(seat)
    assert platform.job(job_id)["status"] == "completed"
    seat.advance.owned.clear()
    assert run() is None
