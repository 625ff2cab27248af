"""Workflows on the virtual clock: what production decides in hours is decided here in milliseconds."""

from collections.abc import AsyncGenerator
from functools import partial
from pathlib import Path
from typing import Any, get_args

import pytest

from rmhdag.engine.effects import Effect
from rmhdag.handlers import HandlerContext, NonRetryableError, RetryLater
from rmhdag.models.blobs import BlobAddress
from rmhdag.models.events import ErrorKind
from rmhdag.models.records import Zone
from rmhdag.models.states import JobStatus
from rmhdag.testing import (
    CommandRefused,
    Decision,
    VirtualJob,
    hangs,
    in_turn,
    lost_worker,
    not_started,
    run_workflow,
    start_workflow,
    takes,
)
from rmhdag.testing.platform import RULES
from rmhdag.workflow import InvalidInputs, InvalidWorkflow

ROOT = Path(__file__).resolve().parents[2]
Context = HandlerContext[Any]
HOURLY = {"max_attempts": 3, "backoff": "none", "initial_delay_seconds": 3600, "max_delay_seconds": 3600}


def test_every_effect_of_the_engine_has_a_rule() -> None:
    assert set(RULES) == set(get_args(Effect))


def flow(**nodes: Any) -> dict[str, Any]:
    return {"workflow_id": "flow", "name": "Flow", "defaults": {"queue": "any"}, "nodes": nodes}


def one(**more: Any) -> dict[str, Any]:
    return flow(one={"handler": "my.one", **more})


def test_hours_of_retries_take_milliseconds() -> None:
    job = run_workflow(one(retry=HOURLY), handlers={"my.one": in_turn(ValueError("a"), ValueError("b"), {"n": 3})})
    job.assert_completed()
    assert job.outputs == {"one": {"n": 3}}
    assert job.seconds == 7200
    assert [(run.attempt, run.started_at, run.outcome, run.error_message) for run in job.attempts] == [
        (1, 0, "failed", "ValueError: a"),
        (2, 3600, "failed", "ValueError: b"),
        (3, 7200, "completed", None),
    ]
    assert job.event_types() == [
        "job_started",
        *("node_ready", "node_dispatched", "node_running", "node_failed", "node_retrying"),
        *("node_dispatched", "node_running", "node_failed", "node_retrying"),
        *("node_dispatched", "node_running", "node_completed", "job_completed"),
    ]
    assert [event.seq for event in job.events] == list(range(1, len(job.events) + 1))


def test_the_last_failure_ends_the_job_and_is_explained() -> None:
    job = run_workflow(
        flow(one={"handler": "my.one", "retry": HOURLY, "next": "two"}, two={"handler": "my.two"}),
        handlers={"my.one": ValueError("odd"), "my.two": {}},
    )
    assert job.status == "failed"
    assert job.statuses == {"one": "failed", "two": "skipped"}
    assert job.error_message == "node 'one' failed: ValueError: odd"
    with pytest.raises(AssertionError, match=r"flow is failed after 7200 s(.|\n)*one: failed, attempt 3(.|\n)*raise"):
        job.assert_completed()


def test_what_cannot_succeed_is_not_tried_again() -> None:
    job = run_workflow(one(retry=HOURLY), handlers={"my.one": NonRetryableError("never")})
    assert (job.status, job.seconds, len(job.attempts)) == ("failed", 0, 1)
    assert job.attempts[0].error_kind is ErrorKind.NON_RETRYABLE


def test_a_task_that_takes_too_long_times_out() -> None:
    for fake in (takes(61, {"n": 1}), hangs()):
        job = run_workflow(one(timeout_seconds=60, retries=0), handlers={"my.one": fake})
        assert job.status == "failed"
        assert job.seconds == 60
        assert job.nodes["one"].error_message == "it ran longer than its 60 s and was stopped"
    assert run_workflow(one(timeout_seconds=60), handlers={"my.one": takes(60)}).assert_completed().seconds == 60


def test_a_task_that_nobody_starts() -> None:
    job = run_workflow(one(start_timeout_seconds=30, retries=0), handlers={"my.one": not_started()})
    assert job.nodes["one"].error_message == "no worker started it within 30 s"
    waiting = run_workflow(one(), handlers={"my.one": not_started()})
    assert (waiting.status, waiting.statuses) == ("running", {"one": "dispatched"})


def test_lost_workers_use_no_attempt_and_the_third_is_the_last() -> None:
    job = run_workflow(one(), handlers={"my.one": in_turn(lost_worker(), lost_worker(), {"n": 1})})
    job.assert_completed()
    assert [(run.attempt, run.outcome) for run in job.attempts] == [(1, "lost"), (1, "lost"), (1, "completed")]
    assert job.seconds == 20, "ten seconds until each death is noticed"
    assert job.event_types("one").count("node_lost") == 2
    poison = run_workflow(one(), handlers={"my.one": lost_worker()})
    assert poison.status == "failed"
    assert poison.dead_letters == ["one"]
    assert "its worker was lost 3 times" in str(poison.error_message)


async def parts(ctx: Context) -> AsyncGenerator[dict[str, Any], None]:
    first = 0 if ctx.resume is None else ctx.resume.data["done"]
    for number in range(first, 3):
        yield {"type": "checkpoint", "phase": f"part-{number}", "data": {"done": number + 1}}
    yield {"type": "result", "output": {"began_at": first}}


def test_a_handler_resumes_after_its_worker_was_lost() -> None:
    job = run_workflow(one(), handlers={"my.one": in_turn(lost_worker(parts, after_checkpoint="part-1"), parts)})
    assert job.assert_completed().outputs == {"one": {"began_at": 2}}
    lost, done = job.attempts
    assert [phase for phase, _ in lost.checkpoints] == ["part-0", "part-1"]
    assert done.resumed_from == ("part-1", {"done": 2})
    assert job.event_types("one").count("node_checkpoint") == 3


def test_a_handler_may_ask_to_be_called_later() -> None:
    job = run_workflow(one(), handlers={"my.one": in_turn(RetryLater(600), RetryLater(600), {"n": 1})})
    job.assert_completed()
    assert [(run.attempt, run.started_at, run.outcome) for run in job.attempts] == [
        (1, 0, "later"),
        (1, 600, "later"),
        (1, 1200, "completed"),
    ]


FAN = flow(
    plan={"handler": "my.plan", "next": "tiles"},
    tiles={
        "type": "fan_out",
        "source": "{{ nodes.plan.output.tiles }}",
        "item_key": "tile-{{ item }}",
        "max_parallel": 2,
        "task": {"handler": "my.tile", "params": {"tile": "{{ item }}"}, "retries": 0},
        "next": "merge",
    },
    merge={"type": "fan_in", "tolerate": {"percent": 50}},
)


def test_fan_outs_keep_their_width_and_tolerate_failures() -> None:
    def tile(ctx: Context) -> dict[str, Any]:
        if ctx.params["tile"] == 3:
            raise ValueError("cloudy")
        return {"tile": ctx.params["tile"]}

    job = run_workflow(FAN, handlers={"my.plan": {"tiles": [1, 2, 3, 4]}, "my.tile": takes(10, tile)})
    job.assert_completed()
    assert job.seconds == 20, "two by two"
    assert [(child.item_key, child.status) for child in job.nodes["tiles"].children] == [
        ("tile-1", "completed"),
        ("tile-2", "completed"),
        ("tile-3", "failed"),
        ("tile-4", "completed"),
    ]
    merged = job.outputs["merge"]
    assert [result["tile"] for result in merged["results"]] == [1, 2, 4]
    assert merged["failures"] == [{"node_id": "tiles__2", "error": "ValueError: cloudy"}]
    assert job.statuses == {"plan": "completed", "tiles": "completed", "merge": "completed"}


def test_a_wide_fan_out_is_expanded_in_chunks() -> None:
    job = run_workflow(FAN, handlers={"my.plan": {"tiles": list(range(1_500))}, "my.tile": {"n": 1}})
    assert job.assert_completed().outputs["merge"]["count"] == 1_500


GATE = flow(
    gate={"type": "approval", "message": "Release {{ inputs.name }}?", "timeout_seconds": 86_400, "next": "after"},
    after={"handler": "echo", "params": {"by": "{{ nodes.gate.output.decided_by }}"}},
) | {"inputs": {"name": {"type": "string", "required": True}}}


def test_approvals_are_decided_by_the_test() -> None:
    job = run_workflow(GATE, {"name": "rivers"})
    assert job.status is JobStatus.RUNNING
    assert [approval.message for approval in job.waiting_approvals] == ["Release rivers?"]
    job.approve("gate", by="ada").assert_completed()
    assert job.outputs == {"after": {"echoed_params": {"by": "ada"}}}
    with pytest.raises(CommandRefused, match="completed"):
        job.reject("gate")


def test_decisions_can_be_given_beforehand_and_come_late() -> None:
    rejected = run_workflow(GATE, {"name": "x"}, decisions={"gate": False})
    assert rejected.error_message == "node 'gate' failed: rejected by tester"
    late = run_workflow(GATE, {"name": "x"}, decisions={"gate": Decision(True, by="bea", after_seconds=3_600)})
    assert late.assert_completed().seconds == 3_600
    too_late = run_workflow(GATE, {"name": "x"}, decisions={"gate": Decision(True, after_seconds=90_000)})
    assert too_late.nodes["gate"].error_message == "it waited longer than its 86400 s"


def test_time_can_be_let_pass() -> None:
    job = run_workflow(GATE, {"name": "x"})
    assert job.wait(80_000).status == "running"
    assert job.seconds == 80_000
    assert job.wait(10_000).status == "failed"


def test_a_job_is_cancelled_in_the_middle() -> None:
    called: list[Context] = []
    job = start_workflow(FAN, handlers={"my.plan": {"tiles": [1, 2, 3]}, "my.tile": takes(100, called.append)})
    job.wait(30)
    assert [run.outcome for run in job.attempts] == ["completed", None, None]
    job.cancel(by="ada", reason="wrong data")
    assert job.status == "cancelled"
    assert job.error_message == "cancelled by ada: wrong data"
    assert {child.status for child in job.nodes["tiles"].children} == {"cancelled"}
    assert called == []
    assert job.cancel().status == "cancelled"


def test_a_retry_by_hand_does_not_wait() -> None:
    job = start_workflow(one(retry=HOURLY), handlers={"my.one": in_turn(ValueError("x"), {"n": 1})})
    job.wait(10)
    assert job.nodes["one"].error_message == "ValueError: x"
    assert job.retry("one").assert_completed().seconds == 10


def test_branches_are_taken_and_left() -> None:
    routed = flow(
        size={"handler": "size_check", "params": {"size_mb": "{{ inputs.mb }}"}, "next": "route"},
        route={
            "type": "conditional",
            "condition": "{{ nodes.size.output.is_large }}",
            "on_true": "big",
            "on_false": "small",
        },
        big={"handler": "my.one"},
        small={"handler": "my.one"},
    ) | {"inputs": {"mb": {"type": "number", "required": True}}}
    job = run_workflow(routed, {"mb": 500}, handlers={"my.one": {"done": True}})
    assert job.assert_completed().statuses == {
        "size": "completed",
        "route": "completed",
        "big": "completed",
        "small": "skipped",
    }


CHILD = {
    "workflow_id": "report",
    "name": "Report",
    "inputs": {"pages": {"type": "integer", "required": True}},
    "outputs": {"pages": "{{ nodes.write.output.pages }}"},
    "nodes": {"write": {"handler": "my.write", "queue": "any", "params": {"pages": "{{ inputs.pages }}"}}},
}


def with_child(params: dict[str, Any], **more: Any) -> VirtualJob:
    parent = flow(report={"type": "workflow", "workflow": "report", "params": params})
    return run_workflow(parent, handlers={"my.write": lambda ctx: {"pages": ctx.params["pages"]}}, **more)


def test_child_jobs_run_too() -> None:
    job = with_child({"pages": 3}, workflows=[CHILD]).assert_completed()
    assert job.outputs == {"report": {"pages": 3}}
    assert job.child_jobs["report"].assert_completed().inputs == {"pages": 3}
    refused = with_child({"pages": "many"}, workflows=[CHILD])
    assert "pages" in str(refused.error_message)
    missing = with_child({"pages": 3})
    assert "there is no workflow 'report' to run as a child job" in str(missing.error_message)


def test_cancelling_a_job_cancels_its_child() -> None:
    parent = flow(report={"type": "workflow", "workflow": "report", "params": {"pages": 1}})
    job = start_workflow(parent, workflows=[CHILD], handlers={"my.write": hangs()}).wait(5)
    job.cancel()
    assert job.status == "cancelled"
    assert job.child_jobs["report"].status == "cancelled"


def test_a_workflow_is_refused_as_it_would_be_at_registration() -> None:
    with pytest.raises(InvalidWorkflow, match=r"no handler `my\.one`"):
        run_workflow(one())
    with pytest.raises(InvalidInputs, match="name"):
        run_workflow(GATE)
    with pytest.raises(TypeError, match="cannot stand in for a handler"):
        run_workflow(one(), handlers={"my.one": 5})  # type: ignore[dict-item]


STRICT = """
from pydantic import BaseModel, ConfigDict
from rmhdag.handlers import HandlerContext, handler

class Params(BaseModel):
    model_config = ConfigDict(extra="forbid")
    tile: int

@handler("testing.strict")
def strict(ctx: HandlerContext[Params]) -> dict:
    return {"real": ctx.params.tile}
"""


def test_fakes_get_the_parameters_that_the_real_handler_would_accept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a test with fakes would pass where the workflow fails."""
    (tmp_path / "strict_handlers_of_a_test.py").write_text(STRICT)
    monkeypatch.syspath_prepend(tmp_path)

    def run(params: dict[str, Any], **handlers: Any) -> VirtualJob:
        strict = flow(one={"handler": "testing.strict", "params": params, "retries": 0})
        fakes = {name.replace("_", "."): fake for name, fake in handlers.items()}
        return run_workflow(
            strict | {"inputs": {"tile": {"type": "string", "default": "x"}}},
            handlers=fakes,
            modules=["strict_handlers_of_a_test"],
        )

    assert run({"tile": 2}).assert_completed().outputs == {"one": {"real": 2}}
    wrong = run({"tile": "{{ inputs.tile }}"}, testing_strict={"fake": True})
    assert "params /tile: Input should be a valid integer" in str(wrong.error_message)
    right = run({"tile": 3}, testing_strict=lambda ctx: {"fake": ctx.params.tile})
    assert right.assert_completed().outputs == {"one": {"fake": 3}}


def test_real_handlers_have_storage(run_workflow: partial[VirtualJob], tmp_path: Path) -> None:
    def write(ctx: Context) -> dict[str, Any]:
        (ctx.scratch / "x").write_text("x")
        ref = ctx.storage.upload(ctx.scratch / "x", BlobAddress(Zone.SILVER, "out", "x.txt"))
        return {"ref": ref.model_dump(mode="json")}

    job = run_workflow(one(), handlers={"my.one": write}).assert_completed()
    assert job.outputs["one"]["ref"]["path"] == "x.txt"
    assert (tmp_path / "storage" / "silver" / "out" / "x.txt").read_text() == "x"
    assert list((tmp_path / "scratch").iterdir()) == [], "scratch folders do not outlive their run"


@pytest.mark.parametrize("name", ["echo_test", "fan_out_test", "hello_world"])
def test_shipped_workflows_run_with_their_own_handlers(name: str) -> None:
    file = ROOT / "src" / "rmhdag" / "workflows" / f"{name}.yaml"
    run_workflow(file).assert_completed()


def test_text_of_a_workflow_will_do() -> None:
    text = "workflow_id: t\nname: T\nnodes:\n  hi: {handler: hello_world, queue: any}\n"
    assert run_workflow(text).outputs == {"hi": {"message": "Hello, world!"}}
