"""Tests of handlers and workflows without a database, for users: see docs/testing.md."""

from __future__ import annotations

from rmhdag.testing.bench import HandlerBench, HandlerRun, RunFailed
from rmhdag.testing.fakes import hangs, in_turn, lost_worker, not_started, takes
from rmhdag.testing.jobs import Approval, Attempt, CommandRefused, Decision, Event, Node, VirtualJob
from rmhdag.testing.recording import Progress, Recording
from rmhdag.testing.workflows import run_workflow, start_workflow

__all__ = [
    "Approval",
    "Attempt",
    "CommandRefused",
    "Decision",
    "Event",
    "HandlerBench",
    "HandlerRun",
    "Node",
    "Progress",
    "Recording",
    "RunFailed",
    "VirtualJob",
    "hangs",
    "in_turn",
    "lost_worker",
    "not_started",
    "run_workflow",
    "start_workflow",
    "takes",
]
