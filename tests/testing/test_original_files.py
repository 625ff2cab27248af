"""Files of the original system's form on the virtual clock: what takes chance or a lost worker to see for real."""

from typing import Any

import pytest

from rmhdag.testing import run_workflow
from rmhdag.workflow.yaml_reader import read_yaml
from tests.workflow.corpus import FOLDER


def original(name: str) -> dict[str, Any]:
    """With a queue: the virtual platform has no setting for tasks that name none."""
    written: dict[str, Any] = read_yaml((FOLDER / "valid" / f"original_{name}.yaml").read_bytes(), name).data
    return {"defaults": {"queue": "dag-worker-tasks"}, **written}


@pytest.mark.parametrize(("rate", "status", "begun"), [(0, "completed", [0]), (1, "failed", [0, 2, 4])])
def test_every_wait_of_a_fixed_backoff_is_the_same(rate: float, status: str, begun: list[float]) -> None:
    job = run_workflow(original("retry"), {"failure_rate": rate})
    assert job.status == status
    assert [run.started_at for run in job.attempts] == begun


def test_echo_saves_a_checkpoint_after_each_step_but_the_last() -> None:
    job = run_workflow(original("checkpoints"), {"message": "Hi", "steps": 4, "step_delay": 0}).assert_completed()
    (run,) = job.attempts
    assert [saved.phase for saved in run.checkpoints] == ["step_1", "step_2", "step_3"]


def test_children_that_fail_by_chance_are_tried_again() -> None:
    flow = original("no_queue")
    flow["nodes"]["split"]["task"]["params"]["failure_rate"] = 1
    job = run_workflow(flow, {"item_list": ["a", "b"]})
    attempts = {node: len(job.attempts_of(node)) for node in ("split__0", "split__1")}
    assert job.status == "failed"
    assert len(set(attempts.values())) == 1
    assert attempts["split__0"] > 1
