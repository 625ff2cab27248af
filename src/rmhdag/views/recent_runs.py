"""The last jobs of workflows, as short lines beside each other."""

from __future__ import annotations

from collections.abc import Sequence

from rmhdag.models.api.metrics import RecentRun, RecentRuns
from rmhdag.store.connection import Conn
from rmhdag.store.queries import load_queries
from rmhdag.store.reading import read_all

SQL = load_queries(__file__)


class RunRow(RecentRun):
    workflow_id: str


def recent_runs(conn: Conn, namespace: str, workflows: Sequence[str], last: int) -> RecentRuns:
    """Oldest first; a workflow without jobs has an empty list."""
    runs: dict[str, list[RecentRun]] = {workflow_id: [] for workflow_id in workflows}
    parameters = {"namespace": namespace, "workflows": list(runs), "last": last}
    for row in read_all(conn, RunRow, SQL["recent_runs"], parameters):
        runs[row.workflow_id].append(row)
    return RecentRuns(runs={name: [RecentRun(**run.model_dump()) for run in of_it] for name, of_it in runs.items()})
