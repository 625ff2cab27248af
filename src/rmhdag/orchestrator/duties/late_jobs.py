"""Jobs that were committed long after their end are found and summed up after all; old hours become days."""

from __future__ import annotations

from rmhdag.orchestrator.context import Context
from rmhdag.store import rollups


def run_once(context: Context) -> int:
    rewound = 0
    for namespace in rollups.namespaces(context.conn):
        rewound += rollups.rewind_rollups_if_late(context.conn, namespace) is not None
        rollups.fold_rollups(context.conn, namespace)
    return rewound
