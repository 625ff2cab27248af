"""Fan-out and fan-in (SPEC W6, W7, E9)."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from rmhdag.engine.effects import ChildrenCreated
from rmhdag.engine.inputs import ChildrenReduced, Output, RetryNode, Start, TaskReported
from rmhdag.engine.plan import EXPANSION_CHUNK
from rmhdag.engine.reducer import ReduceError, Reducer
from rmhdag.engine.slots import DEFAULT_WINDOW
from rmhdag.models.events import ErrorKind
from rmhdag.models.limits import MAX_CHILDREN
from rmhdag.workflow.definition import DependsOn, FanOutNode, Tolerance
from tests.engine.definitions import AT_ONCE, fan, spec, task, workflow
from tests.engine.driver import Job


def test_children_run_and_are_collected_by_index() -> None:
    job = Job(fan(), {"items": ["a", "b", "c"]}).begin()
    assert job.statuses() == {
        "split": "running",
        "join": "pending",
        "after": "pending",
        "split__0": "dispatched",
        "split__1": "dispatched",
        "split__2": "dispatched",
    }
    assert job.rows["split__1"].input_params == {"value": "b", "at": 1}
    assert job.rows["split"].output == {"dynamic_nodes": ["split__0", "split__2"], "total": 3}
    for index in (2, 0, 1):
        job.succeed(f"split__{index}", {"n": index})
    assert job.rows["split"].status == "completed"
    assert job.rows["join"].status == "ready"
    job.aggregate_all()
    assert job.queued["after"].params == {"joined": {"results": [{"n": 0}, {"n": 1}, {"n": 2}], "count": 3}}
    job.succeed("after")
    assert job.state == "completed"


def test_no_items_fire_the_fan_in_once_with_count_0() -> None:
    job = Job(fan(), {"items": []}).begin()
    assert job.queued["after"].params == {"joined": {"results": [], "count": 0}}
    assert job.event_types("join").count("node_completed") == 1
    job.finish()
    assert job.state == "completed"


@pytest.mark.parametrize("items", ["text", {"a": 1}, None, 3, True])
def test_a_source_that_is_no_list_fails_with_its_kind(items: Any) -> None:
    job = Job(fan(), {"items": items}).begin()
    assert job.state == "failed"
    assert "a fan-out needs a list" in (job.rows["split"].error_message or "")


def test_too_many_items_are_refused() -> None:
    job = Job(fan(), {"items": [0] * (MAX_CHILDREN + 1)}).begin()
    assert job.state == "failed"
    assert "500,001" in (job.rows["split"].error_message or "")


def test_expansion_comes_in_chunks_and_goes_on_after_a_crash() -> None:
    chunk = EXPANSION_CHUNK
    job = Job(fan(), {"items": list(range(5 * chunk // 2))}).begin()
    assert len(job.children("split")) == chunk
    job.reload()
    job.apply_continue()
    assert len(job.children("split")) == 2 * chunk
    job.reload()
    job.finish({"n": 1})
    assert job.state == "completed"
    assert job.rows["split"].output["total"] == 5 * chunk // 2
    created = [effect for effect in job.effects if isinstance(effect, ChildrenCreated)]
    assert [len(effect.children) for effect in created] == [chunk, chunk, chunk // 2]


def test_no_more_than_a_window_is_queued() -> None:
    job = Job(fan(), {"items": list(range(2_500))}).begin()
    job.continue_all()
    assert len(job.children("split")) == 2_500
    assert len(job.queued) == DEFAULT_WINDOW


def test_max_parallel_bounds_what_is_under_way() -> None:
    job = Job(fan(max_parallel=2), {"items": list(range(5))}).begin()
    assert list(job.queued) == ["split__0", "split__1"]
    job.start_task("split__0")
    assert len(job.queued) == 2, "a claimed task still counts"
    job.succeed("split__1")
    assert list(job.queued) == ["split__0", "split__2"]
    job.reload()
    job.finish()
    assert job.state == "completed"


def test_a_retry_keeps_within_max_parallel_and_goes_first() -> None:
    job = Job(fan(max_parallel=1, retry=AT_ONCE), {"items": [0, 1, 2]}).begin()
    job.fail("split__0")
    assert list(job.queued) == ["split__0"]
    assert job.queued["split__0"].attempt == 2
    job.finish()
    assert job.state == "completed"


def test_all_children_run_to_their_end_and_the_fan_in_names_the_failed() -> None:
    job = Job(fan(), {"items": [0, 1, 2]}).begin()
    job.fail("split__1")
    assert job.state == "running"
    job.succeed("split__0")
    job.succeed("split__2")
    assert job.state == "failed"
    assert job.rows["split"].status == "completed"
    assert job.rows["join"].error_message == "1 of 3 children failed: split__1"
    assert job.rows["after"].status == "skipped"


def test_at_most_100_failures_are_named() -> None:
    job = Job(fan(), {"items": list(range(150))}).begin()
    for index in range(150):
        job.fail(f"split__{index}")
    message = job.rows["join"].error_message or ""
    assert "150 of 150" in message
    assert "and 50 more" in message
    assert message.count("split__") == 100


@pytest.mark.parametrize(
    ("tolerate", "failures", "state"),
    [
        (Tolerance(count=2), 2, "completed"),
        (Tolerance(count=1), 2, "failed"),
        (Tolerance(percent=50), 2, "completed"),
        (Tolerance(percent=49), 2, "failed"),
    ],
)
def test_tolerated_failures_are_listed(tolerate: Tolerance, failures: int, state: str) -> None:
    job = Job(fan(tolerate=tolerate), {"items": [0, 1, 2, 3]}).begin()
    for index in range(failures):
        job.fail(f"split__{index}")
    job.finish({"n": 1})
    assert job.state == state
    if state == "completed":
        assert job.rows["join"].output == {
            "results": [{"n": 1}, {"n": 1}],
            "count": 2,
            "failures": [{"node_id": "split__0", "error": "boom"}, {"node_id": "split__1", "error": "boom"}],
        }


def test_without_a_fan_in_a_failed_child_fails_the_fan_out() -> None:
    job = Job(workflow(split=FanOutNode(source="{{ inputs.items }}", task=spec())), {"items": [1, 2]}).begin()
    job.fail("split__0")
    job.succeed("split__1")
    assert job.state == "failed"
    assert "split__0" in (job.rows["split"].error_message or "")


def test_parameters_of_a_child_that_cannot_be_resolved_fail_that_child() -> None:
    job = Job(fan(params={"x": "{{ item.name }}"}), {"items": [{"name": "a"}, {"nom": "b"}]}).begin()
    assert job.rows["split__1"].status == "failed"
    assert "name" in (job.rows["split__1"].error_message or "")
    job.succeed("split__0")
    assert job.state == "failed"


@pytest.mark.parametrize("is_loaded", [False, True])
def test_a_child_without_parameters_is_not_retried_by_hand(is_loaded: bool) -> None:
    """With none at all its handler might do everything."""
    job = Job(fan(params={"x": "{{ item.name }}"}), {"items": [{"name": "a"}, {"nom": "b"}]}).begin()
    if is_loaded:
        job.reload()
    job.apply(RetryNode("split__1", "ann"))
    answer = job.answers()[-1]
    assert not answer.applied
    assert answer.reason.startswith("the parameters of split__1 cannot be resolved")
    assert job.rows["split__1"].status == "failed"
    assert "split__1" not in job.queued


@pytest.mark.parametrize("is_loaded", [False, True])
def test_a_child_that_is_retried_by_hand_has_its_parameters(is_loaded: bool) -> None:
    """Resolved again, so it does not matter whether its row has them."""
    job = Job(fan(params={"x": "{{ item }}"}), {"items": ["a", "b"]}).begin()
    job.fail("split__1", ErrorKind.NON_RETRYABLE)
    job.rows["split__1"].input_params = {}
    if is_loaded:
        job.reload()
    job.apply(RetryNode("split__1", "ann"))
    assert job.queued["split__1"].attempt == 2
    assert job.rows["split__1"].input_params == {"x": "b"}


def test_a_child_is_retried_by_hand_while_the_fan_out_runs() -> None:
    job = Job(fan(), {"items": [0, 1]}).begin()
    job.fail("split__0", ErrorKind.NON_RETRYABLE)
    job.apply(RetryNode("split__0", "ann"))
    assert job.queued["split__0"].attempt == 2
    job.reload()
    job.finish()
    assert job.state == "completed"
    job.apply(RetryNode("split__0", "ann"))
    assert not job.answers()[-1].applied


def test_the_fan_in_fires_once_however_often_it_is_reduced() -> None:
    job = Job(fan(), {"items": [0]}).begin()
    job.succeed("split__0", {"n": 1})
    job.reload()
    job.aggregate_all()
    assert job.apply(ChildrenReduced("join", Output({"results": [], "count": 0}))) == []
    assert job.event_types("join").count("node_completed") == 1


def test_a_reduction_that_fails_fails_the_fan_in() -> None:
    job = Job(fan("sum", field="n"), {"items": [0, 1]}).begin()
    job.succeed("split__0", {"n": 1})
    job.succeed("split__1", {"m": 1})
    job.aggregate_all()
    assert job.state == "failed"
    assert job.rows["join"].error_message == "split__1: its output has no field 'n'"


def test_a_report_for_the_fan_out_itself_is_nobodys() -> None:
    job = Job(fan(), {"items": [0]}).begin()
    for node_id in ("split", "join", "split__7", "split__-1", "split__x"):
        assert job.apply(TaskReported(node_id, 1, "t", 1, True, Output({}))) == []


def test_two_fan_outs_take_turns_in_one_queue() -> None:
    one = FanOutNode(source="{{ inputs.items }}", task=spec())
    job = Job(workflow(a=one, b=one), {"items": list(range(900))}).begin()
    job.continue_all()
    first_hundred = list(job.queued)[900:]
    assert {node_id.split("__")[0] for node_id in first_hundred} == {"b"}
    for node_id in list(job.queued)[:100]:
        job.succeed(node_id)
    job.finish()
    assert job.state == "completed"


def test_reused_children_are_born_completed() -> None:
    job = Job(fan(), {"items": [0, 1, 2]})
    job.outputs = {"split__0": Output({"n": 0}), "split__2": Output({"n": 2})}
    job.begin(Start(reused_children={"split": {0: "old0", 2: "old2"}}))
    assert list(job.queued) == ["split__1"]
    assert job.rows["split__0"].reused_task_id == "old0"
    job.finish({"n": 1})
    assert job.rows["join"].output["results"] == [{"n": 0}, {"n": 1}, {"n": 2}]
    assert job.state == "completed"


def reduce(reducer: Reducer, outputs: list[Any]) -> Any:
    pieces = [
        reducer.open(),
        *(reducer.add(f"c__{index}", value) for index, value in enumerate(outputs)),
        reducer.close(),
    ]
    return orjson.loads(b"".join(pieces))


@pytest.mark.parametrize(
    ("aggregation", "field", "outputs", "expected"),
    [
        ("collect", None, [{"a": 1}, None, [2]], {"results": [{"a": 1}, None, [2]], "count": 3}),
        ("concat", None, [{"a": [1, 2], "b": "x"}, [3], {"c": []}], {"results": [1, 2, 3], "count": 3}),
        ("concat", "a", [{"a": [1], "b": [9]}, {"a": [2]}], {"results": [1, 2], "count": 2}),
        ("concat", None, [], {"results": [], "count": 0}),
        ("sum", None, [{"a": 1, "b": 2.5, "ok": True, "s": "9"}, 4], {"total": 7.5, "count": 2}),
        ("sum", "a.b", [{"a": {"b": 1}}, {"a": {"b": 2}}], {"total": 3, "count": 2}),
        ("sum", None, [], {"total": 0, "count": 0}),
        ("first", None, [1, 2], {"result": 1, "count": 2}),
        ("last", None, [1, 2], {"result": 2, "count": 2}),
        ("first", None, [], {"result": None, "count": 0}),
        ("merge", None, [{"a": 1, "b": 1}, {"b": 2}], {"result": {"a": 1, "b": 2}, "count": 2}),
    ],
)
def test_aggregations(aggregation: str, field: str | None, outputs: list[Any], expected: Any) -> None:
    assert reduce(Reducer(aggregation, field), outputs) == expected


@pytest.mark.parametrize(
    ("aggregation", "field", "outputs"),
    [
        ("concat", None, ["text"]),
        ("concat", "a", [{"a": 1}]),
        ("concat", "a", [{"b": []}]),
        ("sum", None, ["text"]),
        ("sum", "a", [{"a": True}]),
        ("merge", None, [[1]]),
        ("sum", None, [2**62, 2**62, 2**62]),
        ("sum", None, [1e308, 1e308]),
    ],
)
def test_outputs_that_do_not_fit_are_named(aggregation: str, field: str | None, outputs: list[Any]) -> None:
    with pytest.raises(ReduceError):
        reduce(Reducer(aggregation, field), outputs)


def test_the_aggregated_output_is_capped() -> None:
    reducer = Reducer("collect")
    reducer.open()
    block = "x" * 1024 * 1024
    for index in range(63):
        reducer.add(f"c__{index}", block)
    with pytest.raises(ReduceError, match="64 MB"):
        reducer.add("c__63", block)


def test_a_fan_in_waits_for_its_own_children_whatever_any_of_says() -> None:
    definition = fan()
    join = definition.nodes["join"].model_copy(update={"depends_on": DependsOn(any_of=("split", "other"))})
    nodes = {**definition.nodes, "join": join, "other": task("join")}
    job = Job(definition.model_copy(update={"nodes": nodes}), {"items": [1]}).begin()
    job.succeed("other")
    assert job.rows["join"].status == "pending"
    job.finish({"n": 1})
    assert job.rows["join"].output == {"results": [{"n": 1}], "count": 1}
    assert job.state == "completed"
