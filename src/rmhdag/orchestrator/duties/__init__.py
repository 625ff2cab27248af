"""What an orchestrator does beside advancing jobs: one file per duty, each with a `run_once`."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

from rmhdag.orchestrator.context import OrchestratorSettings
from rmhdag.orchestrator.duties import claim_submissions, dead_workers, delayed_tasks, orphans, strays, timers

# duty → how often
ALL: dict[ModuleType, Callable[[OrchestratorSettings], float]] = {
    claim_submissions: lambda settings: settings.poll_seconds,
    timers: lambda settings: settings.timer_seconds,
    delayed_tasks: lambda settings: settings.timer_seconds,
    orphans: lambda settings: settings.orphan_scan_seconds,
    dead_workers: lambda settings: settings.orphan_scan_seconds,
    strays: lambda settings: settings.poll_seconds * 2,
}

__all__ = ["ALL", "claim_submissions", "dead_workers", "delayed_tasks", "orphans", "strays", "timers"]
