"""Jobs that were committed long after their end are found and summed up after all; old hours become days."""

from __future__ import annotations

from rmhdag.store import rollups
from rmhdag.store.connection import Conn


def run_once(conn: Conn) -> int:
    rewound = 0
    for namespace in rollups.namespaces(conn):
        rewound += rollups.rewind_rollups_if_late(conn, namespace) is not None
        rollups.fold_rollups(conn, namespace)
    return rewound
