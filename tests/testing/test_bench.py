"""A handler on the bench is treated as a worker treats it, and everything that it says is kept."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict

from rmhdag.handlers import (
    HandlerContext,
    HandlerResult,
    NonRetryableError,
    RetryLater,
    StopReason,
    TaskInterrupted,
)
from rmhdag.handlers.params import ParamsRefused
from rmhdag.models.blobs import BlobAddress
from rmhdag.models.events import ErrorKind
from rmhdag.models.handler_result import DataWarning
from rmhdag.models.records import Zone
from rmhdag.testing import HandlerBench, Progress, RunFailed

Context = HandlerContext[Any]


class Tile(BaseModel):
    model_config = ConfigDict(extra="forbid")

    tile: str
    size: int = 1


def plain(ctx: HandlerContext[Tile]) -> dict[str, Any]:
    ctx.logger.info("tile %s", ctx.params.tile)
    ctx.progress(1, 2, "half")
    return {"tile": ctx.params.tile, "sizes": {"each": ctx.params.size}}


async def phases(ctx: Context) -> AsyncGenerator[dict[str, Any], None]:
    first = 0 if ctx.resume is None else int(ctx.resume.data["done"])
    for number in range(first, 3):
        yield {"type": "checkpoint", "phase": f"part-{number}", "data": {"done": number + 1}}
    yield {"type": "result", "output": {"first": first}, "metrics": {"parts": 3 - first}}


def test_what_a_handler_says_is_kept(handler_bench: HandlerBench) -> None:
    run = handler_bench.run(plain, {"tile": "a"})
    assert run.output == {"tile": "a", "sizes": {"each": 1}}
    assert run.progress == [Progress(1, 2, "half")]
    assert "INFO tile a" in run.logs
    assert not run.stopped


def test_parameters_are_checked_by_the_model(handler_bench: HandlerBench) -> None:
    with pytest.raises(ParamsRefused, match="params /size: Input should be a valid integer"):
        handler_bench.run(plain, {"tile": "a", "size": "b"})


def test_exceptions_reach_the_test(handler_bench: HandlerBench) -> None:
    def fails(ctx: Context) -> None:
        raise ctx.params["error"]

    for error in (NonRetryableError("never"), RetryLater(5), ZeroDivisionError("x")):
        with pytest.raises(type(error)) as raised:
            handler_bench.run(fails, {"error": error})
        assert raised.value is error


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ({"mean": float("nan")}, "nan is not a JSON number at '/mean'"),
        ([1, 2], r"returned list \[1, 2\]: return a HandlerResult, a dict or None"),
        (HandlerResult(success=False, error_message="no data"), "no data"),
    ],
)
def test_what_the_platform_would_refuse_fails_the_test(
    returned: Any, message: str, handler_bench: HandlerBench
) -> None:
    with pytest.raises(RunFailed, match=message) as raised:
        handler_bench.run(lambda ctx: returned)
    assert isinstance(raised.value.error_kind, ErrorKind)


def test_a_run_is_stopped_on_demand_and_goes_on_from_its_checkpoint(handler_bench: HandlerBench) -> None:
    first = handler_bench.run(phases, stop_when=lambda seen: len(seen.checkpoints) == 2)
    assert first.stopped
    assert first.output is None
    assert [phase for phase, _ in first.checkpoints] == ["part-0", "part-1"]
    second = handler_bench.run(phases, resume=first.checkpoints[-1], attempt=2)
    assert second.output == {"first": 2}
    assert second.metrics == {"parts": 1}


def test_the_handler_sees_why_it_is_to_stop(handler_bench: HandlerBench) -> None:
    def polite(ctx: Context) -> None:
        for step in range(10):
            ctx.progress(step)
            if ctx.cancelled:
                assert ctx.stop_reason is StopReason.TIMEOUT
                raise TaskInterrupted

    run = handler_bench.run(polite, stop_when=lambda seen: len(seen.progress_calls) > 3, stop_reason=StopReason.TIMEOUT)
    assert run.stopped
    assert len(run.progress) == 4


def test_files_lie_in_a_folder(handler_bench: HandlerBench, tmp_path: Path) -> None:
    def upper(ctx: Context) -> HandlerResult:
        source = ctx.storage.read(BlobAddress(Zone.BRONZE, "in", ctx.params["path"]))
        (ctx.scratch / "upper.txt").write_bytes(source.upper())
        made = ctx.storage.upload(ctx.scratch / "upper.txt", BlobAddress(Zone.SILVER, "out", "upper.txt"))
        warning = DataWarning(code="LOUD", message="it shouts")
        return HandlerResult(output={"made": made.model_dump(mode="json")}, records=(made.record("data"),)).model_copy(
            update={"warnings": (warning,)}
        )

    local = tmp_path / "words.txt"
    local.write_text("words")
    assert handler_bench.put(local).path == "words.txt"
    assert handler_bench.put("more words", "notes/more.txt").size_bytes == 10
    run = handler_bench.run(upper, {"path": "notes/more.txt"})
    assert handler_bench.path(run.output["made"]).read_text() == "MORE WORDS"
    assert handler_bench.files(Zone.SILVER) == ["out/upper.txt"]
    assert [record.type for record in run.records] == ["blob"]
    assert [warning.code for warning in run.warnings] == ["LOUD"]


def test_a_handler_is_found_by_its_name(handler_bench: HandlerBench) -> None:
    assert handler_bench.run("echo", {"a": 1}).output == {"echoed_params": {"a": 1}}
    with pytest.raises(LookupError, match="no handler 'ecko': import the module"):
        handler_bench.run("ecko")


def test_a_context_alone_is_enough_to_call_the_function(handler_bench: HandlerBench) -> None:
    ctx = handler_bench.context(Tile(tile="b"), job_id="j", node_id="n")
    assert plain(ctx)["tile"] == "b"
    assert ctx.idempotency_key == "j/n"


def test_an_async_handler_runs_inside_an_async_test(handler_bench: HandlerBench) -> None:
    async def waits(ctx: Context) -> dict[str, Any]:
        await asyncio.wait_for(asyncio.to_thread(int), 5)
        return {"name": ctx.params["name"]}

    async def test() -> Any:
        return handler_bench.run(waits, {"name": "Ada"}).output

    assert asyncio.run(test()) == {"name": "Ada"}
    assert handler_bench.run(waits, {"name": "Bea"}).output == {"name": "Bea"}
