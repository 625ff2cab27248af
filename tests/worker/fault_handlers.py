"""Handlers that misbehave, for tests of workers."""

import asyncio
import ctypes
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from rmhdag.handlers import (
    DataWarning,
    HandlerContext,
    HandlerError,
    HandlerResult,
    LeaseLost,
    NonRetryableError,
    RetryLater,
    TaskInterrupted,
    handler,
)
from rmhdag.models.blobs import BlobAddress
from rmhdag.models.records import Zone
from rmhdag.worker.child import running

Context = HandlerContext[dict[str, Any]]
PAUSE_SECONDS = 0.02


@handler("test.gate")
def wait_at_gate(ctx: Context) -> dict[str, Any]:
    """Runs until the test lets it end."""
    print("at the gate", flush=True)
    return {"said": Path(ctx.params["gate"]).read_text(), "pid": os.getpid(), "epoch": ctx.lease_epoch}


@handler("test.hold", light=True)
async def wait_for_file(ctx: Context) -> None:
    """Runs until the test writes a file: also after its worker died, and when it runs again."""
    while not Path(ctx.params["until"]).exists():
        # Looking without a pause would take the processor from the processes that the test waits for.
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), PAUSE_SECONDS)


@handler("test.exit")
def leave(ctx: Context) -> None:
    os._exit(ctx.params.get("code", 137))


@handler("test.light_exit", light=True)
async def leave_together(ctx: Context) -> None:
    been_here = Path(ctx.params["gate"] + ".been_here")
    if not been_here.exists():
        been_here.touch()
        await asyncio.to_thread(Path(ctx.params["gate"]).read_text)
    os._exit(9)


@handler("test.kill_parent")
def kill_parent(ctx: Context) -> None:
    os.kill(os.getppid(), signal.SIGKILL)
    signal.pause()


@handler("test.segfault")
def segfault(ctx: Context) -> None:
    ctypes.string_at(0)


@handler("test.hold_interpreter")
def hold_interpreter(ctx: Context) -> dict[str, Any]:
    """One call into C that lets nobody else run, not even signal handlers."""
    number = 3 ** int(ctx.params["size"])
    return {"digits_of_bits": len(str(number.bit_length()))}


@handler("test.ignore")
def ignore_everything(ctx: Context) -> None:
    """Neither looks nor listens."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        try:
            signal.pause()
        except TaskInterrupted:
            continue


@handler("test.spin")
def spin(ctx: Context) -> None:
    while True:
        pass


@handler("test.spin_until_told")
def spin_until_told(ctx: Context) -> dict[str, Any]:
    while not ctx.cancelled:
        pass
    return {"reason": ctx.stop_reason}


@handler("test.grow")
def grow(ctx: Context) -> None:
    """Uses more and more memory, page by page, so that it is really used."""
    kept, pause = [], threading.Event()
    while True:
        kept.append(b"x" * (4 * 1024 * 1024))
        pause.wait(ctx.params.get("pause", 0.0))


@handler("test.fill_disk")
def fill_disk(ctx: Context) -> dict[str, Any]:
    """A file that may not grow beyond 64 KB stands for a disk that is full."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64 * 1024, before[1]))
    try:
        with ctx.replace_file(ctx.params["path"]) as part:
            part.write_bytes(b"x" * 1024 * 1024)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    return {}


@handler("test.fill_small_disk")
def fill_small_disk(ctx: Context) -> dict[str, Any]:
    with ctx.replace_file(ctx.params["path"]) as part:
        part.write_bytes(b"x" * 8 * 1024 * 1024)
    return {}


@handler("test.output")
def give_output(ctx: Context) -> Any:
    """Outputs that are no JSON, or too much of it."""
    outputs: dict[str, Callable[[], Any]] = {
        "nan": lambda: {"a": [float("nan")]},
        "bytes": lambda: {"a": b"x"},
        "nul": lambda: {"a": "x\0y"},
        "surrogate": lambda: {"a": "\ud800"},
        "huge_integer": lambda: {"a": 2**70},
        "deep": lambda: {"a": json.loads("[" * 70 + "]" * 70)},
        "reserved": lambda: {"a": [{"rmhdag:payload": {"sha256": "0" * 64}}]},
        "file": lambda: {"sha256": "0" * 64, "size_bytes": 70_000, "media_type": "application/json"},
        "list": lambda: [1, 2],
        "keys": lambda: {1: 2},
        "too_large": lambda: {"a": "x" * (65 * 1024 * 1024)},
        "large": lambda: {"a": "x" * 100_000, "n": 7},
        "nothing": lambda: None,
        "failure": lambda: HandlerResult(success=False, error_message="it did not work", metrics={"m": 1}),
        "exit": lambda: sys.exit(4),
    }
    return outputs[ctx.params["kind"]]()


@handler("test.publish")
def publish(ctx: Context) -> HandlerResult:
    place = {"zone": "silver", "container": "made", "size_bytes": 1, "sha256": "0" * 64, "role": "data"}
    records = [{"type": "blob", "path": f"{number}.tif", **place} for number in range(ctx.params["files"])]
    return HandlerResult.model_validate({"output": {"ok": 1}, "records": records})


@handler("test.accept_anything")
def pretend(ctx: Context) -> HandlerResult:
    """A result that passes our checks and that PostgreSQL refuses: past validation on purpose."""
    return HandlerResult.model_construct(success=True, output={"ok": 1}, metrics={"bad": "\0"}, records=())


@handler("test.later")
def later(ctx: Context) -> dict[str, Any]:
    if ctx.lease_epoch == 1:
        raise RetryLater(ctx.params["seconds"])
    return {"epoch": ctx.lease_epoch}


@handler("test.write_log")
def write_log(ctx: Context) -> dict[str, Any]:
    ctx.logger.info("by the logger")
    print("by print")
    os.write(1, b"past Python\n")
    line = "x" * 1000 + "\n"
    for _ in range(ctx.params.get("lines", 0)):
        print(line, end="")
    return {}


@handler("test.scratch")
def use_scratch(ctx: Context) -> dict[str, Any]:
    file = ctx.scratch / "file"
    file.write_text("x")
    if ctx.params.get("gate"):
        Path(ctx.params["gate"]).read_text()
    if ctx.params.get("die"):
        os._exit(1)
    return {"folder": str(ctx.scratch)}


@handler("test.subprocess")
def start_subprocess(ctx: Context) -> None:
    """Leaves something running that would outlive it."""
    started = subprocess.Popen(["sleep", "1000"])
    Path(ctx.params["pid_file"]).write_text(str(started.pid))
    os._exit(3)


@handler("test.checkpoint")
def save_checkpoint(ctx: Context) -> dict[str, Any]:
    """A plain function that saves, dies once, and tells where it began."""
    artifact = Path(ctx.params["artifact"])
    if ctx.resume is not None:
        return {"resumed_from": ctx.resume.phase, "data": ctx.resume.data}
    artifact.write_text("first half")
    ctx.checkpoint("half", {"x": 1, "blob": "b" * ctx.params.get("size", 0)}, artifact=artifact)
    if ctx.params.get("gate"):
        Path(ctx.params["gate"]).read_text()
    os._exit(1)


@handler("test.phases")
async def phases(ctx: Context) -> AsyncGenerator[Any, None]:
    """Goes on until it is stopped at a checkpoint."""
    number = ctx.resume.data["number"] if ctx.resume else 0
    while number < ctx.params["upto"]:
        number += 1
        yield {"type": "checkpoint", "phase": f"p{number}", "data": {"number": number}}
    yield {"type": "result", "output": {"number": number, "resumed": ctx.resume is not None}}


@handler("test.progress")
def tell_progress(ctx: Context) -> dict[str, Any]:
    for number in range(10_000):
        ctx.progress(number, 10_000, "counting")
    Path(ctx.params["gate"]).read_text()
    ctx.progress(10_000, 10_000)
    return {}


@handler("test.slow_progress")
def tell_progress_and_take_long(ctx: Context) -> dict[str, Any]:
    """Long enough for its start to be marked and its progress to be told."""
    pause = threading.Event()
    for number in range(10):
        ctx.progress(number, 10)
        pause.wait(0.1)
    return {}


@handler("test.far_along")
def tell_the_largest_number(ctx: Context) -> dict[str, Any]:
    ctx.progress(2**63 - 1)
    Path(ctx.params["gate"]).read_text()
    return {}


@handler("test.spy")
def look_around(ctx: Context) -> dict[str, Any]:
    return {
        "environment": sorted(os.environ),
        "modules": sorted(sys.modules),
        "no_new_privileges": "NoNewPrivs:\t1" in Path("/proc/self/status").read_text(),
    }


@handler("test.store")
def store(ctx: Context) -> dict[str, Any]:
    """Writes a blob and says what it reads there."""
    address = BlobAddress(Zone.SILVER, "made", ctx.task_id)
    ref = ctx.storage.write(address, ctx.params["text"].encode())
    return {"ref": ref.model_dump(mode="json"), "read": ctx.storage.read(ref.address).decode()}


@handler("test.store_after_gate")
def store_after_gate(ctx: Context) -> dict[str, Any]:
    """Waits, then writes to a name that every run of the task shares, and says what became of that."""
    Path(ctx.params["gate"]).read_text()
    told = Path(f"{ctx.params['gate']}.{ctx.lease_epoch}")
    told.with_suffix(".trying").touch()
    try:
        ctx.storage.write(BlobAddress(Zone.SILVER, "made", "latest.txt"), f"lease {ctx.lease_epoch}".encode())
    except LeaseLost:
        told.write_text("lost")
        raise
    told.write_text("written")
    return {"epoch": ctx.lease_epoch}


@handler("test.wait_with_subprocess")
def wait_with_subprocess(ctx: Context) -> None:
    started = subprocess.Popen(["sleep", "1000"])
    Path(ctx.params["pid_file"]).write_text(f"{os.getpid()} {started.pid}")
    started.wait()


@handler("test.many_checkpoints", light=True)
async def save_without_waiting(ctx: Context) -> dict[str, Any]:
    """Far quicker than they can be saved."""
    for number in range(ctx.params["count"]):
        ctx.checkpoint(f"p{number}", {"number": number})
    return {}


@handler("test.warn")
def warn(ctx: Context) -> HandlerResult:
    """Warns, and fails with a code if it is given one."""
    warnings = tuple(DataWarning(**one) for one in ctx.params.get("warnings", []))
    if "error" in ctx.params:
        return HandlerResult(success=False, error=HandlerError(**ctx.params["error"]), warnings=warnings)
    return HandlerResult(output={"made": True}, warnings=warnings)


@handler("test.part_of_it")
def do_a_part(ctx: Context) -> Any:
    """Counts until it is asked to stop, then returns what it has, as `how` says."""
    parts, pause = 0, threading.Event()
    while parts < 10_000 and not ctx.cancelled:
        parts += 1
        pause.wait(0.01)
    if ctx.params["how"] == "raise":
        raise RuntimeError(f"asked to stop after {parts} parts")
    if ctx.params["how"] == "complete":
        return HandlerResult(output={"parts": parts}, complete=True)
    return None if ctx.params["how"] == "none" else {"parts": parts}


@handler("test.catch_interruption")
def catch_interruption(ctx: Context) -> dict[str, Any]:
    """Does not look, and takes the interruption for an answer."""
    with suppress(TaskInterrupted):
        signal.pause()
    return {"parts": 1}


@handler("test.async_part_of_it", light=True)
async def do_a_part_lightly(ctx: Context) -> dict[str, Any]:
    try:
        while not (ctx.params["how"] == "looks" and ctx.cancelled):
            await asyncio.to_thread(threading.Event().wait, 0.01)
    except asyncio.CancelledError:
        pass
    return {"parts": 1}


@handler("test.phases_that_look")
async def look_between_phases(ctx: Context) -> AsyncGenerator[dict[str, Any], None]:
    while not ctx.cancelled:
        yield {"type": "progress", "current": 1}
        await asyncio.to_thread(threading.Event().wait, 0.01)
    if ctx.params["how"] != "ends":
        yield {"type": "result", "output": {"parts": 1}, "complete": ctx.params["how"] == "complete"}


@handler("test.hang_up")
def hang_up(ctx: Context) -> None:
    """Its connection to the worker ends some time before the process does, as when a process that crashes is slow."""
    link, pause = running.get(), threading.Event()
    assert link is not None
    pause.wait(1.5)  # longer than it was silent before
    link.channel.socket.shutdown(socket.SHUT_RDWR)
    if ctx.params["then"] == "crash":
        pause.wait(0.5)
        ctypes.string_at(0)
    signal.pause()


@handler("test.measure_secret")
def measure_secret(ctx: Context) -> dict[str, Any]:
    return {"characters": len(ctx.params["token"])}


@handler("test.tell_secret")
def tell_secret(ctx: Context) -> None:
    print("signing in with", ctx.params["token"], flush=True)
    ctx.progress(1, 2, f"as {ctx.params['token']}")
    raise RuntimeError(f"refused {ctx.params['token']}")


@handler("test.tell_secret_with_code")
def tell_secret_with_code(ctx: Context) -> HandlerResult:
    token = ctx.params["token"]
    error = HandlerError(
        code="CRS_MISSING",
        message=f"refused {token}",
        remediation=f"use another than {token}",
        details={"sent": [{token: token}]},
    )
    return HandlerResult(success=False, error=error, warnings=(DataWarning(code="MY_CODE", message=f"sent {token}"),))


@handler("test.save_secret_as_phase")
def save_secret_as_phase(ctx: Context) -> None:
    ctx.checkpoint(ctx.params["token"], {})


@handler("test.save_secret")
def save_secret(ctx: Context) -> None:
    ctx.checkpoint("signed-in", {"token": ctx.params["token"]})


@handler("test.tell_secret_across")
def tell_secret_across(ctx: Context) -> HandlerResult:
    """The secret lies across the place where the text is cut: `before` letters come first."""
    token = ctx.params["token"]
    text = "x" * ctx.params["before"] + token
    if ctx.params["how"] == "message":
        raise RuntimeError(text)
    if ctx.params["how"] == "code":
        raise NonRetryableError(text, code="CRS_MISSING")
    if ctx.params["how"] == "code from a thread":
        with ThreadPoolExecutor(1) as pool:
            pool.submit(_refuse, text).result()
    if ctx.params["how"] == "output":
        return [text]  # type: ignore[return-value]
    if ctx.params["how"] == "model":
        _Numbers.model_validate({"number": token})
    if ctx.params["how"] == "progress":
        ctx.progress(1, 2, text)
        Path(ctx.params["gate"]).read_text()
    if ctx.params["how"] == "log":
        print(text)
    if ctx.params["how"] == "log in pieces":
        print(text[:-5], end="")
        print(text[-5:])
    if ctx.params["how"] == "log without an end":
        print(text, end="")
    if ctx.params["how"] == "past Python":
        os.write(1, text[:-5].encode())
        os.write(1, text[-5:].encode() + b"\n")
    if ctx.params["how"] == "warning":
        return HandlerResult(warnings=(DataWarning(code="MY_CODE", message=text),))
    return HandlerResult()


def _refuse(text: str) -> None:
    raise NonRetryableError(text, code="CRS_MISSING")


class _Numbers(BaseModel):
    number: int
