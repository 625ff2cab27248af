"""Rows that are built by position have each value in the field of its name, and changes of one node fold into one."""

from __future__ import annotations

from dataclasses import fields
from types import SimpleNamespace
from typing import Any

from rmhdag.engine import effects as fx
from rmhdag.models.states import NodeStatus
from rmhdag.orchestrator import batch, effect_rows

# Each value is the name of its field.
JOB: Any = SimpleNamespace(
    **{name: name for name in ("job_id", "namespace", "priority", "fairness_key", "trace_parent")}
)


def named(kind: Any) -> Any:
    return kind(**{field.name: field.name for field in fields(kind)})


def test_values_stand_in_the_fields_of_their_names() -> None:
    order_key: Any = "order_key"
    for row in (
        effect_rows.event_row(JOB, named(fx.EventAppended)),
        effect_rows.node_change("job_id", named(fx.NodeChanged)),
        effect_rows.task_row(JOB, named(fx.TaskQueued), order_key),
    ):
        assert row._asdict() == {name: name for name in row._fields}


def test_a_later_change_stands_over_an_earlier_one_and_keeps_what_it_leaves_alone() -> None:
    writes = batch.JobWrites()
    failed = fx.NodeChanged(
        "n", NodeStatus.FAILED, 1, "t1", input_params={"x": 1}, error_message="first", error={"code": "FIRST"}
    )
    batch._change("j", writes, failed)
    batch._change("j", writes, fx.NodeChanged("n", NodeStatus.READY, 2, checkpoint_phase="half"))
    (row,) = writes.changed.values()
    assert (row.status, row.attempt, row.task_id, row.input_params) == (NodeStatus.READY, 2, "t1", {"x": 1})
    assert (row.error_message, row.error, row.checkpoint_phase) == ("first", {"code": "FIRST"}, "half")
    batch._change("j", writes, fx.NodeChanged("n", NodeStatus.FAILED, 2, error_message="second"))
    (row,) = writes.changed.values()
    assert (row.error_message, row.error, row.checkpoint_phase) == ("second", None, "half"), "the error goes with it"


def test_a_node_that_changes_in_the_batch_that_creates_it_is_inserted_once() -> None:
    writes = batch.JobWrites()
    writes.new_nodes["n"] = effect_rows.new_node(JOB, "n", max_retries=3)
    batch._change("j", writes, fx.NodeChanged("n", NodeStatus.DISPATCHED, 1, "t1", input_params={"x": 1}))
    batch._change("j", writes, fx.NodeChanged("n", NodeStatus.COMPLETED, 1, output={"y": 2}))
    row = writes.new_nodes["n"]
    assert not writes.changed
    assert (row.status, row.task_id, row.input_params, row.output) == (NodeStatus.COMPLETED, "t1", {"x": 1}, {"y": 2})
    assert (row.namespace, row.max_retries) == ("namespace", 3)
