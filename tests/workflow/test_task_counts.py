"""How many tasks a job would have is found within the time of one template, however many lists a workflow has."""

from __future__ import annotations

from rmhdag.workflow import load
from rmhdag.workflow.definition import WorkflowDefinition
from rmhdag.workflow.task_counts import count_tasks

SOURCE = "{{ inputs.text | upper | lower | upper | lower | split('x') }}"


def with_fan_outs(count: int) -> WorkflowDefinition:
    nodes = {
        f"each{number}": {
            "type": "fan_out",
            "source": SOURCE,
            "task": {"handler": "echo", "queue": "light"},
            "next": "END",
        }
        for number in range(count)
    }
    return load({"workflow_id": "lists", "inputs": {"text": {"type": "string"}}, "nodes": nodes}).definition


def test_the_lists_are_counted() -> None:
    assert count_tasks(with_fan_outs(3), {"text": "axbxc"}) == 9


def test_all_lists_together_have_the_time_of_one_template() -> None:
    params = {"text": "é" * 100_000}
    assert count_tasks(with_fan_outs(1), params) == 1
    assert count_tasks(with_fan_outs(100), params) is None
