"""Handlers to try the platform with. They come with workers in development mode (`rmhdag up`), and with those that name
this module (`rmhdag worker --handlers rmhdag.handlers.examples`): some hold a slot for as long as they are asked to.

They take the parameter names of the original system's test workflows too, so that those run as they are.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncGenerator
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from rmhdag.handlers.contract import HandlerContext, NonRetryableError
from rmhdag.handlers.registry import handler


class _Params(BaseModel):
    model_config = ConfigDict(extra="forbid")


Seconds = Annotated[float, Field(ge=0, le=86_400)]


@handler("echo")
def echo(ctx: HandlerContext[Any]) -> dict[str, Any]:
    """Returns its parameters. With `steps` above 1 it saves a checkpoint after each step but the last."""
    if "steps" in ctx.params:
        _take_steps(ctx)
    return {"echoed_params": ctx.params}


def _take_steps(ctx: HandlerContext[Any]) -> None:
    steps, pause = ctx.params["steps"], ctx.params.get("step_delay", 0)
    if not isinstance(steps, int) or isinstance(steps, bool) or not isinstance(pause, int | float):
        return  # echoes whatever it is given
    finished = ctx.resume.data["finished"] if ctx.resume else 0
    for step in range(finished + 1, min(steps, 1000) + 1):
        time.sleep(min(max(pause, 0), 60))
        ctx.progress(step, steps)
        if step < steps:
            ctx.checkpoint(f"step_{step}", {"finished": step})


class FlakyParams(BaseModel):
    model_config = ConfigDict(extra="allow")

    failure_rate: Annotated[float, Field(ge=0, le=1)] = 0.5


@handler("flaky_echo")
def flaky_echo(ctx: HandlerContext[FlakyParams]) -> dict[str, Any]:
    """Returns its parameters, or fails at the given rate; an attempt of a task always ends in the same way."""
    if random.Random(ctx.task_id).random() < ctx.params.failure_rate:
        raise RuntimeError(f"failed on purpose, as {ctx.params.failure_rate:.0%} of all attempts do")
    params = ctx.params.model_dump()
    return {
        "echoed_params": params,
        "retry_count": ctx.attempt - 1,
        "task_id": ctx.task_id,
        "handler": "flaky_echo",
    }


class HelloParams(_Params):
    name: Annotated[str, Field(max_length=200)] = "world"
    message: Annotated[str, Field(max_length=200, description="Instead of the greeting")] | None = None


class Greeting(BaseModel):
    message: str


@handler("hello_world", output=Greeting)
def hello_world(ctx: HandlerContext[HelloParams]) -> dict[str, Any]:
    """Greets somebody."""
    ctx.logger.info("greeting %s", ctx.params.name)
    return {"message": ctx.params.message or f"Hello, {ctx.params.name}!"}


class SleepParams(_Params):
    seconds: Seconds = 1.0
    duration_seconds: Annotated[Seconds, Field(description="The same as seconds")] | None = None


class Slept(BaseModel):
    slept_seconds: float
    slept_for: Annotated[float, Field(description="The same, if `duration_seconds` was given")] | None = None


@handler("sleep", output=Slept, light=True)
async def sleep(ctx: HandlerContext[SleepParams]) -> dict[str, Any]:
    """Waits, and holds nobody up: any number of them share a process."""
    duration = ctx.params.duration_seconds
    if duration is None:
        await asyncio.sleep(ctx.params.seconds)
        return {"slept_seconds": ctx.params.seconds}
    await asyncio.sleep(duration)
    return {"slept_seconds": duration, "slept_for": duration}


class FailParams(_Params):
    message: str = "failed on purpose"
    error_message: Annotated[str, Field(description="The same as message")] | None = None
    retryable: bool = True
    succeed_on_attempt: Annotated[int, Field(ge=1)] | None = None


class NotFailed(BaseModel):
    attempt: int


@handler("fail", output=NotFailed)
def fail(ctx: HandlerContext[FailParams]) -> dict[str, Any]:
    """Fails; with `succeed_on_attempt` only until then."""
    success_attempt = ctx.params.succeed_on_attempt
    if success_attempt is not None and ctx.attempt >= success_attempt:
        return {"attempt": ctx.attempt}
    raise (RuntimeError if ctx.params.retryable else NonRetryableError)(ctx.params.error_message or ctx.params.message)


class MultiPhaseParams(_Params):
    phases: Annotated[int, Field(ge=1, le=1000)] = 3
    seconds_per_phase: Seconds = 0.0
    fail_in_phase: Annotated[int, Field(ge=1)] | None = None
    fail_on_attempts: Annotated[int, Field(ge=0)] = 1


class DonePhases(BaseModel):
    phases: list[int]
    resumed_after: int


@handler("multi_phase", output=DonePhases)
async def multi_phase(ctx: HandlerContext[MultiPhaseParams]) -> AsyncGenerator[dict[str, Any], None]:
    """Works in phases and saves a checkpoint after each; a later run goes on after the last one saved."""
    params = ctx.params
    done: list[int] = list(ctx.resume.data["done"]) if ctx.resume else []
    resumed_after = len(done)
    for phase in range(resumed_after + 1, params.phases + 1):
        await asyncio.sleep(params.seconds_per_phase)
        if phase == params.fail_in_phase and ctx.attempt <= params.fail_on_attempts:
            raise RuntimeError(f"phase {phase} failed on purpose")
        done.append(phase)
        yield {"type": "progress", "current": phase, "total": params.phases, "message": f"phase {phase}"}
        yield {"type": "checkpoint", "phase": f"phase-{phase}", "data": {"done": done}}
    yield {"type": "result", "output": {"phases": done, "resumed_after": resumed_after}}


MB = 1024 * 1024


class SizeCheckParams(_Params):
    size_mb: Annotated[float, Field(ge=0)] | None = None
    size_bytes: Annotated[int, Field(ge=0, description="Instead of size_mb: the output has a route")] | None = None
    threshold_mb: Annotated[float, Field(ge=0)] = 100.0


class SizeCategory(BaseModel):
    size_mb: float
    category: Literal["small", "large"]
    is_large: bool
    size_bytes: int | None = None
    route: Annotated[Literal["light", "medium", "heavy"], Field(description="If `size_bytes` was given")] | None = None


@handler("size_check", output=SizeCategory)
def size_check(ctx: HandlerContext[SizeCheckParams]) -> dict[str, Any]:
    """Says whether something is small or large, for conditional nodes to go by."""
    size, size_bytes = ctx.params.size_mb, ctx.params.size_bytes
    if (size is None) == (size_bytes is None):
        raise NonRetryableError("give either size_mb or size_bytes")
    by_bytes: dict[str, Any] = {}
    if size_bytes is not None:
        size = size_bytes / MB
        by_bytes = {"size_bytes": size_bytes, "route": "light" if size < 100 else "medium" if size < 1024 else "heavy"}
    assert size is not None
    category: Literal["small", "large"] = "large" if size >= ctx.params.threshold_mb else "small"
    return {"size_mb": size, "category": category, "is_large": category == "large", **by_bytes}


class ChunkParams(_Params):
    chunk: list[Any] | None = None
    chunk_data: Annotated[list[Any], Field(description="The same as chunk")] | None = None
    chunk_id: Annotated[str | int, Field(description="A name for the chunk; it is in the output")] | None = None
    chunk_index: Annotated[int, Field(ge=0)] = 0
    seconds_per_item: Seconds = 0.0


class ChunkTotal(BaseModel):
    chunk_id: str | int | None = None
    chunk_index: int
    count: int
    total: float


@handler("chunk_processor", output=ChunkTotal)
def chunk_processor(ctx: HandlerContext[ChunkParams]) -> dict[str, Any]:
    """Goes through the items of a chunk, tells its progress and stops when it is told to."""
    items = ctx.params.chunk if ctx.params.chunk is not None else ctx.params.chunk_data
    if items is None:
        raise NonRetryableError("give the items as chunk or chunk_data")
    for number, _ in enumerate(items, 1):
        if ctx.cancelled:
            raise RuntimeError(f"stopped after {number - 1} of {len(items)} items")
        if ctx.params.seconds_per_item:
            time.sleep(ctx.params.seconds_per_item)
        ctx.progress(number, len(items))
    total = sum(item for item in items if isinstance(item, int | float) and not isinstance(item, bool))
    named = {} if ctx.params.chunk_id is None else {"chunk_id": ctx.params.chunk_id}
    return {"chunk_index": ctx.params.chunk_index, "count": len(items), "total": total, **named}
