"""Handlers to try the platform with. They come with every worker."""

from __future__ import annotations

import asyncio
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
    """Returns its parameters."""
    return {"echoed_params": ctx.params}


class HelloParams(_Params):
    name: Annotated[str, Field(max_length=200)] = "world"


class Greeting(BaseModel):
    message: str


@handler("hello_world", output=Greeting)
def hello_world(ctx: HandlerContext[HelloParams]) -> dict[str, Any]:
    """Greets somebody."""
    ctx.logger.info("greeting %s", ctx.params.name)
    return {"message": f"Hello, {ctx.params.name}!"}


class SleepParams(_Params):
    seconds: Seconds = 1.0


class Slept(BaseModel):
    slept_seconds: float


@handler("sleep", output=Slept, light=True)
async def sleep(ctx: HandlerContext[SleepParams]) -> dict[str, Any]:
    """Waits, and holds nobody up: any number of them share a process."""
    await asyncio.sleep(ctx.params.seconds)
    return {"slept_seconds": ctx.params.seconds}


class FailParams(_Params):
    message: str = "failed on purpose"
    retryable: bool = True
    succeed_on_attempt: Annotated[int, Field(ge=1)] | None = None


class NotFailed(BaseModel):
    attempt: int


@handler("fail", output=NotFailed)
def fail(ctx: HandlerContext[FailParams]) -> dict[str, Any]:
    """Fails; with `succeed_on_attempt` only until then."""
    wanted = ctx.params.succeed_on_attempt
    if wanted is not None and ctx.attempt >= wanted:
        return {"attempt": ctx.attempt}
    raise (RuntimeError if ctx.params.retryable else NonRetryableError)(ctx.params.message)


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


class SizeCheckParams(_Params):
    size_mb: Annotated[float, Field(ge=0)]
    threshold_mb: Annotated[float, Field(ge=0)] = 100.0


class SizeCategory(BaseModel):
    size_mb: float
    category: Literal["small", "large"]
    is_large: bool


@handler("size_check", output=SizeCategory)
def size_check(ctx: HandlerContext[SizeCheckParams]) -> dict[str, Any]:
    """Says whether something is small or large, for conditional nodes to go by."""
    size = ctx.params.size_mb
    category: Literal["small", "large"] = "large" if size >= ctx.params.threshold_mb else "small"
    return {"size_mb": size, "category": category, "is_large": category == "large"}


class ChunkParams(_Params):
    chunk: list[Any]
    chunk_index: Annotated[int, Field(ge=0)] = 0
    seconds_per_item: Seconds = 0.0


class ChunkTotal(BaseModel):
    chunk_index: int
    count: int
    total: float


@handler("chunk_processor", output=ChunkTotal)
def chunk_processor(ctx: HandlerContext[ChunkParams]) -> dict[str, Any]:
    """Goes through the items of a chunk, tells its progress and stops when it is told to."""
    items = ctx.params.chunk
    for number, _ in enumerate(items, 1):
        if ctx.cancelled:
            raise RuntimeError(f"stopped after {number - 1} of {len(items)} items")
        if ctx.params.seconds_per_item:
            time.sleep(ctx.params.seconds_per_item)
        ctx.progress(number, len(items))
    total = sum(item for item in items if isinstance(item, int | float) and not isinstance(item, bool))
    return {"chunk_index": ctx.params.chunk_index, "count": len(items), "total": total}
