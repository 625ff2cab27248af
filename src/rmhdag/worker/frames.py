"""Frames between parent and child: JSON arrays, one per line, whose first member is the frame's name.

The two that every task needs are declared here, and both sides write and read them through that.

One call parses many lines: at thousands of tasks per second, this keeps the parent cheap.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import orjson

Frame = list[Any]
RECEIVE_BYTES = 256 * 1024
# Large enough for the largest output with its records, escaped; stops a program that writes to the socket by accident.
MOST_FRAME_BYTES = 256 * 1024 * 1024


class TaskFrame(NamedTuple):
    """A task, from the parent."""

    name: str
    key: int
    handler: str
    task_id: str
    job_id: str
    node_id: str
    attempt: int
    lease_epoch: int
    timeout_seconds: int
    namespace: str
    trace_parent: str | None
    checkpoint_phase: str | None
    checkpoint_data: Any
    params: Any
    # Forms of its secret inputs, for the masking of its texts.
    secrets: list[str]


class DoneFrame(NamedTuple):
    """What became of a task, from the child. `output`, `records`, `error` and `warnings` are JSON text already."""

    name: str
    key: int
    error_kind: str | None
    error_message: str | None
    began_ns: int
    took_ns: int
    output: str | None
    metrics: dict[str, Any] | None
    delay_seconds: float | None
    stopped: bool
    records: str | None
    error: str | None
    warnings: str | None


class FrameError(Exception):
    """The other side violates the protocol."""


def encode(*frame: Any) -> bytes:
    return orjson.dumps(frame) + b"\n"


class FrameReader:
    """Bytes in, whole frames out; an incomplete frame waits for its rest."""

    def __init__(self, most_bytes: int = MOST_FRAME_BYTES) -> None:
        self._rest: list[bytes] = []
        self._rest_bytes = 0
        self._most_bytes = most_bytes

    def feed(self, data: bytes) -> list[Frame]:
        cut = data.rfind(b"\n")
        if cut < 0:
            self._rest.append(data)
            self._rest_bytes += len(data)
            if self._rest_bytes > self._most_bytes:
                self._rest.clear()
                raise FrameError(f"a frame has more than {self._most_bytes} bytes")
            return []
        lines = b"".join([*self._rest, data[:cut]]).split(b"\n")
        self._rest = [data[cut + 1 :]] if cut + 1 < len(data) else []
        self._rest_bytes = len(data) - cut - 1
        try:
            frames: list[Any] = orjson.loads(b"[" + b",".join(lines) + b"]")
        except orjson.JSONDecodeError as error:
            raise FrameError(f"not a frame: {error}") from error
        if not all(isinstance(frame, list) and frame for frame in frames):
            raise FrameError("not a frame: an array that begins with its name is expected")
        return frames
