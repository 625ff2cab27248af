"""Jobs that were committed long after their end are found and summed up after all; old hours become days."""

from __future__ import annotations

from typing import Any

import psycopg

from rmhdag.store import rollups


def run_once(conn: psycopg.Connection[Any]) -> int:
    rewound = 0
    for namespace in rollups.namespaces(conn):
        rewound += rollups.rewind_rollups_if_late(conn, namespace) is not None
        rollups.fold_rollups(conn, namespace)
    return rewound
