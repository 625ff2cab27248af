"""The children of a fan-out in columns."""

from __future__ import annotations

import math
from typing import Any

from rmhdag.models.api.children import FanOutChildren
from rmhdag.models.states import NodeStatus
from rmhdag.store.connection import Conn
from rmhdag.store.queries import load_queries
from rmhdag.views.jobs import JobHead

SQL = load_queries(__file__)
LEGEND = list(NodeStatus)
DIGITS = {status.value: str(code) for code, status in enumerate(LEGEND)}


def read_children(
    conn: Conn, job: JobHead, node_id: str, *, first: int, limit: int, with_keys: bool, with_places: bool
) -> FanOutChildren:
    """The node is known to be a fan-out of the job. Children that are not born yet have the columns of pending ones."""
    parameters = {
        "job_id": job.job_id,
        "node_id": node_id,
        "origin_at": job.started_at,
        "first": first,
        "limit": limit,
        "with_keys": with_keys,
        "with_places": with_places,
    }
    row = conn.execute(SQL["total"], parameters).fetchone()
    total = 0 if row is None or row[0] is None else row[0]
    size = max(0, min(limit, total - first))
    statuses = [DIGITS[NodeStatus.PENDING]] * size
    attempts = [1] * size
    started: list[int | None] = [None] * size
    durations: list[int | None] = [None] * size
    keys: list[str | None] = [None] * size
    places: list[list[float] | None] = [None] * size
    for index, status, attempt, started_ms, duration_ms, key, where in conn.execute(SQL["children"], parameters):
        place = index - first
        if place >= size:
            break
        statuses[place], attempts[place] = DIGITS[status], attempt
        started[place], durations[place], keys[place] = started_ms, duration_ms, key
        places[place] = _place(where)
    return FanOutChildren.model_construct(
        job_id=job.job_id,
        node_id=node_id,
        total=total,
        first=first,
        next_first=first + size if first + size < total else None,
        origin_at=job.started_at,
        legend=LEGEND,
        statuses="".join(statuses),
        attempts=attempts,
        started_ms=started,
        duration_ms=durations,
        keys=keys if with_keys else None,
        places=places if any(place is not None for place in places) else None,
    )


def _place(value: Any) -> list[float] | None:
    """Parameters are whatever callers gave."""
    if not isinstance(value, list) or len(value) not in (2, 4):
        return None
    return value if all(type(number) in (int, float) and math.isfinite(number) for number in value) else None
