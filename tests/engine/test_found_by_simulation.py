"""Mistakes that the simulator found, each as the few steps that show it."""

from __future__ import annotations

from rmhdag.engine.inputs import Output, ReusedNode, Start
from rmhdag.engine.rerun import plan_rerun
from rmhdag.models.states import NodeStatus
from rmhdag.workflow.definition import DependsOn, FanInNode, FanOutNode
from tests.engine.definitions import spec, task, workflow
from tests.engine.driver import Job


def test_a_rerun_decides_anew_what_was_skipped_only_because_the_job_failed() -> None:
    job = Job(workflow(slow=task("behind"), bad=task(), behind=task())).begin()
    job.fail("bad")
    job.succeed("slow", {"x": 1})
    assert job.state == "failed"
    assert job.rows["behind"].status is NodeStatus.SKIPPED
    statuses = {node_id: row.status for node_id, row in job.rows.items()}
    scope = plan_rerun(job.plan, statuses, old_params={}, new_params={})
    assert scope.again == ("bad", "behind")
    again = Job(job.plan.definition)
    again.begin(Start(reused={"slow": ReusedNode(NodeStatus.COMPLETED, "old", Output({"x": 1}))}))
    again.finish()
    assert again.state == "completed"
    assert again.rows["behind"].status is NodeStatus.COMPLETED


def test_a_rerun_of_a_fan_in_has_the_children_in_the_same_job() -> None:
    """Not only where the fan-in itself failed, but also where it runs again because of another node before it."""
    definition = workflow(
        split=FanOutNode(source="{{ inputs.items }}", task=spec(), next=("join",)),
        other=task("join"),
        join=FanInNode(source_node="split", aggregation="collect", depends_on=DependsOn(all_of=("other",))),
    )
    job = Job(definition, {"items": [1, 2]}).begin()
    job.succeed("split__0", {})
    job.succeed("split__1", {})
    job.fail("other")
    statuses = {node_id: row.status for node_id, row in job.rows.items() if row.parent_node_id is None}
    params = {"items": [1, 2]}
    scope = plan_rerun(job.plan, statuses, old_params=params, new_params=params)
    assert scope.again == ("split", "other", "join")
    assert scope.keeps_children == ("split",)
