"""How much memory a job takes: near enough to bound a cache by it, cheap enough to be asked in every turn."""

from __future__ import annotations

from itertools import islice
from sys import getsizeof
from typing import Any

from rmhdag.engine.run import JobRun

# Bytes as measured with CPython 3.11: the aggregate itself, a slot, a lane, the state of a fan-out, a child without a
# slot, one with a slot, a task that a rerun takes over.
JOB = 4_500
NODE = 220
LANE = 1_500
FAN_OUT = 1_400
CHILD = 2
ACTIVE_CHILD = 420
REUSED_CHILD = 190
SMALL_NUMBERS = range(-5, 257)  # there is only one of each
SAMPLES = 64


class JobSize:
    """The size of one aggregate. Inputs are measured once, and each output when it has come."""

    __slots__ = ("_measured_outputs", "_value_bytes")

    def __init__(self, run: JobRun) -> None:
        self._value_bytes = memory_of(run.input_params)
        self._measured_outputs = 0

    def of(self, run: JobRun) -> int:
        if len(run.outputs) > self._measured_outputs:
            fresh = islice(run.outputs.values(), self._measured_outputs, None)
            self._value_bytes += sum(100 + memory_of(value) for value in fresh)
            self._measured_outputs = len(run.outputs)
        size = JOB + NODE * len(run.slots) + LANE * len(run.lanes) + self._value_bytes
        for index in run.plan.fan_outs:
            fan = run.slots[index].fan
            if fan is not None:
                size += FAN_OUT + CHILD * fan.total + ACTIVE_CHILD * len(fan.active) + REUSED_CHILD * len(fan.reused)
        return size


def memory_of(value: Any, samples: int = SAMPLES) -> int:
    """Of a JSON value. Of a container with many members only some are looked at, evenly spread."""
    kind = type(value)
    if kind is str or kind is float:
        return getsizeof(value)
    if kind is int:
        return 0 if value in SMALL_NUMBERS else getsizeof(value)
    if kind is not list and kind is not dict:
        return 0
    count = len(value)
    members = value if kind is list else value.values()
    inside = max(4, samples // 4)
    if count <= samples:
        return getsizeof(value) + sum(memory_of(member, inside) for member in members)
    step = count // samples
    some = sum(memory_of(member, inside) for member in islice(members, 0, samples * step, step))
    if kind is dict:  # names of few members are shared by all objects of a text, those of many are not
        some += sum(map(getsizeof, islice(value, 0, samples * step, step)))
    return getsizeof(value) + some * count // samples
