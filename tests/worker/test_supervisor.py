"""The supervisor of a worker when a step of its own fails, and when a loop hangs."""

from __future__ import annotations

import pytest

from tests.worker.conftest import Desk, StartWorker
from tests.worker.test_containment import add_one_of_each, check_health, check_that_all_end

PARTS = [("crew.placement", "place"), ("crew.placement", "room"), ("watch", "go_round"), ("strays", "look")]


@pytest.mark.parametrize(("part", "method"), PARTS, ids=lambda value: str(value))
def test_a_step_of_the_supervisor_fails(desk: Desk, start_worker: StartWorker, part: str, method: str) -> None:
    worker = start_worker(fault={"part": part, "method": method, "first": 3, "times": 2})
    check_that_all_end(desk, add_one_of_each(desk))
    check_health(desk, worker, 2)


def test_a_result_that_can_never_be_reported_is_that_task_s_failure(desk: Desk, start_worker: StartWorker) -> None:
    """Three times the same error: it is taken for the data's fault, and the others are reported."""
    start_worker(fault={"method": "write_payload", "times": 1000})
    guilty = desk.add("test.output", {"kind": "large"})
    others = [desk.add("echo") for _ in range(5)]
    assert desk.result(guilty).error_kind == "output_refused"
    assert {desk.result(one).status for one in others} == {"completed"}
