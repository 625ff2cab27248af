"""A run becomes an outcome, whatever the handler does."""

import asyncio
import errno
import json
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from pydantic import BaseModel, Field

from rmhdag.handlers import (
    Checkpoint,
    HandlerContext,
    HandlerResult,
    NonRetryableError,
    Registry,
    RetryLater,
    StopReason,
    TaskInterrupted,
    load_handlers,
)
from rmhdag.handlers.running import Outcome, run_async, run_plain
from rmhdag.models.events import ErrorKind
from rmhdag.models.records import BlobRecord, StacItemRecord, Zone, decode_records

Context = HandlerContext[Any]


class Paper:
    """A link that only writes down what it hears."""

    def __init__(self, told: StopReason | None = None, told_at_checkpoint: str | None = None) -> None:
        self.text = ""
        self.heard: list[tuple[Any, ...]] = []
        self._told = told
        self._told_at_checkpoint = told_at_checkpoint

    def log(self, text: str) -> None:
        self.text += text

    def progress(self, current: float, total: float | None, message: str | None) -> None:
        self.heard.append(("progress", current, total, message))

    def checkpoint(self, phase: str, data: Any) -> None:
        self.heard.append(("checkpoint", phase, data))
        if phase == self._told_at_checkpoint:
            self._told = StopReason.STOPPING

    def stop_reason(self) -> StopReason | None:
        return self._told


async def at_once() -> None:
    """Saved."""


def run(function: Callable[..., Any], params: Any = None, paper: Paper | None = None, **given: Any) -> Outcome:
    registry = Registry()
    registry.handler("it")(function)
    spec = registry.find("it")
    assert spec is not None
    ctx: Context = HandlerContext(paper or Paper(), params if params is not None else {}, **given)
    return asyncio.run(run_async(spec, ctx, at_once)) if spec.is_async else run_plain(spec, ctx)


def run_example(name: str, params: dict[str, Any], **given: Any) -> Any:
    spec = load_handlers([]).find(name)
    assert spec is not None
    return run(spec.function, params, **given)


def returning(value: Any) -> Callable[..., Any]:
    def function(ctx: Context) -> Any:
        return value

    return function


def raising(error: BaseException) -> Callable[..., Any]:
    def function(ctx: Context) -> Any:
        raise error

    return function


def test_outputs_are_encoded_once() -> None:
    assert run(returning({"a": 1})).output == b'{"a":1}'
    assert run(returning(None)).output == b"null"
    whole = run(returning(HandlerResult(output=[1], metrics={"n": 2})))
    assert (whole.output, whole.metrics, whole.error_kind) == (b"[1]", {"n": 2}, None)


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (ValueError("odd"), ErrorKind.HANDLER_ERROR, "ValueError: odd"),
        (ValueError(), ErrorKind.HANDLER_ERROR, "ValueError"),
        (NonRetryableError("never"), ErrorKind.NON_RETRYABLE, "never"),
        (MemoryError(), ErrorKind.HANDLER_ERROR, "out of memory"),
        (OSError(errno.ENOSPC, "No space left"), ErrorKind.HANDLER_ERROR, "disk full"),
        (OSError(errno.EROFS, "Read-only"), ErrorKind.HANDLER_ERROR, "disk is read-only"),
        (SystemExit(3), ErrorKind.HANDLER_ERROR, "sys.exit(3)"),
        (KeyboardInterrupt(), ErrorKind.HANDLER_ERROR, "KeyboardInterrupt"),
        (TaskInterrupted(), ErrorKind.HANDLER_ERROR, "TaskInterrupted"),
        (asyncio.CancelledError(), ErrorKind.HANDLER_ERROR, "CancelledError"),
        (RuntimeError("nul \0 and \ud800"), ErrorKind.HANDLER_ERROR, "RuntimeError: nul � and ?"),
        (RuntimeError("x" * 5000), ErrorKind.HANDLER_ERROR, "RuntimeError: xxx"),
    ],
)
def test_exceptions_become_failures(error: BaseException, kind: ErrorKind, message: str) -> None:
    paper = Paper()
    outcome = run(raising(error), paper=paper)
    assert outcome.error_kind is kind
    assert message in str(outcome.error_message)
    assert len(str(outcome.error_message)) <= 2000
    assert "Traceback" in paper.text


@pytest.mark.parametrize("error", [ValueError("odd"), NonRetryableError("never")])
def test_the_traceback_begins_in_the_handler(error: BaseException) -> None:
    paper = Paper()
    run(raising(error), paper=paper)
    heading, first_frame, *_ = paper.text.splitlines()
    assert heading == "Traceback (most recent call last):"
    assert first_frame.strip().startswith(f'File "{__file__}"')


def looking(result: Any) -> Callable[..., Any]:
    def function(ctx: Context) -> Any:
        assert ctx.cancelled
        if isinstance(result, Exception):
            raise result
        return result

    return function


@pytest.mark.parametrize("reason", list(StopReason))
def test_what_ends_because_it_was_asked_to_is_stopped(reason: StopReason) -> None:
    assert run(raising(TaskInterrupted()), paper=Paper(reason)).stopped
    for ending in ({"a": 1}, None, HandlerResult(), [1], ValueError("asked to stop")):
        assert run(looking(ending), paper=Paper(reason)) == Outcome(stopped=True)


@pytest.mark.parametrize("reason", list(StopReason))
def test_the_whole_result_counts_although_the_handler_was_asked_to_stop(reason: StopReason) -> None:
    outcome = run(looking(HandlerResult(output={"a": 1}, complete=True)), paper=Paper(reason))
    assert (outcome.stopped, outcome.output) == (False, b'{"a":1}')


@pytest.mark.parametrize("reason", list(StopReason))
def test_a_handler_that_does_not_look_may_finish_while_its_worker_stops_and_no_later(reason: StopReason) -> None:
    is_too_late = reason is not StopReason.STOPPING
    assert run(returning({"a": 1}), paper=Paper(reason)).stopped == is_too_late
    assert run(raising(ValueError("unrelated")), paper=Paper(reason)).stopped == is_too_late


def test_an_author_who_says_that_trying_again_is_useless_is_believed_while_the_worker_stops() -> None:
    outcome = run(looking(NonRetryableError("no such file")), paper=Paper(StopReason.STOPPING))
    assert (outcome.stopped, outcome.error_kind) == (False, ErrorKind.NON_RETRYABLE)


def test_a_part_of_a_run_that_looks_has_looked_for_the_whole_run(tmp_path: Path) -> None:
    def function(ctx: Context) -> Any:
        assert ctx.part({}, 0, 50).stop_reason is StopReason.STOPPING
        return {"a": 1}

    paper = Paper(StopReason.STOPPING)
    assert run(function, paper=paper, scratch=tmp_path).stopped
    assert "complete=True" in paper.text


@pytest.mark.parametrize("complete", [False, True])
def test_a_generator_that_looks_has_no_result_unless_it_is_complete(complete: bool) -> None:
    async def phases(ctx: Context) -> AsyncGenerator[Any, None]:
        assert ctx.cancelled
        yield {"type": "result", "output": 1, "complete": complete}

    assert run(phases, paper=Paper(StopReason.STOPPING)).stopped != complete


def test_a_generator_that_looks_may_end_without_a_result() -> None:
    async def phases(ctx: Context) -> AsyncGenerator[Any, None]:
        if not ctx.cancelled:
            yield {"type": "result", "output": 1}

    assert run(phases, paper=Paper(StopReason.STOPPING)).stopped


def test_a_handler_may_ask_to_be_called_later() -> None:
    assert run(raising(RetryLater(5))).delay_seconds == 5.0
    for seconds in (-1, float("nan"), float("inf"), 1e9):
        with pytest.raises(ValueError, match="RetryLater"):
            RetryLater(seconds)


def test_why_a_handler_asks_to_be_called_later_stands_in_its_log() -> None:
    paper = Paper()
    assert run(raising(RetryLater(3600, "the tile server asks us to wait")), paper=paper).delay_seconds == 3600
    assert paper.text == "asks to be called again in 3600 s: the tile server asks us to wait\n"
    silent = Paper()
    run(raising(RetryLater(5)), paper=silent)
    assert silent.text == "asks to be called again in 5 s\n"


class SpeechlessError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not today")


class FinalSpeechlessError(NonRetryableError):
    def __str__(self) -> str:
        raise TypeError


@pytest.mark.parametrize("error", [SpeechlessError(), FinalSpeechlessError()])
def test_an_error_that_cannot_be_written_as_text_is_reported_all_the_same(error: Exception) -> None:
    outcome = run(raising(error))
    assert outcome.error_message == f"{type(error).__name__} (its text cannot be shown: str() of it fails)"


class Limits(BaseModel):
    low: int = Field(ge=0)


class Typed(BaseModel):
    limits: list[Limits]
    name: str = "x"


def typed(ctx: HandlerContext[Typed]) -> dict[str, Any]:
    return {"low": ctx.params.limits[0].low, "name": ctx.params.name}


def test_parameters_are_typed_and_problems_name_their_place() -> None:
    assert run(typed, {"limits": [{"low": 3}]}).output == b'{"low":3,"name":"x"}'
    outcome = run(typed, {"limits": [{"low": 1}, {"low": -1}], "name": 5})
    assert outcome.error_kind is ErrorKind.NON_RETRYABLE
    assert "params /limits/1/low: Input should be greater than or equal to 0" in str(outcome.error_message)
    assert "params /name: Input should be a valid string" in str(outcome.error_message)


def test_a_generator_checkpoints_tells_and_ends_with_a_result() -> None:
    async def phases(ctx: Context) -> AsyncGenerator[Any, None]:
        yield {"type": "progress", "current": 1, "total": 2, "message": "half"}
        yield {"type": "checkpoint", "phase": "one", "data": {"n": 1}}
        yield {"type": "result", "output": {"done": True}, "metrics": {"m": 1}}
        raise AssertionError("nothing runs after the result")

    paper = Paper()
    outcome = run(phases, paper=paper)
    assert (outcome.output, outcome.metrics) == (b'{"done":true}', {"m": 1})
    assert paper.heard == [("progress", 1, 2, "half"), ("checkpoint", "one", {"n": 1})]


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ([], "ended without a result"),
        (["x"], "the handler yielded str 'x'"),
        ([{"type": "reslut"}], "yield {type: checkpoint"),
        ([{"type": "result", "outptu": 1}], "yield {type: checkpoint"),
        ([{"type": "checkpoint"}], "checkpoint phase None"),
        ([{"type": "checkpoint", "phase": "p" * 65}], "1 to 64 characters"),
        ([{"type": "checkpoint", "phase": "p", "data": float("nan")}], "nan is not a JSON number"),
        ([{"type": "checkpoint", "phase": "p", "data": "x" * 70_000}], "larger than"),
        ([{"type": "progress", "current": float("nan")}], "progress current is nan"),
        ([{"type": "progress", "current": -1}], "progress current is -1"),
    ],
)
def test_a_generator_that_breaks_the_protocol_fails(said: list[Any], message: str) -> None:
    async def phases(ctx: Context) -> AsyncGenerator[Any, None]:
        for one in said:
            yield one

    outcome = run(phases)
    assert outcome.error_kind is not None
    assert message in str(outcome.error_message)


def test_a_generator_that_is_told_to_stop_ends_at_its_next_checkpoint() -> None:
    closed = []

    async def phases(ctx: Context) -> AsyncGenerator[Any, None]:
        try:
            for number in range(10):
                yield {"type": "checkpoint", "phase": f"p{number}"}
        finally:
            closed.append(True)

    paper = Paper(told_at_checkpoint="p2")
    assert run(phases, paper=paper).stopped
    assert [heard[1] for heard in paper.heard] == ["p0", "p1", "p2"]
    assert closed


def test_an_artifact_is_sealed_when_saved_and_verified_when_resumed_from(tmp_path: Path) -> None:
    file = tmp_path / "half"
    file.write_text("half of it")

    def save(ctx: Context) -> dict[str, Any]:
        if ctx.resume is not None:
            return {"resumed": ctx.resume.phase}
        ctx.checkpoint("half", {"n": 1}, artifact=file)
        return {}

    paper = Paper()
    run(save, paper=paper)
    ((_, phase, data),) = paper.heard
    assert data["artifact"]["size_bytes"] == 10
    assert len(data["artifact"]["sha256"]) == 64
    assert run(save, resume=Checkpoint(phase, data)).output == b'{"resumed":"half"}'
    file.write_text("another half")
    paper = Paper()
    assert run(save, resume=Checkpoint(phase, data), paper=paper).output == b"{}"
    assert "has changed since its checkpoint was saved" in paper.text
    file.unlink()
    paper = Paper()
    outcome = run(save, resume=Checkpoint(phase, data), paper=paper)
    assert "cannot be read" in paper.text
    assert "artifact" in str(outcome.error_message), "and what is not there cannot be saved either"


def test_a_wrong_hash_is_refused_before_the_checkpoint_is_saved(tmp_path: Path) -> None:
    file = tmp_path / "half"
    file.write_text("half of it")

    def save(ctx: Context) -> None:
        ctx.checkpoint("half", {"artifact": {"path": str(file), "sha256": "0" * 64}})

    paper = Paper()
    assert "finish writing the file before the checkpoint" in str(run(save, paper=paper).error_message)
    assert paper.heard == []


def test_a_file_is_replaced_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "map.tif"
    target.write_text("old")

    def write(ctx: Context) -> None:
        with ctx.replace_file(target) as part:
            part.write_text("new")
            assert f".{ctx.lease_epoch}." in part.name
            assert target.read_text() == "old"
            if ctx.params:
                raise ValueError("in the middle")

    assert run(write, {"fail": True}).error_kind is ErrorKind.HANDLER_ERROR
    assert target.read_text() == "old"
    assert run(write).error_kind is None
    assert target.read_text() == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["map.tif"]


def test_the_key_for_effects_outside_is_the_same_for_every_attempt() -> None:
    keys = {
        HandlerContext(Paper(), {}, job_id="j", node_id="n", attempt=n, lease_epoch=n).idempotency_key for n in (1, 2)
    }
    assert len(keys) == 1


@pytest.mark.parametrize(
    ("name", "params", "output"),
    [
        ("echo", {"a": 1}, {"echoed_params": {"a": 1}}),
        ("hello_world", {}, {"message": "Hello, world!"}),
        ("sleep", {"seconds": 0}, {"slept_seconds": 0.0}),
        ("multi_phase", {"phases": 2}, {"phases": [1, 2], "resumed_after": 0}),
        ("size_check", {"size_mb": 150}, {"size_mb": 150.0, "category": "large", "is_large": True}),
        ("size_check", {"size_mb": 1}, {"size_mb": 1.0, "category": "small", "is_large": False}),
        ("chunk_processor", {"chunk": [1, 2.5, "x"]}, {"chunk_index": 0, "count": 3, "total": 3.5}),
        # The names of the original system's test workflows.
        ("hello_world", {"message": "Good morning"}, {"message": "Good morning"}),
        ("sleep", {"duration_seconds": 0}, {"slept_seconds": 0.0, "slept_for": 0.0}),
        (
            "size_check",
            {"size_bytes": 200 * 1024**2},
            {
                "size_mb": 200.0,
                "category": "large",
                "is_large": True,
                "size_bytes": 200 * 1024**2,
                "route": "medium",
            },
        ),
        (
            "chunk_processor",
            {"chunk_id": "c1", "chunk_data": [1, 2]},
            {"chunk_index": 0, "count": 2, "total": 3, "chunk_id": "c1"},
        ),
        ("echo", {"steps": 2, "step_delay": 0}, {"echoed_params": {"steps": 2, "step_delay": 0}}),
        ("echo", {"steps": "two"}, {"echoed_params": {"steps": "two"}}),
    ],
)
def test_examples_return_what_they_promise(name: str, params: dict[str, Any], output: Any) -> None:
    assert json.loads(run_example(name, params).output) == output


def test_fail_fails_until_it_is_to_succeed() -> None:
    assert run_example("fail", {}).error_message == "RuntimeError: failed on purpose"
    assert run_example("fail", {"retryable": False}).error_kind is ErrorKind.NON_RETRYABLE
    assert run_example("fail", {"succeed_on_attempt": 2}, attempt=1).error_kind is ErrorKind.HANDLER_ERROR
    assert run_example("fail", {"succeed_on_attempt": 2}, attempt=2).output == b'{"attempt":2}'


def test_fail_takes_the_original_name_of_its_message() -> None:
    assert run_example("fail", {"error_message": "broken"}).error_message == "RuntimeError: broken"


@pytest.mark.parametrize(("name", "params"), [("size_check", {}), ("chunk_processor", {})])
def test_an_example_without_its_data_is_not_tried_again(name: str, params: dict[str, Any]) -> None:
    assert run_example(name, params).error_kind is ErrorKind.NON_RETRYABLE


def test_echo_saves_a_checkpoint_after_each_step_but_the_last() -> None:
    paper = Paper()
    run_example("echo", {"steps": 3}, paper=paper)
    assert [one[1] for one in paper.heard if one[0] == "checkpoint"] == ["step_1", "step_2"]
    resumed = Paper()
    run_example("echo", {"steps": 3}, paper=resumed, resume=Checkpoint("step_1", {"finished": 1}))
    assert [one[1] for one in resumed.heard if one[0] == "checkpoint"] == ["step_2"]


def test_flaky_echo_fails_at_its_rate_and_always_in_the_same_way() -> None:
    def is_good(number: int, rate: float) -> bool:
        outcome = run_example("flaky_echo", {"failure_rate": rate, "x": 1}, task_id=f"task-{number}")
        return outcome.error_kind is None

    first = [is_good(number, 0.3) for number in range(200)]
    assert first == [is_good(number, 0.3) for number in range(200)]
    assert 100 < sum(first) < 180
    assert all(is_good(number, 0) for number in range(20))
    assert not any(is_good(number, 1) for number in range(20))
    output = json.loads(run_example("flaky_echo", {"failure_rate": 0, "x": 1}, task_id="t").output)
    echoed = {"failure_rate": 0.0, "x": 1}
    assert output == {"echoed_params": echoed, "retry_count": 0, "task_id": "t", "handler": "flaky_echo"}


def test_chunk_processor_listens() -> None:
    assert run_example("chunk_processor", {"chunk": [1]}, paper=Paper(StopReason.CANCELLED)).stopped


def test_multi_phase_goes_on_after_its_checkpoint() -> None:
    outcome = run_example("multi_phase", {"phases": 3}, resume=Checkpoint("phase-2", {"done": [1, 2]}))
    assert json.loads(outcome.output) == {"phases": [1, 2, 3], "resumed_after": 2}


BLOB = BlobRecord(zone=Zone.SILVER, container="cogs", path="a/a.tif", size_bytes=3, sha256="0" * 64, role="data")


def test_records_travel_as_text_beside_the_output() -> None:
    async def phases(ctx: Context) -> AsyncGenerator[Any, None]:
        yield {"type": "result", "output": {"n": 1}, "records": [BLOB.model_dump(mode="json")]}

    for outcome in (run(lambda ctx: HandlerResult(output={"n": 1}, records=(BLOB,))), run(phases)):
        assert outcome.output == b'{"n":1}'
        assert outcome.records is not None
        assert decode_records(orjson.loads(outcome.records)) == (BLOB,)
    assert run(lambda ctx: HandlerResult(output={"n": 1})).records is None


def test_more_records_than_one_result_may_publish_are_refused() -> None:
    item = StacItemRecord(collection_id="c", item={"id": "i", "text": "x" * 900_000})
    outcome = run(lambda ctx: HandlerResult(records=(item,) * 20))
    assert outcome.error_kind is ErrorKind.OUTPUT_REFUSED
    assert "hand them over from several tasks" in str(outcome.error_message)
    assert outcome.records is None
