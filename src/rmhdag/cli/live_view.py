"""A job while it runs: a line per node redrawn in place for a terminal, a line per change for everything else."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from datetime import datetime

from rmhdag.cli.data_errors import count_warnings, flat
from rmhdag.cli.operations import Operations
from rmhdag.cli.output import ESCAPE, has_colour, paint, say, write
from rmhdag.cli.tables import STATUS_STYLES, cut, on_one_line, show_duration
from rmhdag.client import Unavailable
from rmhdag.models.api.jobs import NodeCounts
from rmhdag.models.api.overviews import JobOverview, NodeOverview
from rmhdag.models.states import NodeType

SIGNS = {
    "pending": "·",
    "ready": "·",
    "dispatched": "▹",
    "running": "▸",
    "completed": "✓",
    "failed": "✗",
    "skipped": "-",
    "cancelled": "-",
}
HIDDEN = frozenset({NodeType.START.value, NodeType.END.value})
BAR_WIDTH = 20
# Between two looks, on the machine itself and at a server.
LOCAL_PACE_SECONDS = 0.2
PACE_SECONDS = 0.5
# Looking may take this share of the time: 100,000 children are counted in 30 ms.
LOOKING_SHARE = 0.1
LOST_SECONDS = 60.0
ETA_AFTER = 10
STEPS = 10


class Detached(Exception):
    """Ctrl-C: the viewer has left, the job goes on."""


class WaitTimeout(Exception):
    """The job has not ended in the time that was given."""


def watch_job(platform: Operations, job_id: str, *, timeout_seconds: float | None) -> JobOverview:
    """Show the job until it ends, and return its end."""
    show: Callable[[JobOverview], None] = Screen().show if sys.stderr.isatty() else PlainLines().show
    deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
    pace_seconds = LOCAL_PACE_SECONDS if platform.is_local else PACE_SECONDS
    try:
        while True:
            began = time.monotonic()
            job = look(platform, job_id, pace_seconds)
            show(job)
            if job.has_ended:
                return job
            if deadline is not None and time.monotonic() >= deadline:
                raise WaitTimeout
            pause = max(pace_seconds, (time.monotonic() - began) / LOOKING_SHARE)
            time.sleep(pause if deadline is None else min(pause, max(0.0, deadline - time.monotonic())))
    except KeyboardInterrupt:
        raise Detached from None


def look(platform: Operations, job_id: str, pace_seconds: float) -> JobOverview:
    """The job as it is now, also across a restart of the database or the server."""
    lost_at: float | None = None
    while True:
        try:
            return platform.overview(job_id)
        except Unavailable:
            if lost_at is None:
                lost_at = time.monotonic()
                say(f"{'the database' if platform.is_local else 'the server'} does not answer; trying again")
            if time.monotonic() - lost_at > LOST_SECONDS:
                raise
        time.sleep(pace_seconds)


class Screen:
    """Draws over what it drew before."""

    def __init__(self) -> None:
        self._drawn = 0

    def show(self, job: JobOverview) -> None:
        width, height = shutil.get_terminal_size()
        lines = [cut_styled(on_one_line(line), width - 1) for line in draw(job, max(5, height - 2))]
        up = f"{ESCAPE}[{self._drawn}A" if self._drawn else ""
        write(sys.stderr, up + "".join(f"{ESCAPE}[G{line}{ESCAPE}[K\n" for line in lines) + f"{ESCAPE}[J")
        self._drawn = len(lines)


class PlainLines:
    """For logs and pipes: what has changed since the last look."""

    def __init__(self) -> None:
        self._seen: dict[str, object] = {}
        self._attempts: dict[str, int] = {}
        self._before: dict[str, NodeOverview] = {}

    def show(self, job: JobOverview) -> None:
        for node in job.nodes:
            if node.attempt > self._attempts.get(node.node_id, 1) and node.error_message:
                self._attempts[node.node_id] = node.attempt
                if node.status != "failed":
                    say(f"{node.node_id}: {describe_retry(node, job.seen_at)}")
            before, self._before[node.node_id] = self._before.get(node.node_id), node
            if before is not None and (cause := describe_return(before, node)):
                say(f"{node.node_id}: {cause}")
            if node.type in HIDDEN or node.status in ("pending", "ready"):
                continue
            step = None if node.children is None else node.settled_children * STEPS // max(node.children.total, 1)
            now = (node.status, node.attempt, step)
            if self._seen.get(node.node_id) != now:
                self._seen[node.node_id] = now
                say(f"{node.node_id}: {describe(node, bar=False)}")


def draw(job: JobOverview, most_lines: int) -> list[str]:
    status = paint(job.status, STATUS_STYLES[job.status], sys.stderr)
    ending = f" (ending as {job.ending})" if job.ending and not job.has_ended else ""
    took = show_duration(job.duration_seconds)
    name = f"{job.workflow_id} v{job.workflow_version}  {job.job_id}"
    head = f"{name}  {status}{ending}  {job.settled_nodes}/{job.node_counts.total}  {took}"
    nodes = [node for node in job.nodes if node.type not in HIDDEN]
    warnings = []
    if job.warnings:
        kinds = ", ".join(warning.code for warning in job.warnings[:3]) + (", …" if len(job.warnings) > 3 else "")
        warnings = [paint(f"  ! {count_warnings(job.warnings)}: {kinds}", "33", sys.stderr)]
    room = most_lines - 1 - len(warnings)
    if len(nodes) > room:
        # What moves or has failed comes first; the rest is a number.
        busy = sorted(nodes, key=lambda node: node.status in ("pending", "completed", "skipped"))
        visible = {id(node) for node in busy[: room - 1]}
        hidden = len(nodes) - len(visible)
        nodes = [node for node in nodes if id(node) in visible]
        return [head, *draw_nodes(nodes), f"  … {hidden} more nodes", *warnings]
    return [head, *draw_nodes(nodes), *warnings]


def draw_nodes(nodes: list[NodeOverview]) -> list[str]:
    width = min(40, max((len(node.node_id) for node in nodes), default=0))
    lines = []
    for node in nodes:
        sign = paint(SIGNS[node.status], STATUS_STYLES[node.status], sys.stderr)
        lines.append(f"  {sign} {cut(node.node_id, 40):<{width}}  {describe(node, bar=True)}")
    return lines


def describe(node: NodeOverview, *, bar: bool) -> str:
    """A node in one line: the word for its status first, so that it can be searched for."""
    word = f"{node.status:<10}" if bar else node.status
    words = [paint(word, STATUS_STYLES[node.status], sys.stderr) if bar else word]
    if node.taken_over:
        return f"{words[0]} (taken over)"
    if node.children is not None:
        words.append(describe_children(node, node.children, bar=bar))
    if node.is_settled and node.started_at is not None:
        took = show_duration(node.duration_seconds)
        words.append(took if bar else f"in {took}")
    elif bar and node.status == "running" and node.children is None:
        words.append(show_duration(node.duration_seconds))
    if node.attempt > 1:
        words.append(f"attempt {node.attempt} of {max(node.max_retries + 1, node.attempt)}")
    if node.progress is not None and node.progress.progress_percent is not None:
        words.append(f"{node.progress.progress_percent:.0f} %")
    if node.progress is not None and node.progress.progress_message:
        words.append(on_one_line(node.progress.progress_message))
    # While it is tried again, plain lines have said it once.
    if node.error_message and (node.status == "failed" or (bar and not node.is_settled)):
        error = paint(" ".join(node.error_message.split())[:200], "31", sys.stderr)
        return " ".join([*words, error]) if bar else f"{' '.join(words)}: {error}"
    return " ".join(words)


def describe_return(before: NodeOverview, node: NodeOverview) -> str | None:
    """Why the same attempt begins once more, if it does."""
    if node.attempt != before.attempt or node.is_settled:
        return None
    if node.lease_losses > before.lease_losses:
        return "its worker was lost; another worker takes over"
    if before.status == "running" and node.status == "dispatched":
        return "its worker returned it; it continues later or on another worker"
    return None


def describe_retry(node: NodeOverview, now: datetime) -> str:
    """`attempt 1 of 4 failed: no luck; next try in 5.0s`."""
    most = max(node.max_retries + 1, node.attempt)
    words = f"attempt {node.attempt - 1} of {most} failed: {flat(node.error_message or 'no message')}"
    if node.next_attempt_at is None:
        return f"{words}; trying again"
    return f"{words}; next try in {show_duration((node.next_attempt_at - now).total_seconds())}"


def describe_children(node: NodeOverview, children: NodeCounts, *, bar: bool) -> str:
    """`███████░░░ 812/1000 3 failed ~12s left`."""
    total, settled = children.total, node.settled_children
    words = []
    if bar:
        full = BAR_WIDTH if not total else settled * BAR_WIDTH // total
        words.append("█" * full + "░" * (BAR_WIDTH - full))
    words.append(f"{settled}/{total}")
    if children.failed:
        words.append(paint(f"{children.failed} failed", "31", sys.stderr) if bar else f"{children.failed} failed")
    if bar and not node.is_settled and settled >= ETA_AFTER and node.duration_seconds:
        words.append(f"~{show_duration(node.duration_seconds / settled * (total - settled))} left")
    return " ".join(words)


def cut_styled(line: str, width: int) -> str:
    """At most so many visible characters; whatever style was on is ended."""
    width_used, out, index = 0, [], 0
    while index < len(line):
        if line.startswith(ESCAPE, index):
            end = line.index("m", index) + 1
            out.append(line[index:end])
            index = end
            continue
        if width_used == width:
            return "".join(out) + (f"{ESCAPE}[0m" if has_colour(sys.stderr) else "")
        out.append(line[index])
        width_used += 1
        index += 1
    return "".join(out)
