"""What parent and child say to each other: JSON arrays, one per line, whose first member names what it is.

Many lines are parsed by one call: at thousands of tasks per second that is what keeps the parent cheap.
"""

from __future__ import annotations

from typing import Any

import orjson

Frame = list[Any]
RECEIVE_BYTES = 256 * 1024
# The largest output and its records, escaped, fit in; something that writes to the socket by accident does not.
MOST_FRAME_BYTES = 256 * 1024 * 1024


class FrameError(Exception):
    """The other side does not keep to the protocol."""


def encode(*frame: Any) -> bytes:
    return orjson.dumps(frame) + b"\n"


class FrameReader:
    """Bytes in, whole frames out; what is cut off waits for its rest."""

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
