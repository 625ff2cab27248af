"""What an orchestrator does beside advancing jobs: one file per duty, each with a `run_once`."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

from rmhdag.orchestrator.context import OrchestratorSettings
from rmhdag.orchestrator.duties import (
    backpressure,
    balance,
    claim_submissions,
    dead_workers,
    delayed_tasks,
    namespace_usage,
    orphans,
    owed,
    processed_results,
    running_quotas,
    silent_jobs,
    strays,
    stuck_dispatch,
    timers,
    unused_memory,
)

Duties = dict[ModuleType, Callable[[OrchestratorSettings], float]]

# duty → how often. What somebody waits for:
PROMPT: Duties = {
    claim_submissions: lambda settings: settings.poll_seconds,
    timers: lambda settings: settings.timer_seconds,
    delayed_tasks: lambda settings: settings.timer_seconds,
    running_quotas: lambda settings: settings.poll_seconds,
    strays: lambda settings: settings.poll_seconds * 2,
    owed: lambda settings: settings.owed_seconds / 2,
    balance: lambda settings: settings.orphan_scan_seconds * 2,
    backpressure: lambda settings: settings.backpressure_seconds,
}
# Who is alive, which nothing may hold up:
LIVENESS: Duties = {
    orphans: lambda settings: settings.orphan_scan_seconds,
    dead_workers: lambda settings: settings.orphan_scan_seconds,
}
# What may take long:
UPKEEP: Duties = {
    stuck_dispatch: lambda settings: settings.stuck_dispatch_seconds,
    silent_jobs: lambda settings: settings.stall_seconds / 5,
    processed_results: lambda settings: settings.processed_seconds,
    namespace_usage: lambda settings: settings.usage_seconds,
    unused_memory: lambda settings: unused_memory.INTERVAL_SECONDS,
}

# These take a small part of the time at most, however long they take.
NOBODY_WAITS = frozenset({running_quotas, strays, owed, balance, backpressure, *UPKEEP})
