"""Limits of namespaces and what they use, in Prometheus' words: of the caller's namespace all, of the others what was
counted anyway, and only of those that are nearest to a limit.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
from prometheus_client.core import GaugeMetricFamily, Metric

from rmhdag.models.quotas import Quotas
from rmhdag.store import quotas
from rmhdag.views.quotas import read_quotas_of

Conn = psycopg.Connection[Any]
MOST_NAMESPACES = 50
LABELS = ["namespace", "quota"]
# Limit and use, by quota.
Figures = dict[str, tuple[int, int | None]]


def quota_metrics(
    conn: Conn, defaults: Quotas, namespace: str, listeners: int | None, *, of_platform: bool
) -> Iterator[Metric]:
    own = read_quotas_of(conn, namespace, defaults, listeners)
    by_namespace: dict[str, Figures] = {namespace: {line.name: (line.limit, line.used) for line in own.quotas}}
    if of_platform:
        by_namespace |= _others(conn, defaults, namespace)
    limits = GaugeMetricFamily("rmhdag_quota_limit", "What a namespace may have", labels=LABELS)
    used = GaugeMetricFamily("rmhdag_quota_used", "What a namespace has of it, as counted last", labels=LABELS)
    for name, figures in by_namespace.items():
        for quota, (limit, use) in figures.items():
            limits.add_metric([name, quota], limit)
            if use is not None:
                used.add_metric([name, quota], use)
    yield limits
    yield used


def _others(conn: Conn, defaults: Quotas, namespace: str) -> dict[str, Figures]:
    """Those that have used the largest part of any quota, as far as orchestrators count them."""
    rows = quotas.list_namespaces(conn)
    held = {tasks.namespace: tasks.held for tasks in quotas.running_tasks(conn)}
    figures: dict[str, Figures] = {}
    for name, row in rows.items():
        if name != namespace:
            limits = defaults.with_overrides(row.quotas).as_json()
            counted = {**row.used, "running_tasks": held.get(name, 0)}
            figures[name] = {quota: (limits[quota], use) for quota, use in counted.items() if quota in limits}
    nearest = sorted(figures, key=lambda name: (-_fullness(figures[name]), name))[: MOST_NAMESPACES - 1]
    return {name: figures[name] for name in nearest}


def _fullness(figures: Figures) -> float:
    return max(((used or 0) / max(limit, 1) for limit, used in figures.values()), default=0.0)
