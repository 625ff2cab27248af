"""Edges, joins and branches (SPEC E3, W4, W5)."""

from __future__ import annotations

from typing import Any

import pytest

from rmhdag.engine.effects import TaskQueued
from rmhdag.engine.inputs import Start, TaskReported
from rmhdag.workflow.definition import Branch, ConditionalNode, EndNode, StartNode, WorkflowDefinition
from tests.engine.definitions import task, workflow
from tests.engine.driver import Job


def conditional(**branches: str) -> ConditionalNode:
    """small="< 100" → branch to `small` if the size is below 100; the last one is the default."""
    made = [
        Branch(condition=condition or None, default=not condition, next=(to,)) for to, condition in branches.items()
    ]
    return ConditionalNode(subject="{{ inputs.size }}", branches=tuple(made))


def test_a_chain_runs_in_order_and_hands_outputs_on() -> None:
    job = Job(
        workflow(
            START=StartNode(next=("first",)),
            first=task("second", params={"size": "{{ inputs.size }}"}),
            second=task("END", params={"seen": "{{ nodes.first.output.answer }}"}),
            END=EndNode(),
        ),
        {"size": 7},
    ).begin()
    assert list(job.queued) == ["first"]
    assert job.queued["first"].params == {"size": 7}
    job.succeed("first", {"answer": [1, 2], "unread": "x"})
    assert job.queued["second"].params == {"seen": [1, 2]}
    job.succeed("second", {"done": True})
    assert job.state == "completed"
    assert job.result == {"second": {"done": True}}
    assert job.statuses() == dict.fromkeys(("START", "first", "second", "END"), "completed")


def test_the_aggregate_keeps_only_what_is_read() -> None:
    job = Job(
        workflow(
            first=task("second"),
            second=task(params={"seen": "{{ nodes.first.output.answer }}"}),
        )
    ).begin()
    job.succeed("first", {"answer": 1, "unread": "x" * 1000})
    assert job.run.outputs == {("first", "output", "answer"): 1}


@pytest.mark.parametrize(("size", "taken", "left"), [(10, "small", "large"), (100, "large", "small")])
def test_a_branch_not_taken_is_skipped_but_not_the_join(size: int, taken: str, left: str) -> None:
    job = Job(
        workflow(
            route=conditional(small="< 100", large=""),
            small=task("join"),
            large=task("join"),
            join=task(params={"other": f"{{{{ nodes.{left}.status }}}}"}),
        ),
        {"size": size},
    ).begin()
    assert list(job.queued) == [taken]
    assert job.rows[left].status == "skipped"
    assert job.rows["route"].output == {"condition_result": taken == "small", "taken": [taken]}
    job.succeed(taken)
    assert job.queued["join"].params == {"other": "skipped"}
    job.succeed("join")
    assert job.state == "completed"


def test_a_whole_skipped_branch_skips_through_to_its_end() -> None:
    job = Job(
        workflow(
            route=conditional(small="< 100", large=""),
            small=task(),
            large=task("larger"),
            larger=task("largest"),
            largest=task(),
        ),
        {"size": 1},
    ).begin()
    assert [job.rows[name].status for name in ("large", "larger", "largest")] == ["skipped"] * 3
    assert job.succeed("small")
    assert job.state == "completed"


def diamond(*any_of: str) -> WorkflowDefinition:
    return workflow(top=task("left", "right"), left=task("join"), right=task("join"), join=task(any_of=any_of))


def test_all_of_waits_for_both() -> None:
    job = Job(diamond()).begin()
    job.succeed("top")
    job.succeed("left")
    assert list(job.queued) == ["right"]
    job.succeed("right")
    assert list(job.queued) == ["join"]


def test_any_of_starts_at_the_first_and_only_once() -> None:
    job = Job(diamond("left", "right")).begin()
    job.succeed("top")
    job.succeed("right")
    assert set(job.queued) == {"left", "join"}
    job.succeed("join")
    assert job.state == "running"
    job.succeed("left")
    assert job.state == "completed"
    assert job.event_types("join").count("node_completed") == 1


def test_all_of_and_any_of_together() -> None:
    definition = workflow(must=task(), one=task(), other=task(), join=task(all_of=("must",), any_of=("one", "other")))
    job = Job(definition).begin()
    job.succeed("one")
    assert "join" not in job.queued
    job.succeed("must")
    assert "join" in job.queued


def test_a_condition_on_a_missing_value_fails_the_node_with_a_message() -> None:
    job = Job(
        workflow(
            first=task("route"),
            route=ConditionalNode(
                subject="{{ nodes.first.output.size }}",
                branches=(Branch(condition="< 5", next=("a",)), Branch(default=True, next=("b",))),
            ),
            a=task(),
            b=task(),
        )
    ).begin()
    job.succeed("first", {"other": 1})
    assert job.state == "failed"
    assert "first" in (job.rows["route"].error_message or "")
    assert "size" in (job.rows["route"].error_message or "")


def test_comparing_a_number_with_text_is_an_error_not_a_guess() -> None:
    job = Job(workflow(route=conditional(a="< 5", b=""), a=task(), b=task()), {"size": "3"}).begin()
    assert job.state == "failed"


def test_data_that_looks_like_a_template_stays_data() -> None:
    job = Job(workflow(only=task(params={"x": "{{ inputs.size }}"})), {"size": "{{ env.SECRET }}"}).begin()
    assert job.queued["only"].params == {"x": "{{ env.SECRET }}"}


def test_declared_outputs_become_the_result() -> None:
    job = Job(workflow({"answer": "{{ nodes.only.output.x }}", "fixed": 1}, only=task())).begin()
    job.succeed("only", {"x": {"deep": [1]}})
    assert job.result == {"answer": {"deep": [1]}, "fixed": 1}


def test_outputs_that_cannot_be_resolved_fail_the_job() -> None:
    job = Job(workflow({"answer": "{{ nodes.only.output.x }}"}, only=task())).begin()
    job.succeed("only", {"y": 1})
    assert job.state == "failed"
    assert "outputs" in (job.error_message or "")


def test_late_and_repeated_reports_change_nothing() -> None:
    job = Job(workflow(first=task("second"), second=task())).begin()
    queued = job.queued["first"]
    job.succeed("first")
    late = TaskReported("first", queued.attempt, queued.task_id, 1, False, error_message="late")
    assert job.apply(late) == []
    assert job.apply(TaskReported("second", 2, "x", 1, True)) == []
    assert job.apply(TaskReported("nobody", 1, "x", 1, True)) == []
    assert job.apply(Start()) == []


def test_a_terminal_job_takes_no_input() -> None:
    job = Job(workflow(only=task())).begin()
    queued: TaskQueued = job.queued["only"]
    job.succeed("only")
    assert job.apply(TaskReported("only", queued.attempt, queued.task_id, 1, True)) == []


def test_a_thousand_conditionals_in_a_row_need_no_deep_stack() -> None:
    nodes: dict[str, Any] = {
        f"c{number}": ConditionalNode(
            branches=(Branch(condition="{{ true }}", next=(f"c{number + 1}",)), Branch(default=True, next=("off",)))
        )
        for number in range(999)
    }
    job = Job(workflow(**nodes, c999=task(), off=task())).begin()
    assert list(job.queued) == ["c999"]
