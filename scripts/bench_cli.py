"""What each command of the command line costs, in milliseconds: of the processor time, which other processes disturb
less, and of the wall clock. Each is measured twice: where the API of a running `rmhdag up` answers, and where only an
embedded database runs, so that a command loads the application itself. The commands take turns, so that all of them
see the same machine. Commands that run until they are stopped, and laboratories, are measured by their `--help`.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
LEFT_OUT = ("PYTHONDONTWRITEBYTECODE", "RMHDAG_DATABASE_URL", "DATABASE_URL", "RMHDAG_URL", "RMHDAG_CONFIG")
QUEUES = {"JOB_QUEUE_NAME": "jobs", "DAG_WORKER_QUEUE": "light-tasks", "WORKER_QUEUE": "heavy-tasks"}
START_SECONDS = 120
# The command succeeded, or the platform answered that there is no such thing, or that its state forbids it.
ANSWERS = (0, 4, 6)
LIMITS_MS = {"api": 400, "alone": 900}
COMMANDS = {
    "--help": "--help",
    "up": "up --help",
    "demo": "demo --help",
    "submit": "submit hello_world",
    "jobs": "jobs",
    "job": "job {job}",
    "logs": "logs {job}",
    "cancel": "cancel {job} --dry-run",
    "retry": "retry {job} --dry-run",
    "approvals": "approvals",
    "decide": "decide {job} review approve",
    "assets": "assets",
    "asset": "asset none",
    "rollback": "rollback none 1",
    "unpublish": "unpublish none",
    "promoted": "promoted",
    "catalogue": "catalogue remove none none --dry-run",
    "storage": "storage --help",
    "workflows": "workflows list",
    "queues": "queues",
    "quotas": "quotas show",
    "dead-letters": "dead-letters",
    "services": "services",
    "callbacks": "callbacks",
    "orchestrators": "orchestrators",
    "workers": "workers",
    "orchestrator": "orchestrator --help",
    "worker": "worker --help",
    "api": "api --help",
    "keys": "keys list",
    "audit": "audit",
    "validate": "validate src/rmhdag/workflows/hello_world.yaml",
    "graph": "graph src/rmhdag/workflows/fan_out_test.yaml",
    "schema": "schema",
    "sample-data": "sample-data --help",
    "simulate": "simulate --help",
    "bench": "bench --help",
    "chaos": "chaos --help",
    "prune": "prune --dry-run",
    "db": "db status",
    "doctor": "doctor",
    "config": "config show",
    "version": "version",
}


class CommandLine:
    """The commands of one tree, with a home of their own."""

    def __init__(self, tree: Path, home: Path) -> None:
        self._tree = tree
        self.environment = {name: value for name, value in os.environ.items() if name not in LEFT_OUT}
        self.environment |= {"RMHDAG_HOME": str(home), **QUEUES}

    def run(self, *words: str, codes: tuple[int, ...] = (0,)) -> str:
        done = subprocess.run(
            [str(self._tree / ".venv/bin/rmhdag"), *words],
            cwd=self._tree,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        if done.returncode not in codes:
            sys.exit(f"rmhdag {' '.join(words)} ended with {done.returncode}: {done.stderr.strip()}")
        return done.stdout.strip()

    @contextmanager
    def up(self) -> Iterator[None]:
        """With database, orchestrator, worker and API."""
        command = [str(self._tree / ".venv/bin/rmhdag"), "up", "--json"]
        process = subprocess.Popen(command, cwd=self._tree, env=self.environment, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            if not process.stdout.readline():
                sys.exit("rmhdag up did not start")
            yield
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(START_SECONDS)

    @contextmanager
    def database(self) -> Iterator[None]:
        self.run("db", "start")
        try:
            self.run("db", "migrate", "--yes")
            self.run("workflows", "register", "--shipped")
            yield
        finally:
            self.run("db", "stop")


def used_seconds() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return children.ru_utime + children.ru_stime


def python_ms() -> float:
    """What Python itself costs now: it tells how much other processes slow this machine down."""
    before = used_seconds()
    for _ in range(10):
        subprocess.run([sys.executable, "-c", "pass"], check=True)
    return round((used_seconds() - before) * 100, 1)


def measure(tree: Path, runs: int, only: list[str]) -> dict[str, dict[str, float]]:
    with tempfile.TemporaryDirectory(prefix="rmhdag-bench-") as folder:
        # PostgreSQL runs as a user of its own and has to reach its data.
        os.chmod(folder, 0o755)
        lines = {"api": CommandLine(tree, Path(folder) / "up"), "alone": CommandLine(tree, Path(folder) / "database")}
        with lines["api"].up(), lines["alone"].database():
            return _measure(lines, runs, {name: COMMANDS[name] for name in only or COMMANDS})


def _measure(lines: Mapping[str, CommandLine], runs: int, commands: Mapping[str, str]) -> dict[str, dict[str, float]]:
    jobs = {where: line.run("submit", "hello_world") for where, line in lines.items()}
    lines["api"].run("job", jobs["api"], "--wait")
    walls: dict[tuple[str, str], list[float]] = {(name, where): [] for name in commands for where in lines}
    processors: dict[tuple[str, str], list[float]] = {place: [] for place in walls}
    for _ in range(runs + 1):
        for name, where in walls:
            words = commands[name].format(job=jobs[where]).split()
            started, before = time.perf_counter(), used_seconds()
            lines[where].run(*words, codes=ANSWERS)
            walls[name, where].append((time.perf_counter() - started) * 1000)
            processors[name, where].append((used_seconds() - before) * 1000)
    # The first run writes the byte code and is not counted.
    return {
        f"rmhdag {name}{'' if where == 'api' else ' (alone)'}": _figures(
            walls[name, where][1:], processors[name, where][1:]
        )
        for name, where in walls
    }


def _figures(wall: list[float], processor: list[float]) -> dict[str, float]:
    return {
        "wall_median_ms": round(statistics.median(wall), 1),
        "wall_best_ms": round(min(wall), 1),
        "processor_median_ms": round(statistics.median(processor), 1),
        "processor_best_ms": round(min(processor), 1),
    }


def show_table(figures: Mapping[str, Mapping[str, float]], names: list[str]) -> None:
    """Processor time of each command, median and best, as a table for docs/performance.md."""
    print(f"| command | API answers (at most {LIMITS_MS['api']}) | loads it itself (at most {LIMITS_MS['alone']}) |")
    print("|---|---|---|")
    for name in names:
        cells = []
        for suffix in ("", " (alone)"):
            command = figures[f"rmhdag {name}{suffix}"]
            cells.append(f"{command['processor_median_ms']:.0f} / {command['processor_best_ms']:.0f}")
        print(f"| `{COMMANDS[name].replace('{job}', 'JOB')}` | {' | '.join(cells)} |")


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/bench-cli", description=__doc__)
    parser.add_argument("runs", nargs="?", type=int, default=5, help="runs of each command (default: 5)")
    parser.add_argument("--only", action="append", default=[], choices=list(COMMANDS), help="this command; repeatable")
    parser.add_argument("--tree", type=Path, default=HERE, help="another clone, set up, to measure instead of this one")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    arguments = parser.parse_args()
    figures = measure(arguments.tree.resolve(), arguments.runs, arguments.only)
    if arguments.json:
        print(json.dumps(figures))
    else:
        show_table(figures, arguments.only or list(COMMANDS))
        print(f"\nStarting Python takes {python_ms()} ms now.", file=sys.stderr)


if __name__ == "__main__":
    main()
