"""Does anything grow? Memory, files, connections, rows and bytes at intervals, and a verdict on each."""

from __future__ import annotations

import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import psycopg

from rmhdag.lab.chaos.fleet import Fleet
from rmhdag.store.connection import connect

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
FEWEST_SAMPLES = 6
# The second half may end so much above its beginning and still be called flat: caches fill, vacuum comes and goes.
RELATIVE = 0.2
# Below these nobody minds: a fifth of nearly nothing.
ABSOLUTE = {"rss": 16 * 1024 * 1024, "fds": 16, "connections": 8, "rows": 2_000, "bytes": 16 * 1024 * 1024}

CONNECTIONS = b"SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name <> %s"
TABLES = b"""
    SELECT c.relname, COALESCE(s.n_live_tup, 0), pg_total_relation_size(c.oid)
    FROM pg_class AS c
    LEFT JOIN pg_stat_all_tables AS s ON s.relid = c.oid
    WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r' AND c.relname LIKE 'dag%%'
"""


class Sample(NamedTuple):
    seconds: float
    figures: dict[str, float]


class Sampler:
    """Looks at processes and tables until it is stopped. A figure is named kind/subject, such as rss/worker-1."""

    def __init__(self, dsn: Callable[[], str], schema: str, fleet: Fleet, interval_seconds: float) -> None:
        self._dsn = dsn
        self._schema = schema
        self._fleet = fleet
        self._interval_seconds = interval_seconds
        self._began = time.monotonic()
        self._stopping = threading.Event()
        self.samples: list[Sample] = []
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(60)

    def _run(self) -> None:
        while not self._stopping.wait(self._interval_seconds):
            with suppress(psycopg.OperationalError):
                self.samples.append(Sample(time.monotonic() - self._began, self._look()))

    def _look(self) -> dict[str, float]:
        figures: dict[str, float] = {}
        for member in self._fleet.members:
            if member.process is not None:
                figures |= process_figures(member.name, member.process.pid)
        with connect(self._dsn(), "chaos:sampler", autocommit=True) as conn:
            conn.execute("SELECT set_config('search_path', %s, false)", [self._schema])
            row = conn.execute(CONNECTIONS, ["chaos:sampler"]).fetchone()
            figures["connections/all"] = 0 if row is None else row[0]
            for table, rows, size in conn.execute(TABLES).fetchall():
                # Partitions of a table by day are one table.
                name = table.split("_20")[0]
                figures[f"rows/{name}"] = figures.get(f"rows/{name}", 0) + rows
                figures[f"bytes/{name}"] = figures.get(f"bytes/{name}", 0) + size
        return figures


def process_figures(name: str, pid: int) -> dict[str, float]:
    """Of a process and, for a worker, of all its children together; nothing if it has just ended."""
    figures: defaultdict[str, float] = defaultdict(float)
    with suppress(OSError, ValueError):
        for process_id in (pid, *_children_of(pid)):
            with suppress(OSError):
                pages = int(Path(f"/proc/{process_id}/statm").read_text(encoding="ascii").split()[1])
                figures[f"rss/{name}"] += pages * PAGE_BYTES
                figures[f"fds/{name}"] += len(list(Path(f"/proc/{process_id}/fd").iterdir()))
    return dict(figures)


def _children_of(pid: int) -> list[int]:
    children: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):
            children += [int(child) for child in (task / "children").read_text(encoding="ascii").split()]
    return children + [grandchild for child in children for grandchild in _children_of(child)]


class Trend(NamedTuple):
    first: float
    last: float
    highest: float
    per_hour: float
    flat: bool


def trends(samples: list[Sample]) -> dict[str, Trend]:
    """Of the second half: the first one is for filling caches, and for jobs to come of the age at which they go."""
    half = samples[len(samples) // 2 :]
    if len(half) < FEWEST_SAMPLES // 2:
        return {}
    names = dict.fromkeys(name for sample in half for name in sample.figures)
    return {
        name: _trend(name, [(sample.seconds, sample.figures[name]) for sample in half if name in sample.figures])
        for name in names
    }


def _trend(name: str, points: list[tuple[float, float]]) -> Trend:
    values = [value for _, value in points]
    slope = _slope(points)
    growth = slope * (points[-1][0] - points[0][0])
    middle = sorted(values)[len(values) // 2]
    allowed = max(ABSOLUTE[name.split("/")[0]], RELATIVE * middle)
    return Trend(values[0], values[-1], max(values), round(slope * 3600, 1), growth <= allowed)


def _slope(points: list[tuple[float, float]]) -> float:
    """Least squares."""
    count = len(points)
    mean_x = sum(x for x, _ in points) / count
    mean_y = sum(y for _, y in points) / count
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / spread if spread else 0.0


def growth_report(samples: list[Sample]) -> dict[str, Any]:
    """What grew is named; the other figures are there to be read."""
    figures = trends(samples)
    return {
        "samples": len(samples),
        "grew": sorted(name for name, trend in figures.items() if not trend.flat),
        "figures": {name: trend._asdict() for name, trend in sorted(figures.items())},
    }
