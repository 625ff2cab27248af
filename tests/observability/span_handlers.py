"""Handlers that open spans of their own."""

import os
from pathlib import Path
from typing import Any

from opentelemetry import trace

from rmhdag.handlers import HandlerContext, handler

Context = HandlerContext[dict[str, Any]]


@handler("spans.plain")
def plain(ctx: Context) -> dict[str, Any]:
    with trace.get_tracer("mine").start_as_current_span("inside plain"):
        return {"trace_parent": ctx.trace_parent}


@handler("spans.light", light=True)
async def light(ctx: Context) -> dict[str, Any]:
    with trace.get_tracer("mine").start_as_current_span("inside light"):
        return {"trace_parent": ctx.trace_parent}


@handler("spans.die")
def die(ctx: Context) -> None:
    os._exit(9)


@handler("spans.fail")
def fail(ctx: Context) -> None:
    raise ValueError(f"no good: {ctx.params}")


@handler("spans.gate")
def gate(ctx: Context) -> dict[str, Any]:
    return {"said": Path(ctx.params["gate"]).read_text()}
