"""Rerun as a new job that reuses what is finished (SPEC E8)."""

from __future__ import annotations

import pytest

from rmhdag.engine.inputs import Output, ReusedNode, Start
from rmhdag.engine.rerun import RerunError, RerunScope, plan_rerun
from rmhdag.models.states import NodeStatus
from rmhdag.workflow.definition import Branch, ConditionalNode
from tests.engine.definitions import fan, task, workflow
from tests.engine.driver import Job


def rerun(job: Job, params: dict[str, object] | None = None, **how: object) -> RerunScope:
    statuses = {node_id: row.status for node_id, row in job.rows.items()}
    old = dict(job.facts.input_params)
    return plan_rerun(job.plan, statuses, old_params=old, new_params=old if params is None else params, **how)  # type: ignore[arg-type]


def chain() -> Job:
    return Job(
        workflow(
            first=task("second", params={"size": "{{ inputs.size }}"}),
            second=task("third", params={"x": "{{ nodes.first.output.x }}"}),
            third=task(),
            aside=task(params={"items": "{{ inputs.items }}"}),
        ),
        {"size": 1, "items": []},
    ).begin()


def test_what_failed_and_what_lies_behind_it_runs_again() -> None:
    job = chain()
    job.succeed("first", {"x": 7})
    job.succeed("aside", {})
    job.fail("second")
    scope = rerun(job)
    assert scope.again == ("second", "third")
    assert scope.reused == ("first", "aside")
    again = Job(job.plan.definition, {"size": 1, "items": []})
    again.begin(
        Start(
            reused={
                "first": ReusedNode(NodeStatus.COMPLETED, "old", Output({"x": 7})),
                "aside": ReusedNode(NodeStatus.COMPLETED, "older", Output({})),
            }
        )
    )
    assert list(again.queued) == ["second"]
    assert again.queued["second"].params == {"x": 7}
    assert again.rows["first"].reused_task_id == "old"
    again.finish()
    assert again.state == "completed"


def test_from_a_node_everything_and_changed_parameters() -> None:
    job = chain().finish({"x": 1})
    assert rerun(job).again == ()
    assert rerun(job, from_nodes=["second"]).again == ("second", "third")
    assert rerun(job, everything=True).reused == ()
    assert rerun(job, {"size": 2, "items": []}).again == ("first", "second", "third")
    assert rerun(job, {"size": 1, "items": [1]}).again == ("aside",)
    with pytest.raises(RerunError, match="'thrid'"):
        rerun(job, from_nodes=["thrid"])


def test_a_node_that_reads_all_inputs_runs_again_when_any_changes() -> None:
    flow = workflow(all=task(params={"all": "{{ inputs }}"}), one=task(params={"size": "{{ inputs.size }}"}))
    job = Job(flow, {"size": 1, "items": []}).begin().finish({})
    assert rerun(job, {"size": 1, "items": [1]}).again == ("all",)


def test_a_taken_branch_stays_taken() -> None:
    definition = workflow(
        route=ConditionalNode(
            subject="{{ inputs.size }}",
            branches=(Branch(condition="< 5", next=("small",)), Branch(default=True, next=("large",))),
        ),
        small=task("join"),
        large=task("join"),
        join=task(),
    )
    job = Job(definition, {"size": 1}).begin()
    job.succeed("small")
    job.fail("join")
    assert rerun(job).reused == ("route", "small")
    again = Job(definition, {"size": 1}).begin(
        Start(
            reused={
                "route": ReusedNode(NodeStatus.COMPLETED, None, Output(job.rows["route"].output)),
                "small": ReusedNode(NodeStatus.COMPLETED, "old", Output({})),
            }
        )
    )
    assert list(again.queued) == ["join"]
    assert again.rows["large"].status is NodeStatus.SKIPPED
    again.reload()
    again.finish()
    assert again.state == "completed"


def test_finished_children_are_kept_while_the_items_are_the_same() -> None:
    job = Job(fan(), {"items": [1, 2], "size": 0}).begin()
    job.succeed("split__0")
    job.fail("split__1")
    scope = rerun(job)
    assert scope.again == ("split", "join", "after")
    assert scope.keeps_children == ("split",)
    assert rerun(job, {"items": [1, 3], "size": 0}).keeps_children == ()
    assert rerun(job, from_nodes=["split"]).keeps_children == ()
    assert rerun(job, everything=True).keeps_children == ()
