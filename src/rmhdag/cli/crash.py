"""RMHDAG_CRASH_AT: let a process die at a named commit, to see that nothing is lost. For tests, and for the curious."""

from __future__ import annotations

import os

from rmhdag.store.crash_points import arm


def arm_crash_point() -> None:
    point = os.environ.get("RMHDAG_CRASH_AT")
    if point:
        arm(point)
