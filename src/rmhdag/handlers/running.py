"""A handler is run and becomes an outcome. Exceptions are turned into values here and nowhere else."""

from __future__ import annotations

import asyncio
import errno
import traceback
from collections.abc import AsyncGenerator, Callable
from typing import Any, NamedTuple

import orjson
from pydantic import ValidationError

from rmhdag.handlers.artifacts import ArtifactError, verify_artifact
from rmhdag.handlers.contract import (
    HandlerContext,
    LeaseLost,
    NonRetryableError,
    RetryLater,
    StopReason,
    TaskInterrupted,
    checked_checkpoint,
)
from rmhdag.handlers.params import ParamsRefused, read_params
from rmhdag.handlers.registry import HandlerSpec
from rmhdag.models.events import ErrorKind
from rmhdag.models.handler_result import HandlerResult
from rmhdag.models.json_values import NotJsonError, check_json
from rmhdag.models.limits import MESSAGE_CHARACTERS
from rmhdag.models.records import RecordsTooLargeError, encode_records
from rmhdag.observability.secrets import mask_text

MESSAGE_LENGTH = MESSAGE_CHARACTERS
DISK_ERRORS = {
    errno.ENOSPC: "disk full",
    errno.EDQUOT: "disk full (quota)",
    errno.EFBIG: "disk full (file size limit)",
    errno.EROFS: "disk is read-only",
}


class Outcome(NamedTuple):
    """What became of a run: an output, a failure, a wish to be called later, or stopped because it was told to."""

    output: bytes | None = None
    error_kind: ErrorKind | None = None
    error_message: str | None = None
    metrics: dict[str, Any] | None = None
    delay_seconds: float | None = None
    stopped: bool = False
    records: bytes | None = None


def prepare(spec: HandlerSpec, ctx: HandlerContext[Any]) -> Outcome | None:
    """Parameters read, checkpoint verified; an outcome only if the run ends before it begins."""
    if ctx.resume is not None:
        try:
            verify_artifact(ctx.resume.data)
        except ArtifactError as error:
            ctx.logger.warning("starting from the beginning, not from checkpoint %r: %s", ctx.resume.phase, error)
            ctx.resume = None
    if spec.params is not None:
        try:
            ctx.params = read_params(spec.params, ctx.params)
        except ParamsRefused as error:
            return _failed(ErrorKind.NON_RETRYABLE, str(error))
    return None


def run_plain(spec: HandlerSpec, ctx: HandlerContext[Any]) -> Outcome:
    """Run a handler that is a plain function."""
    try:
        refused = prepare(spec, ctx)
        if refused is not None:
            return refused
        return outcome_of(spec.function(ctx))
    except BaseException as error:
        return _outcome_of_error(ctx, error)


async def run_async(spec: HandlerSpec, ctx: HandlerContext[Any], saved: Callable[[], Any]) -> Outcome:
    """Run an async function or generator. `saved` is awaited after each checkpoint and returns once it is kept."""
    try:
        refused = prepare(spec, ctx)
        if refused is not None:
            return refused
        if spec.is_checkpointable:
            return await _drive(spec.function(ctx), ctx, saved)
        return outcome_of(await spec.function(ctx))
    except BaseException as error:
        return _outcome_of_error(ctx, error)


async def _drive(phases: AsyncGenerator[Any, None], ctx: HandlerContext[Any], saved: Callable[[], Any]) -> Outcome:
    """The checkpoint protocol. A run that was told to stop ends at its next checkpoint, once that is saved."""
    try:
        async for said in phases:
            if isinstance(said, HandlerResult):
                return outcome_of(said)
            kind = said.get("type") if isinstance(said, dict) else None
            more = {key: value for key, value in said.items() if key != "type"} if kind in _YIELDED else {}
            if kind not in _YIELDED or more.keys() - _YIELDED[kind]:
                return _failed(ErrorKind.NON_RETRYABLE, f"the handler yielded {_shown(said)}: {PROTOCOL}")
            if kind == "result":
                return outcome_of(HandlerResult.model_validate(more))
            if kind == "progress":
                ctx.progress(**more)
                continue
            ctx._link.checkpoint(*checked_checkpoint(more.get("phase"), more.get("data"), more.get("artifact")))
            await saved()
            if ctx.cancelled:
                return Outcome(stopped=True)
    finally:
        await phases.aclose()
    return _failed(ErrorKind.NON_RETRYABLE, "the handler ended without a result: yield {type: result, output: …} last")


_YIELDED = {
    "checkpoint": {"phase", "data", "artifact"},
    "progress": {"current", "total", "message"},
    "result": {"output", "metrics", "records"},
}
PROTOCOL = (
    "yield {type: checkpoint, phase, data}, {type: progress, current, total, message} "
    "or {type: result, output, metrics, records}"
)


def outcome_of(returned: Any) -> Outcome:
    if isinstance(returned, HandlerResult):
        if not returned.success:
            failed = _failed(ErrorKind.HANDLER_ERROR, str(returned.error_message))
            return failed._replace(metrics=returned.metrics)
        outcome = _with_output(returned.output, returned.metrics or None)
        return _with_records(outcome, returned) if returned.records and outcome.error_kind is None else outcome
    if returned is None or isinstance(returned, dict):
        return _with_output(returned, None)
    return _failed(
        ErrorKind.OUTPUT_REFUSED,
        f"the handler returned {_shown(returned)}: return a HandlerResult, a dict or None",
    )


def _with_output(output: Any, metrics: dict[str, Any] | None) -> Outcome:
    """Encoded here, once: the worker passes the text on without looking into it."""
    try:
        return Outcome(output=orjson.dumps(check_json(output)), metrics=metrics)
    except NotJsonError as error:
        return _failed(ErrorKind.OUTPUT_REFUSED, f"output refused: {error}")


def _with_records(outcome: Outcome, returned: HandlerResult) -> Outcome:
    try:
        return outcome._replace(records=encode_records(returned.records))
    except RecordsTooLargeError as error:
        return _failed(ErrorKind.OUTPUT_REFUSED, f"records refused: {error}")


def _outcome_of_error(ctx: HandlerContext[Any], error: BaseException) -> Outcome:
    reason = ctx.stop_reason
    if isinstance(error, TaskInterrupted | asyncio.CancelledError) and reason is not None:
        return Outcome(stopped=True)
    if isinstance(error, LeaseLost):
        # If the worker wakes and the lease was not lost after all, the task is given back: no attempt is used up.
        return Outcome(delay_seconds=0.0, stopped=reason is not None)
    if isinstance(error, RetryLater):
        return Outcome(delay_seconds=error.seconds, stopped=reason is not None)
    ctx._link.log("".join(traceback.format_exception(error)))
    if reason is StopReason.CANCELLED or reason is StopReason.TIMEOUT:
        return Outcome(stopped=True)
    if isinstance(error, NonRetryableError):
        return _failed(ErrorKind.NON_RETRYABLE, str(error) or type(error).__name__)
    if isinstance(error, NotJsonError | ValidationError) and not isinstance(error, ArtifactError):
        return _failed(ErrorKind.NON_RETRYABLE, f"{type(error).__name__}: {error}")
    return _failed(ErrorKind.HANDLER_ERROR, _told(error))


def _told(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return "out of memory: the process may not grow further (RMHDAG_TASK_MEMORY_MB)"
    if isinstance(error, OSError) and error.errno in DISK_ERRORS:
        return f"{DISK_ERRORS[error.errno]}: {error}"
    if isinstance(error, SystemExit):
        return f"the handler called sys.exit({error.code!r}): return or raise instead"
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _failed(kind: ErrorKind, message: str) -> Outcome:
    """Libraries like to quote what they were given, connection strings included; events keep it for ever."""
    return Outcome(error_kind=kind, error_message=mask_text(clean_text(message))[:MESSAGE_LENGTH])


def _shown(value: Any) -> str:
    text = repr(value)
    return f"{type(value).__name__} {text[:200]}{'…' if len(text) > 200 else ''}"


def clean_text(text: str) -> str:
    """Without what PostgreSQL cannot store in a text."""
    return text.replace("\0", "�").encode("utf-8", "replace").decode()
