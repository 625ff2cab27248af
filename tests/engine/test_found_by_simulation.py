"""Mistakes that the simulator found, each as the few steps that show it."""

from __future__ import annotations

from rmhdag.engine.inputs import CancelJob, Output, ReusedNode, SetWindow, Start
from rmhdag.engine.plan import Plan
from rmhdag.engine.rerun import plan_rerun
from rmhdag.models.references import Reference
from rmhdag.models.states import NodeStatus
from rmhdag.workflow.definition import DependsOn, FanInNode, FanOutNode
from tests.engine.definitions import fan, spec, task, workflow
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


def test_a_loaded_job_that_still_cancels_children_is_not_at_its_end() -> None:
    """Whatever comes first after the load, be it before `resume`."""
    job = Job(fan(), {"items": list(range(10))})
    job.plan = job.run.plan = Plan(fan(), cancel_chunk=2)
    job.apply(SetWindow("light", 0))
    job.begin()
    job.apply(CancelJob("ann"))
    loaded = job.loaded()
    assert loaded.apply(SetWindow("light", 0), job.now) == []
    assert loaded.status == "running"


def test_a_loaded_job_closes_a_fan_out_whose_children_are_all_settled() -> None:
    """The owner died between the last child and the last chunk of the cancelling."""
    job = Job(fan(), {"items": list(range(3))})
    job.plan = job.run.plan = Plan(fan(), cancel_chunk=1)
    job.begin()
    job.apply(CancelJob("ann"))
    for index in range(3):
        job.withdraw(f"split__{index}")
    assert job.run.cancelling == 1
    job.reload()
    job.continue_all()
    assert job.state == "cancelled"
    assert job.statuses()["split"] == "cancelled"


def test_a_rerun_keeps_the_reference_to_a_large_aggregate() -> None:
    """In memory it was there, but its row had nothing, so the next owner did not see it."""
    large = Reference("ab" * 32, 70_000)
    job = Job(fan(), {"items": [1]})
    job.begin(
        Start(
            reused={
                "split": ReusedNode(NodeStatus.COMPLETED, None, Output({"dynamic_nodes": [], "total": 1})),
                "join": ReusedNode(NodeStatus.COMPLETED, None, Output(reference=large)),
            }
        )
    )
    assert job.rows["join"].output == large.as_json()
    assert job.queued["after"].params == {"joined": large.as_json()}
