"""Runs a handler and returns an outcome. The only place where exceptions become values."""

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
from rmhdag.handlers.contract import clean_text as clean_text
from rmhdag.handlers.params import OutputRefused, ParamsRefused, checked_output, read_params
from rmhdag.handlers.registry import HandlerSpec
from rmhdag.models.data_warnings import KEPT_CHARACTERS, MOST_COUNTED, MOST_KINDS, REST, REST_MESSAGE
from rmhdag.models.events import ErrorKind
from rmhdag.models.handler_result import DataWarning, HandlerError, HandlerResult
from rmhdag.models.json_values import NotJsonError, encode_json
from rmhdag.models.limits import MESSAGE_CHARACTERS
from rmhdag.models.records import RecordsTooLargeError, encode_records
from rmhdag.observability.secrets import mask_and_cut, mask_value

MESSAGE_LENGTH = MESSAGE_CHARACTERS
DISK_ERRORS = {
    errno.ENOSPC: "disk full",
    errno.EDQUOT: "disk full (quota)",
    errno.EFBIG: "disk full (file size limit)",
    errno.EROFS: "disk is read-only",
}


class Outcome(NamedTuple):
    """The outcome of a run: an output, a failure, a request to be retried later, or stopped on request."""

    output: bytes | None = None
    error_kind: ErrorKind | None = None
    error_message: str | None = None
    metrics: dict[str, Any] | None = None
    delay_seconds: float | None = None
    stopped: bool = False
    records: bytes | None = None
    error: bytes | None = None
    warnings: bytes | None = None


def prepare(spec: HandlerSpec, ctx: HandlerContext[Any]) -> Outcome | None:
    """Read the parameters and verify the checkpoint; returns an outcome only if the run cannot begin."""
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
            return _with_error(ErrorKind.NON_RETRYABLE, _known_error("INVALID_PARAMETER", str(error)))
    return None


def run_plain(spec: HandlerSpec, ctx: HandlerContext[Any]) -> Outcome:
    """Run a handler that is a plain function."""
    try:
        refused = prepare(spec, ctx)
        if refused is not None:
            return refused
        return _concluded(spec, ctx, spec.function(ctx))
    except BaseException as error:
        return _outcome_of_error(ctx, error)


async def run_async(spec: HandlerSpec, ctx: HandlerContext[Any], saved: Callable[[], Any]) -> Outcome:
    """Run an async function or generator. `saved` is awaited after each checkpoint and returns once it is kept."""
    try:
        refused = prepare(spec, ctx)
        if refused is not None:
            return refused
        if spec.is_checkpointable:
            return await _drive(spec, ctx, saved)
        return _concluded(spec, ctx, await spec.function(ctx))
    except BaseException as error:
        return _outcome_of_error(ctx, error)


async def _drive(spec: HandlerSpec, ctx: HandlerContext[Any], saved: Callable[[], Any]) -> Outcome:
    """The checkpoint protocol. A run that was asked to stop ends at its next checkpoint, once that is saved."""
    phases: AsyncGenerator[Any, None] = spec.function(ctx)
    try:
        async for message in phases:
            if isinstance(message, HandlerResult):
                return _concluded(spec, ctx, message)
            kind = message.get("type") if isinstance(message, dict) else None
            more = {key: value for key, value in message.items() if key != "type"} if kind in _YIELDED else {}
            if kind not in _YIELDED or more.keys() - _YIELDED[kind]:
                return _failed(ErrorKind.NON_RETRYABLE, f"the handler yielded {_shown(message)}: {PROTOCOL}")
            if kind == "result":
                return _concluded(spec, ctx, HandlerResult.model_validate(more))
            if kind == "progress":
                ctx.progress(**more)
                continue
            ctx._link.checkpoint(*checked_checkpoint(more.get("phase"), more.get("data"), more.get("artifact")))
            await saved()
            if ctx.cancelled:
                return Outcome(stopped=True)
    finally:
        await phases.aclose()
    if ctx.cut_short_by() is not None:
        return Outcome(stopped=True)
    return _failed(ErrorKind.NON_RETRYABLE, "the handler ended without a result: yield {type: result, output: …} last")


_YIELDED = {
    "checkpoint": {"phase", "data", "artifact"},
    "progress": {"current", "total", "message"},
    "result": {"output", "metrics", "records", "warnings", "complete"},
}
PROTOCOL = (
    "yield {type: checkpoint, phase, data}, {type: progress, current, total, message} "
    "or {type: result, output, metrics, records, warnings, complete}"
)


def _concluded(spec: HandlerSpec, ctx: HandlerContext[Any], returned: Any) -> Outcome:
    """The handler's result, unless it was asked to stop and did not declare the result complete."""
    reason = ctx.cut_short_by()
    if reason is None or (isinstance(returned, HandlerResult) and returned.complete):
        return outcome_of(_shaped(spec, returned))
    ctx._link.log(
        f"The handler returned after it was asked to stop (stop_reason: {reason}), so what it returned does not count. "
        "If the work was done, return HandlerResult(output, complete=True).\n"
    )
    return Outcome(stopped=True)


def _shaped(spec: HandlerSpec, returned: Any) -> Any:
    """The result, checked against the handler's output model. Raises OutputRefused."""
    if spec.output is None:
        return returned
    if not isinstance(returned, HandlerResult):
        return checked_output(spec.output, returned)
    if not returned.success:
        return returned
    return returned.model_copy(update={"output": checked_output(spec.output, returned.output)})


def outcome_of(returned: Any) -> Outcome:
    if isinstance(returned, HandlerResult):
        warnings = _encoded_warnings(returned.warnings) if returned.warnings else None
        if not returned.success:
            return _returned_failure(returned)._replace(metrics=returned.metrics, warnings=warnings)
        outcome = _with_output(returned.output, returned.metrics or None)
        if returned.records and outcome.error_kind is None:
            outcome = _with_records(outcome, returned)
        return outcome if warnings is None else outcome._replace(warnings=warnings)
    if returned is None or isinstance(returned, dict):
        return _with_output(returned, None)
    return _failed(
        ErrorKind.OUTPUT_REFUSED,
        f"the handler returned {_shown(returned)}: return a HandlerResult, a dict or None",
    )


def _with_output(output: Any, metrics: dict[str, Any] | None) -> Outcome:
    """Encoded once here: the worker passes the text on without parsing it."""
    try:
        return Outcome(output=encode_json(output), metrics=metrics)
    except NotJsonError as error:
        return _failed(ErrorKind.OUTPUT_REFUSED, f"output refused: {error}")


def _with_records(outcome: Outcome, returned: HandlerResult) -> Outcome:
    try:
        return outcome._replace(records=encode_records(returned.records))
    except RecordsTooLargeError as error:
        return _failed(ErrorKind.OUTPUT_REFUSED, f"records refused: {error}")


def _returned_failure(returned: HandlerResult) -> Outcome:
    if returned.error is None:
        return _failed(ErrorKind.HANDLER_ERROR, str(returned.error_message))
    kind = ErrorKind.HANDLER_ERROR if returned.error.retryable else ErrorKind.NON_RETRYABLE
    return _with_error(kind, returned.error, returned.error_message)


def _encoded_warnings(warnings: tuple[DataWarning, ...]) -> bytes:
    """Equal warnings are merged with a count; those beyond the limit are only counted."""
    counts: dict[tuple[str, str], int] = {}
    for warning in warnings:
        key = (warning.code, mask_and_cut(clean_text(warning.message), KEPT_CHARACTERS))
        counts[key] = counts.get(key, 0) + warning.count
    rest = sum(list(counts.values())[MOST_KINDS:])
    groups = list(counts.items())[:MOST_KINDS]
    if rest:
        groups.append(((REST, REST_MESSAGE), rest))
    entries = [
        {"code": code, "message": message, "count": min(count, MOST_COUNTED)} for (code, message), count in groups
    ]
    return orjson.dumps(entries)


def _traceback_text(error: BaseException) -> str:
    """Begins in the handler: the platform's own frames above it would hide where to look."""
    start = error.__traceback__
    while start is not None and start.tb_frame.f_code.co_filename == __file__:
        start = start.tb_next
    return "".join(traceback.format_exception(type(error), error, start or error.__traceback__))


def _outcome_of_error(ctx: HandlerContext[Any], error: BaseException) -> Outcome:
    is_cut_short = ctx.cut_short_by() is not None
    is_asked_to_stop = ctx.stop_reason is not None
    if isinstance(error, TaskInterrupted | asyncio.CancelledError) and is_asked_to_stop:
        return Outcome(stopped=True)
    if isinstance(error, LeaseLost):
        # If the worker wakes up and the lease was not lost, the task is released: no attempt is used up.
        return Outcome(stopped=True)
    if isinstance(error, RetryLater):
        reason = f": {error.reason}" if error.reason else ""
        ctx._link.log(f"asks to be called again in {error.seconds:g} s{reason}\n")
        return Outcome(delay_seconds=error.seconds, stopped=is_asked_to_stop)
    ctx._link.log(_traceback_text(error))
    is_final = isinstance(error, NonRetryableError) and ctx.stop_reason is StopReason.STOPPING
    if is_cut_short and not is_final:
        return Outcome(stopped=True)
    if isinstance(error, OutputRefused):
        return _failed(ErrorKind.OUTPUT_REFUSED, str(error))
    if isinstance(error, NonRetryableError) and error.error is not None:
        # From its own text, which was not cut yet.
        failure = error.error.model_copy(update={"message": _masked(str(error)) or error.error.code})
        return _with_error(ErrorKind.NON_RETRYABLE, failure)
    if isinstance(error, NonRetryableError):
        return _failed(ErrorKind.NON_RETRYABLE, _told(error, with_name=False))
    if isinstance(error, NotJsonError | ValidationError) and not isinstance(error, ArtifactError):
        return _failed(ErrorKind.NON_RETRYABLE, f"{type(error).__name__}: {error}")
    code = _code_of(error)
    if code is not None:
        return _with_error(ErrorKind.HANDLER_ERROR, _known_error(code, _told(error)))
    return _failed(ErrorKind.HANDLER_ERROR, _told(error))


def _code_of(error: BaseException) -> str | None:
    """The error code of an exception that any code may raise."""
    if isinstance(error, MemoryError):
        return "MEMORY_ERROR"
    return "DISK_FULL" if isinstance(error, OSError) and error.errno in DISK_ERRORS else None


def _known_error(code: str, message: str) -> HandlerError:
    return HandlerError(code=code, message=_masked(message) or code)


def _told(error: BaseException, *, with_name: bool = True) -> str:
    if isinstance(error, MemoryError):
        return "out of memory: the process may not grow further (RMHDAG_TASK_MEMORY_MB)"
    if isinstance(error, OSError) and error.errno in DISK_ERRORS:
        return f"{DISK_ERRORS[error.errno]}: {error}"
    if isinstance(error, SystemExit):
        return f"the handler called sys.exit({error.code!r}): return or raise instead"
    name = type(error).__name__
    try:
        text = str(error)
    except Exception:
        # A broken `__str__` of an exception must not hide its type.
        return f"{name} (its text cannot be shown: str() of it fails)"
    if not text:
        return name
    return f"{name}: {text}" if with_name else text


def _failed(kind: ErrorKind, message: str) -> Outcome:
    """Libraries may quote their arguments, including connection strings, and events are kept for long."""
    return Outcome(error_kind=kind, error_message=_masked(message))


def _masked(message: str) -> str:
    return mask_and_cut(clean_text(message), MESSAGE_LENGTH)


def _with_error(kind: ErrorKind, error: HandlerError, message: str | None = None) -> Outcome:
    """A failure that has a code. Its texts are masked like any other."""
    failed = _failed(kind, message or error.message)
    report = mask_value(error.model_dump(mode="json"))
    report["message"] = _masked(error.message)
    return failed._replace(error=orjson.dumps(report))


def _shown(value: Any) -> str:
    text = repr(value)
    return f"{type(value).__name__} {mask_and_cut(text, 200)}{'…' if len(text) > 200 else ''}"
