"""Freed memory goes back to the system.

glibc keeps what a thread has freed for the next use by that thread, so a process whose large values wander through a
dozen threads seems to grow for hours. Limits on what glibc keeps would cost a tenth of the throughput
(`give_memory_back`, in pairs by `scripts/bench-against`); a trim once a minute costs milliseconds.
"""

from __future__ import annotations

from rmhdag.machine.memory import trim
from rmhdag.orchestrator.context import Context

INTERVAL_SECONDS = 60.0


def run_once(context: Context) -> int:
    return int(trim())
